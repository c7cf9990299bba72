import AppStore
import Encoding
import Subscriptions
import TestSupport
import Testing

private let first = newRow("1000000000000001", "2022-01-01", "2022-02-01")
private let second = newRow("1000000000000002", "2022-02-01", "2022-03-01")

private func preference(_ product: String, rows: [JSON] = [first], receivedAt: String) throws -> (Event, Instant) {
    let body = newBody("DID_CHANGE_RENEWAL_PREF", rows: rows, pending: [pending(next: product)])
        .with(["auto_renew_product_id": .text(product)])
    return (try body.event(receivedAt: day(receivedAt)), day(receivedAt))
}

/// Switched off and on again, at a date in the body.
private func switchedOn(_ date: String) throws -> (Event, Instant) {
    let body = newBody("DID_CHANGE_RENEWAL_STATUS", rows: [first], pending: [pending(next: premium)])
        .with(["auto_renew_product_id": .text(premium), "auto_renew_status_change_date_ms": milliseconds(date)])
    return (try body.event(receivedAt: day(date)), day(date))
}

private func fold(_ events: [(Event, Instant)]) -> Subscription {
    var facts = SubscriptionFacts(originalTransactionId: testSubscription)
    for (index, (event, receivedAt)) in events.enumerated() {
        facts.fold(event.facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: Int64(index + 1))
    }
    return Subscription(facts)
}

@Suite("The next product in a V1 notification is dated by its receipt")
struct V1PreferenceTests {
    @Test("the last of several product changes in one period applies")
    func lastCounts() throws {
        let subscription = fold([
            try preference(premium, receivedAt: "2022-01-05"), try preference(monthly, receivedAt: "2022-01-06"),
            try preference(premium, receivedAt: "2022-01-07"),
        ])

        #expect(subscription.renewal(at: day("2022-01-05")).autoRenewProductId == premium)
        #expect(subscription.renewal(at: day("2022-01-06")).autoRenewProductId == monthly)
        #expect(subscription.renewal(at: day("2022-01-07")).autoRenewProductId == premium)
        #expect(SubscriptionSnapshot(subscription).plannedProductId == premium)
    }

    @Test("a product change applies after a dated statement that was received before it")
    func afterDated() throws {
        let subscription = fold([
            try preference(premium, receivedAt: "2022-01-05"), try switchedOn("2022-01-06"),
            try preference(monthly, receivedAt: "2022-01-07"),
        ])

        #expect(subscription.renewal(at: .latest).autoRenewProductId == monthly)
        #expect(SubscriptionSnapshot(subscription).plannedProductId == nil)
    }

    @Test("a product change without the latest purchase is dated before that purchase, however late it arrives")
    func late() throws {
        let renewal = newBody("DID_RENEW", rows: [first, second])

        let subscription = fold([
            (try renewal.event(receivedAt: day("2022-02-01")), day("2022-02-01")),
            try preference(premium, receivedAt: "2022-02-03"),
        ])

        #expect(subscription.renewal(at: .latest).autoRenewProductId == monthly)
    }

    @Test("other fields of a product change keep the time of the rows in its receipt")
    func snapshot() throws {
        let off = newBody("DID_CHANGE_RENEWAL_STATUS", rows: [first], pending: [pending(autoRenew: "0")])
            .with(["auto_renew_status": "false", "auto_renew_status_change_date_ms": milliseconds("2022-01-06")])

        let subscription = fold([
            (try off.event(receivedAt: day("2022-01-06")), day("2022-01-06")),
            try preference(premium, receivedAt: "2022-01-08"),
        ])

        #expect(subscription.renewal(at: .latest).autoRenewStatus == false)
        #expect(subscription.renewal(at: .latest).autoRenewProductId == premium)
    }
}
