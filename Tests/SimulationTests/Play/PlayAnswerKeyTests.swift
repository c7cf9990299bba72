import Encoding
import Testing

@testable import Simulation

@Suite("The expected answers about Google Play say what a server cannot know")
struct PlayAnswerKeyTests {
    /// Since January 10, monthly.
    private func subscribed() -> PlayLife {
        var life = newPlayLife()
        life.buy(plusMonthly, at: day("2025-01-10T12:00:00Z"))
        return life
    }

    @Test("a cancellation that was restored is shown by no later answer, and no answer says when it was restored")
    func restored() {
        var life = subscribed()
        life.cancel(at: day("2025-01-20"))
        let cancelled = life

        life.restart(at: day("2025-01-25"))

        #expect(cancelled.status("2025-01-22") == .activeWillEnd)
        #expect(cancelled.key.statusBeforeAnswer(at: day("2025-01-22")) == nil)
        #expect(life.status("2025-01-22") == .activeWillEnd && life.status("2025-01-26") == .active)
        #expect(life.key.statusBeforeAnswer(at: day("2025-01-22")) == .active)
        #expect(life.key.statusBeforeAnswer(at: day("2025-01-26")) == .activeWillEnd)
    }

    @Test("a period that was taken back counts as refunded from its start, others do not")
    func takenBack() {
        var life = subscribed()
        let second = life.paidEnd
        life.renew()

        life.refund(at: second.advanced(by: .seconds(5 * 86_400)))

        #expect(life.status("2025-01-20") == .active)
        #expect(life.key.status(at: second.advanced(byMilliseconds: 1)) == .refunded)
        #expect(life.key.access.unbrokenEnd(at: day("2025-01-20")) == second)
        #expect(life.key.access.unbrokenEnd(at: second) == nil)
    }

    @Test("every product that a story sells is configured")
    func products() {
        let storyteller = PlayStoryteller()
        let configured = Set(Product.allOnGooglePlay(of: "com.example.app").map(\.id))
        for index in 0..<3 * PlayStory.allCases.count {
            let story = storyteller.story(at: index)
            #expect(
                Set(story.keys.flatMap(\.access.products).map(\.id)).isSubset(of: configured), "\(story.story.name)")
        }
        #expect(configured.contains("lifetime") && configured.contains("plus:monthly-prepaid"))
    }
}
