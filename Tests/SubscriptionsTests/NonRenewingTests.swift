import Encoding
import Subscriptions
import Testing

@Suite("Reports count no purchase that the App Store does not renew")
struct NonRenewingTests {
    private static let products = ProductCatalog([
        "season": .nonRenewing(CalendarDuration(iso8601: "P3M")!), "atlas": .nonConsumable,
    ])

    private static let purchases: [(product: String, type: String?)] = [
        ("season", "Non-Renewing Subscription"), ("season", nil), ("season", "Timed Lease"),
        ("atlas", "Non-Consumable"), ("atlas", nil),
    ]

    private static func purchase(_ product: String, type: String?) -> Transaction {
        var transaction = Transaction(transactionId: testSubscription, originalTransactionId: testSubscription)
        transaction.productId = product
        transaction.type = type
        transaction.purchaseDate = day("2026-01-31")
        return transaction
    }

    private static func subscription(_ transaction: Transaction) -> Subscription {
        Subscription(SubscriptionFacts(arriving: [Told("2026-01-31", [transaction])]), products: products)
    }

    @Test(
        "a non-renewing subscription and an owned product give access and have no reporting values",
        arguments: purchases)
    func others(_ product: String, _ type: String?) {
        let subscription = Self.subscription(Self.purchase(product, type: type))

        #expect(subscription.isActive(at: day("2026-02-01")))
        #expect(subscription.reportingPeriods.map(\.payerState) == [nil])
        #expect(subscription.reportingPeriods.map(\.firstStart) == [nil])
        #expect(subscription.lastReportingPeriod == nil)
        #expect(!subscription.hasChurned)
    }

    @Test("a non-renewing subscription of which Apple states an end is not counted either")
    func withEnd() {
        var transaction = Self.purchase("season", type: "Non-Renewing Subscription")
        transaction.expiresDate = day("2026-03-31")

        let subscription = Self.subscription(transaction)

        #expect(subscription.spans == [Span("2026-01-31", "2026-03-31")])
        #expect(subscription.reportingPeriods.map(\.payerState) == [nil])
    }

    @Test("an auto-renewable subscription is counted, whatever is configured")
    func renewing() {
        var transaction = Self.purchase("season", type: "Auto-Renewable Subscription")
        transaction.expiresDate = day("2026-03-31")

        let subscription = Self.subscription(transaction)

        #expect(subscription.reportingPeriods.map(\.payerState) == [.paying])
        #expect(subscription.lastReportingPeriod?.payerState == .paying)
    }
}
