import Encoding
import Subscriptions
import Testing

/// The sentences that changes carry, for the actions of the lifecycle table.
@Suite("A change says why it happened, in the words of the explanation")
struct ExplainedChangesTests {
    private static let first = row("1000000000000001", "2018-02-20", "2018-03-20")
    private static let second = row("1000000000000002", "2018-03-20", "2018-04-20")
    private static let on = intention(autoRenew: true)
    private static let off = intention(autoRenew: false)
    private static let bought = Told("2018-02-20", [first], [on])

    struct Example: CustomTestStringConvertible, Sendable {
        let kind: Change.Kind
        let at: String
        let told: [Told]
        /// How the reason begins; nil if there is none.
        let reason: String?

        var testDescription: String { "\(kind) on \(at)" }
    }

    static let examples = [
        Example(
            kind: .opened, at: "2018-02-21", told: [bought],
            reason: "Transaction 1000000000000001 (\(monthly)) was paid for from 20 Feb 2018 00:00:00 UTC to "
                + "20 Mar 2018 00:00:00 UTC (event 1)."),
        Example(
            kind: .extended, at: "2018-03-19", told: [bought, Told("2018-03-19", [first, second], [on])],
            reason: "Transaction 1000000000000002 (\(monthly)) was paid for from 20 Mar 2018 00:00:00 UTC to "
                + "20 Apr 2018 00:00:00 UTC (event 2)."),
        Example(
            kind: .shortened, at: "2018-03-19",
            told: [
                bought, Told("2018-03-19", [first, second], [on]),
                Told("2018-03-19", [first, second.refunded("2018-03-19")]),
            ],
            reason: "Transaction 1000000000000002 (\(monthly)) was refunded in full on 19 Mar 2018 00:00:00 UTC, so it "
                + "counts as never made (event 3)."),
        Example(
            kind: .closed, at: "2018-03-01", told: [bought, Told("2018-03-01", [first.refunded("2018-03-01")])],
            reason: "Transaction 1000000000000001 (\(monthly)) was refunded in full on 1 Mar 2018 00:00:00 UTC, so it "
                + "counts as never made (event 2)."),
        Example(
            kind: .closed, at: "2018-03-20", told: [bought, Told("2018-03-01", [first], [off])],
            reason:
                "Transaction 1000000000000001 (\(monthly)) ended on 20 Mar 2018 00:00:00 UTC: renewal was switched off "
                + "(event 2)."),
        Example(
            kind: .renewalSwitched, at: "2018-03-01", told: [bought, Told("2018-03-01", [first], [off])],
            reason: "Next, on 20 Mar 2018 00:00:00 UTC: access ends: renewal is switched off."),
        Example(kind: .nextProduct, at: "2018-03-01", told: [bought], reason: nil),
    ]

    @Test("each kind gives the rule that decides it", arguments: examples)
    func reasons(_ example: Example) {
        let facts = SubscriptionFacts(arriving: example.told)
        let change = Change(
            example.kind, of: testSubscription, at: day(example.at),
            cause: .event(position: Int64(example.told.count)))

        #expect(ExplainedChanges(facts, products: .empty).reason(of: change) == example.reason)
    }

    /// The sentence is a part of what `why` says about the same instant.
    @Test("the reason is in the explanation of the product")
    func sameWords() throws {
        let told = [Self.bought, Told("2018-03-01", [Self.first], [Self.off])]
        let facts = SubscriptionFacts(arriving: told)
        let explained = ExplainedCustomers([facts], links: CustomerLinks([]), policy: .standard)
        let owner = try #require(explained.customers.ownership.first?.owner)
        for (kind, at) in [
            (Change.Kind.opened, "2018-02-21"), (.closed, "2018-03-20"), (.renewalSwitched, "2018-03-01"),
        ] {
            let change = Change(kind, of: testSubscription, at: day(at), cause: .event(position: 2))
            let reason = try #require(ExplainedChanges(facts, products: .empty).reason(of: change))

            let sentence = explained.explanation(of: monthly, for: owner, at: day(at)).sentence

            #expect(sentence.contains(reason.dropFirst()), "\(sentence)")
        }
    }

    @Test("the new owner has the rule of the ownership, and a former one nothing")
    func owners() {
        let (a, b) = (CustomerKey(.account, "a"), CustomerKey(.link, "u-1"))
        let owned = Ownership(
            originalTransactionId: ByteString(testSubscription), owner: b, from: .earliest, until: .latest,
            reason: .link, position: 7)
        func reason(_ customer: CustomerKey) -> String? {
            [owned].reason(
                of: Change(
                    .customerChanged, of: testSubscription, at: day("2018-03-01"), cause: .ownership,
                    customer: customer))
        }

        #expect(
            reason(b) == "Subscription \(testSubscription) belongs to the customer by a link of the backend (event 7).")
        #expect(reason(a) == nil)
    }
}
