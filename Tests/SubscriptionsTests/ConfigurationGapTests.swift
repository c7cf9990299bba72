import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("Purchases that say too little, and products that are not configured")
struct ConfigurationGapTests {
    private let customer = CustomerKey(.subscription, testSubscription)

    private func explained(_ told: [Told], products: ProductCatalog = .empty) -> ExplainedCustomers {
        ExplainedCustomers(
            [SubscriptionFacts(arriving: told)], links: CustomerLinks([Int64: LinkStatement]()), policy: .standard,
            products: products)
    }

    private func reasons(
        _ told: [Told], of product: String = monthly, products: ProductCatalog = .empty, at: String
    ) -> [ExplanationRule] {
        explained(told, products: products).explanation(of: product, for: customer, at: day(at)).because.map(\.rule)
    }

    // MARK: Periods of no length

    private static let empty = row("1000000000000001", "2025-11-20T10:00:00Z", "2025-11-20T10:00:00Z")
    private static let backwards = row("1000000000000001", "2025-11-20T10:00:00Z", "2025-11-20T09:59:57Z")
    private static let renewed = row("1000000000000002", "2025-11-20T10:00:00Z", "2025-11-20T10:00:30Z")

    @Test("a period of no length gives nothing and is shown", arguments: [empty, backwards])
    func noDuration(_ transaction: Transaction) {
        for told in [
            [Told("2025-11-20T10:00:00Z", [transaction])],
            Array(repeating: Told("2025-11-20", [transaction]), count: 2),
        ] {
            let subscription = Subscription(arriving: told)
            #expect(subscription.access.isEmpty)
            #expect(subscription.status(at: day("2025-11-20T10:00:00Z")) == .expired)
            #expect(reasons(told, at: "2025-11-20T10:00:00Z") == [.noDuration])
        }
        let text = explained([Told("2025-11-20", [transaction])])
            .explanation(of: monthly, for: customer, at: day("2025-11-21")).sentence
        #expect(text.contains("has no duration"))
        #expect(!text.contains("No purchase"))
    }

    @Test("a subscription that renews and states no end gives nothing, and the missing end is the reason")
    func withoutEnd() {
        var transaction = Self.empty
        transaction.expiresDate = nil
        transaction.type = Transaction.ProductType.autoRenewable.rawValue

        let told = [Told("2025-11-20T10:00:00Z", [transaction])]

        #expect(Subscription(arriving: told).access.isEmpty)
        #expect(reasons(told, at: "2025-11-21") == [.noDuration])
    }

    @Test("the next renewal repairs it, in any order of arrival", arguments: Arrival.allCases)
    func repaired(_ arrival: Arrival) {
        let told = arrival.arrange([
            Told("2025-11-20T10:00:00Z", [Self.backwards]), Told("2025-11-20T10:00:01Z", [Self.renewed]),
        ])
        let subscription = Subscription(arriving: told)

        #expect(subscription.spans == [Span("2025-11-20T10:00:00Z", "2025-11-20T10:00:30Z")])
        #expect(reasons(told, at: "2025-11-20T10:00:05Z").first == .paid)
        #expect(reasons(told, at: "2025-11-21").first == .clock)
    }

    @Test("a later statement with another end counts, and an earlier one does not")
    func restated() {
        let whole = row("1000000000000001", "2025-11-20T10:00:00Z", "2025-12-20T10:00:00Z") {
            $0.signedDate = day("2025-11-20T10:00:01Z")
        }
        var empty = Self.empty
        empty.signedDate = day("2025-11-20T10:00:02Z")
        let told = [Told("2025-11-20T10:00:01Z", [whole]), Told("2025-11-20T10:00:02Z", [empty])]

        #expect(Subscription(arriving: told).access.isEmpty)
        #expect(Subscription(arriving: told.reversed()).access.isEmpty)
        #expect(Subscription(arriving: [told[0]]).access.count == 1)
    }

    @Test("one that was refunded is refunded, and none without a date is called short")
    func refundedPeriod() {
        let refunded = Subscription(arriving: [Told("2025-11-21", [Self.empty.refunded("2025-11-21")])])
        #expect(refunded.status(at: day("2025-11-22")) == .refunded)
        var undated = Self.empty.refunded("2025-11-21")
        undated.purchaseDate = nil
        #expect(reasons([Told("2025-11-21", [undated])], at: "2025-11-22") == [.noPurchaseDate])
    }

    @Test("Google: a purchase that ends when it begins is shown, and gives nothing")
    func googlePurchase() {
        var story = PlayStory()
        story.answer("2025-11-20T10:00:00Z", .expired, start: "2025-11-20", until: "2025-11-20", order: "G1")
        let explained = ExplainedCustomers(
            story.facts.values, links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)
        let reason = explained.explanation(
            of: "premium:monthly", for: CustomerKey(.subscription, "t1"), at: day("2025-11-21")
        ).because.first

        #expect(story.subscription.access.isEmpty)
        #expect(reason?.rule == .noDuration)
        #expect(reason?.transactionId == "G1")
        story.answer("2025-11-20T11:00:00Z", .active, start: "2025-11-20", until: "2025-12-20", order: "G1")
        #expect(story.subscription.accessSpans == [Span("2025-11-20", "2025-12-20")])
    }

    // MARK: Products

    private static func oneTime(_ type: String?, product: String = "season") -> Transaction {
        row("1000000000000001", "2026-01-01", "2026-01-01", product: product) {
            $0.expiresDate = nil
            $0.webOrderLineItemId = nil
            $0.subscriptionGroupIdentifier = nil
            $0.type = type
            $0.signedDate = day("2026-01-01")
        }
    }

    private func gap(_ transaction: Transaction, _ products: ProductCatalog = .empty) -> ConfigurationGap? {
        Subscription(SubscriptionFacts(arriving: [Told("2026-01-01", [transaction])]), products: products)
            .transactions.first?.gap
    }

    @Test("a season without a configured duration is a gap, and gives access once it is configured")
    func season() throws {
        let season = Self.oneTime("Non-Renewing Subscription")
        let duration = try #require(CalendarDuration(iso8601: "P3M"))
        let configured = ProductCatalog(["season": .nonRenewing(duration)])

        #expect(gap(season) == .duration)
        #expect(gap(season, ProductCatalog(["season": .nonConsumable])) == .duration)
        #expect(gap(season, ProductCatalog(["other": .nonRenewing(duration)])) == .duration)
        #expect(gap(season, configured) == nil)
        #expect(reasons([Told("2026-01-01", [season])], of: "season", at: "2026-01-20") == [.notConfigured])
        #expect(
            reasons([Told("2026-01-01", [season])], of: "season", products: configured, at: "2026-01-20").first
                == .nonRenewingDuration)
    }

    @Test("a type that this version does not know is a gap unless the kind is configured")
    func unknownType() {
        #expect(gap(Self.oneTime("Bundle")) == .kind)
        #expect(gap(Self.oneTime("Bundle"), ProductCatalog(["season": .nonConsumable])) == nil)
        for type in ["Consumable", "Non-Consumable", nil] { #expect(gap(Self.oneTime(type)) == nil) }
    }

    @Test("a refund closes the gap, and its reversal opens it again")
    func refunded() {
        let season = Self.oneTime("Non-Renewing Subscription")
        var restored = season
        restored.signedDate = day("2026-01-09")
        let refund = Told("2026-01-05", [season.refunded("2026-01-05")])
        let told = [Told("2026-01-01", [season]), refund, Told("2026-01-09", [restored])]

        #expect(gap(season.refunded("2026-01-05")) == nil)
        for arrival in Arrival.allCases {
            #expect(Subscription(arriving: arrival.arrange(told)).transactions.first?.gap == .duration)
        }
    }
}
