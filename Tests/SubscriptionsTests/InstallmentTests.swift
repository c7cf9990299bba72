import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Installments of Google Play")
struct InstallmentTests {
    /// A month of a commitment of which the customer cancelled the renewal.
    private static func story(
        payments: Int?, _ state: PurchaseSnapshot.State = .active, renews: Bool = true
    ) -> PlayStory {
        var story = PlayStory()
        story.answer(
            "2025-02-20T00:01:00Z", state, start: "2025-02-20", until: "2025-03-20", order: "G", renews: renews
        ) {
            $0.items[0].paymentsCommitted = payments
            $0.items[0].isEndingAfterCommitment = true
        }
        return story
    }

    @Test("that are cancelled are charged while payments are left, and end after as many months")
    func charged() throws {
        let subscription = Self.story(payments: 3).subscription

        #expect(subscription.status(at: day("2025-03-01")) == .activeWillEnd)
        let change = try #require(subscription.nextChange(after: day("2025-03-01")))
        #expect(change.at == day("2025-03-20"))
        #expect(change.renews)
        #expect(subscription.plannedEnd(at: day("2025-03-01")) == day("2025-06-20"))
        #expect(subscription.commitmentEnd(after: day("2025-03-20")) == day("2025-06-20"))
        #expect(subscription.renewal(at: .latest).autoRenewStatus == true)
        #expect(subscription.renewal(at: .latest).renewalDate == day("2025-03-20"))
    }

    @Test("that are cancelled end with the period that the last payment paid for", arguments: [0, nil] as [Int?])
    func over(payments: Int?) throws {
        let subscription = Self.story(payments: payments).subscription

        #expect(subscription.status(at: day("2025-03-01")) == .activeWillEnd)
        let change = try #require(subscription.nextChange(after: day("2025-03-01")))
        #expect(!change.renews)
        #expect(subscription.plannedEnd(at: day("2025-03-01")) == day("2025-03-20"))
        #expect(subscription.commitmentEnd(after: day("2025-03-20")) == nil)
        #expect(subscription.renewal(at: .latest).autoRenewStatus == false)
    }

    @Test("that Google has cancelled are charged no more, whatever payments are left")
    func ended() throws {
        let subscription = Self.story(payments: 3, .canceled, renews: false).subscription

        #expect(subscription.nextChange(after: day("2025-03-01"))?.renews == false)
        #expect(subscription.plannedEnd(at: day("2025-03-01")) == day("2025-03-20"))
    }
}
