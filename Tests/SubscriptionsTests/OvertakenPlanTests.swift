import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("A plan that a purchase of another product overtakes")
struct OvertakenPlanTests {
    private static let quarter = row("1000000000000001", "2018-01-01", "2018-04-01")
    private static let year = row("1000000000000002", "2018-02-20", "2019-02-20", product: premium)

    private func signed(_ transaction: Transaction, _ date: String, reason: String = "PURCHASE") -> Transaction {
        var copy = transaction
        copy.signedDate = day(date)
        copy.transactionReason = reason
        return copy
    }

    @Test(
        "ends there without is_upgraded, in one receipt or in two, in any order", arguments: Arrival.allCases)
    func overtaken(_ arrival: Arrival) {
        let apart = [Told("2018-01-01", [Self.quarter]), Told("2018-02-20", [Self.year])]
        let together = [Told("2018-02-20", [Self.quarter, Self.year]), Told("2018-02-21", [Self.year, Self.quarter])]
        for told in [apart, together] {
            let subscription = Subscription(arriving: arrival.arrange(told))

            #expect(subscription.access.map(\.end) == [day("2018-02-20"), day("2019-02-20")])
            #expect(subscription.access.map(\.cut) == [.upgraded, nil])
            #expect(subscription.lapses.isEmpty)
        }
    }

    @Test("ends there with the mark as well, and with a cancellation date two seconds later")
    func marked() {
        var marked = Self.quarter
        marked.isUpgraded = true
        for date in [nil, "2018-02-20T00:00:02Z"] as [String?] {
            marked.revocationDate = date.map(day)
            let subscription = Subscription(arriving: [Told("2018-02-20", [marked, Self.year])])
            #expect(subscription.access.first?.end == day("2018-02-20"))
        }
    }

    @Test(
        "that a receipt shows as cancelled at that moment was upgraded, and later was refunded",
        arguments: [("2018-02-20", true), ("2018-02-20T00:00:02Z", true), ("2018-02-20T02:00:00Z", false)])
    func cancelled(_ date: String, _ isUpgrade: Bool) {
        let cancelled = Self.quarter.refunded(date)
        for told in [
            [Told("2018-02-20", [cancelled, Self.year])],
            [Told("2018-01-01", [Self.quarter]), Told(date, [cancelled]), Told("2018-02-20", [Self.year])],
            [Told("2018-02-20", [Self.year]), Told(date, [cancelled]), Told("2018-01-01", [Self.quarter])],
        ] {
            let subscription = Subscription(arriving: told)
            #expect(
                subscription.spans
                    == [isUpgrade ? Span("2018-01-01", "2019-02-20") : Span("2018-02-20", "2019-02-20")])
            #expect(subscription.transactions.first?.settled.isRefunded == !isUpgrade)
            #expect(subscription.transactions.first?.transaction.isUpgraded == isUpgrade)
            #expect(subscription.refunded.count == (isUpgrade ? 0 : 1))
        }
        // Alone, and with a kind of refund that is stated, it was refunded.
        #expect(Subscription(arriving: [Told(date, [cancelled])]).access.isEmpty)
        var stated = cancelled
        stated.revocationType = "REFUND_FULL"
        #expect(
            Subscription(arriving: [Told("2018-02-20", [stated, Self.year])]).spans
                == [Span("2018-02-20", "2019-02-20")])
    }

    @Test("ends there, however its replacement is reported")
    func signedReplacement() {
        for year in [Self.year, signed(Self.year, "2018-02-20")] {
            for quarter in [Self.quarter, signed(Self.quarter, "2018-01-01")] {
                let subscription = Subscription(
                    arriving: [Told("2018-01-01", [quarter]), Told("2018-02-20", [year])])
                #expect(subscription.access.map(\.cut) == [.upgraded, nil])
            }
        }
    }

    @Test("is not overtaken by a renewal, by the same product, or by what begins at its end")
    func others() {
        let renewal = signed(Self.year, "2018-02-20", reason: "RENEWAL")
        let same = row("1000000000000002", "2018-02-20", "2018-05-20")
        let next = row("1000000000000002", "2018-04-01", "2019-04-01", product: premium)
        for other in [renewal, same, next] {
            let subscription = Subscription(arriving: [Told("2018-02-20", [Self.quarter, other])])
            #expect(subscription.access.first { $0.transactionId == Self.quarter.transactionId }?.cut == nil)
        }
    }

    @Test("is not overtaken by a copy of an earlier purchase, or by a period of no length")
    func copies() {
        let before = row("1000000000000003", "2017-06-01", "2018-06-01", product: premium)
        let copy = row("1000000000000004", "2018-02-20", "2018-06-01", product: premium) {
            $0.webOrderLineItemId = before.webOrderLineItemId
        }
        let empty = row("1000000000000005", "2018-02-20", "2018-02-20", product: premium)
        for rows in [[before, Self.quarter, copy], [copy, Self.quarter, before], [Self.quarter, empty]] {
            let subscription = Subscription(arriving: [Told("2018-02-20", rows)])
            #expect(subscription.access.first { $0.productId == monthly }?.cut == nil)
        }
    }

    @Test("stays cut when the other purchase is refunded: a refund never adds access")
    func refundedReplacement() {
        let refunded = Self.year.refunded("2018-03-01")
        let subscription = Subscription(
            arriving: [Told("2018-02-20", [Self.quarter, Self.year]), Told("2018-03-01", [Self.quarter, refunded])])

        #expect(subscription.spans == [Span("2018-01-01", "2018-02-20")])
    }

    @Test("that was refunded and restored ends where it would have without the refund", arguments: Arrival.allCases)
    func restored(_ arrival: Arrival) {
        let told = [
            Told("2018-02-01", [Self.quarter.refunded("2018-02-01")]),
            Told("2018-02-20", [Self.quarter.refunded("2018-02-01"), Self.year]),
            Told("2018-03-01", [Self.year.refunded("2018-03-01")]), Told("2018-03-05", [Self.quarter]),
        ]
        let never = [
            Told("2018-02-20", [Self.quarter, Self.year]), Told("2018-03-01", [Self.year.refunded("2018-03-01")]),
        ]

        let arrived = arrival.arrange(told)
        // What arrives before a cancellation does not take it back.
        let isRestored = told.prefix(2).allSatisfy { arrived.takesBack($0, by: told[3]) }
        #expect(Subscription(arriving: arrived).spans == (isRestored ? Subscription(arriving: never).spans : []))
    }

    @Test("is explained by the purchase that overtook it")
    func explanation() {
        let explained = ExplainedCustomers(
            [SubscriptionFacts(arriving: [Told("2018-01-01", [Self.quarter]), Told("2018-02-20", [Self.year])])],
            links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        let reason = explained.explanation(
            of: monthly, for: CustomerKey(.subscription, testSubscription), at: day("2018-03-01")
        ).because.first

        #expect(reason?.rule == .replacedByUpgrade)
        #expect(reason?.positions == [2])
    }
}
