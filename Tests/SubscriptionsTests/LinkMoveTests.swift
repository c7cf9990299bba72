import Subscriptions
import Testing

@Suite("A link that moves a subscription has a customer from whom it moved")
struct LinkMoveTests {
    private static func example(
        _ story: OwnershipStory, _ policy: OwnershipPolicy = .latestBuyer
    ) -> ExplanationExample {
        ExplanationExample(
            rule: .linkMoved, reports: story.reports, statements: story.statements, policy: policy, customer: .u1,
            at: "2026-01-15", active: false, positions: [])
    }

    @Test("the former owner had a link on the subscription, or on the account token of its purchase")
    func moves() {
        for (story, position) in [(OwnershipStory.linkedTwice, Int64(3)), (.linkedPastTheToken, 4)] {
            let moves = Self.example(story).explained.linkMoves

            #expect(moves.map(\.from) == [.u1] && moves.map(\.to) == [.u2], "\(story.name): \(moves)")
            #expect(moves.map(\.originalTransactionId) == [testSubscription] && moves.map(\.position) == [position])
        }
    }

    @Test("a link that counts for nothing moves nothing, and neither does one that is shared")
    func none() {
        #expect(Self.example(.linkedTwice, .firstBuyer).explained.linkMoves.isEmpty)
        #expect(Self.example(.linkedTwice, .shared).explained.linkMoves.isEmpty)
    }

    @Test("each step of several is one, and a link on what nobody had is none")
    func steps() {
        let key = CustomerKey(.subscription, testSubscription)
        let story = OwnershipStory(
            name: "three customers", reports: [bought("61", "2026-01-01", "2026-02-01")],
            statements: [linked("u-1", key), linked("u-2", key), linked("u-2", key), linked("u-3", key)], access: [:])
        let moves = Self.example(story).explained.linkMoves

        #expect(moves.map(\.from.id.text) == ["u-1", "u-2"] && moves.map(\.to.id.text) == ["u-2", "u-3"])
        #expect(moves.map(\.position) == [3, 5])
    }

    @Test("the explanation names the customer that has it since")
    func explained() {
        let text = Self.example(.linkedTwice).explanation.because.first?.text
        #expect(text?.hasSuffix("from the customer to customer u-2") == true, "\(text ?? "")")
    }
}
