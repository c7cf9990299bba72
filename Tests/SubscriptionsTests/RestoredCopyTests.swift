import Subscriptions
import Testing

/// Copies of one purchase share a web_order_line_item_id and have different transaction ids. The latest statement about
/// any of them decides whether the purchase is refunded.
@Suite("Restored copies of one purchase")
struct RestoredCopyTests {
    private let bought = row("1000000000000001", "2018-01-01", "2018-02-01")
    private var restored: Transaction {
        row("1000000000000009", "2018-01-01", "2018-02-01") { $0.webOrderLineItemId = bought.webOrderLineItemId }
    }

    @Test(
        "the reversal of a refund restores every copy, whichever copy it names, unless it arrived before it",
        arguments: Arrival.allCases)
    func reversal(_ arrival: Arrival) {
        for reversed in [bought, restored] {
            let told = [
                Told("2018-01-05", [bought, restored]),
                Told("2018-01-10", [bought.refunded("2018-01-10"), restored.refunded("2018-01-10")]),
                Told("2018-01-12", [reversed]),
            ]

            let arrived = arrival.arrange(told)

            let subscription = Subscription(arriving: arrived)

            guard arrived.takesBack(told[1], by: told[2]) else {
                #expect(subscription.access == [])
                continue
            }
            #expect(subscription.spans == [Span("2018-01-01", "2018-02-01")])
            #expect(subscription.access.count == 2)
            #expect(subscription.status(at: day("2018-01-15")) == .active)
        }
    }

    @Test("a refund revokes every copy, whichever copy it names", arguments: Arrival.allCases)
    func refund(_ arrival: Arrival) {
        for refunded in [bought, restored] {
            let told = [
                Told("2018-01-05", [bought, restored]), Told("2018-01-10", [refunded.refunded("2018-01-10")]),
            ]

            let subscription = Subscription(arriving: arrival.arrange(told))

            #expect(subscription.access == [])
            #expect(subscription.status(at: day("2018-01-15")) == .refunded)
        }
    }

    @Test("a prorated refund of one copy stays one if a receipt dates that of the other", arguments: Arrival.allCases)
    func proratedRefund(_ arrival: Arrival) {
        var refunded = bought.refunded("2018-01-10")
        refunded.revocationType = "REFUND_PRORATED"
        let told = [
            Told("2018-01-05", [bought, restored]), Told("2018-01-10", [refunded]),
            Told("2018-01-12", [restored.refunded("2018-01-10")]),
        ]

        let subscription = Subscription(arriving: arrival.arrange(told))

        #expect(subscription.spans == [Span("2018-01-01", "2018-01-10")])
    }

    @Test("a purchase that is refunded again after a reversal is refunded", arguments: Arrival.allCases)
    func refundedAgain(_ arrival: Arrival) {
        let told = [
            Told("2018-01-05", [bought, restored]), Told("2018-01-10", [bought.refunded("2018-01-10")]),
            Told("2018-01-12", [restored]), Told("2018-01-14", [restored.refunded("2018-01-14")]),
        ]

        #expect(Subscription(arriving: arrival.arrange(told)).access == [])
    }

    @Test("a receipt with a refunded and an unrefunded copy refunds both", arguments: Arrival.allCases)
    func oneReceipt(_ arrival: Arrival) {
        let told = [
            Told("2018-01-10", [bought.refunded("2018-01-10"), restored]),
            Told("2018-01-20", [restored, bought.refunded("2018-01-10")]),
        ]

        #expect(Subscription(arriving: arrival.arrange(told)).access == [])
    }

    @Test("a row without a statement about revocation does not reverse a refund", arguments: Arrival.allCases)
    func unstated(_ arrival: Arrival) {
        var silent = restored
        silent.statesRevocation = false
        let told = [
            Told("2018-01-05", [bought, restored]), Told("2018-01-10", [bought.refunded("2018-01-10")]),
            Told("2018-01-12", [silent]),
        ]

        #expect(Subscription(arriving: arrival.arrange(told)).access == [])
    }

    @Test("the stored statement of each copy stays unchanged")
    func statements() {
        let subscription = Subscription(arriving: [
            Told("2018-01-05", [bought, restored]), Told("2018-01-10", [bought.refunded("2018-01-10")]),
        ])

        #expect(subscription.transactions.map(\.transaction.revocationDate) == [day("2018-01-10"), nil])
        #expect(subscription.transactions.map(\.settled.revocationDate) == [day("2018-01-10"), day("2018-01-10")])
    }
}
