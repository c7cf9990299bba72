import Encoding
import Subscriptions
import Testing

@Suite("Access to issues of a magazine")
struct ContentAccessTests {
    /// One issue on the 1st of each month of 2018.
    private static let issues = (1...8).map { day("2018-0\($0)-01") }

    private static func readable(_ told: [Told], at instant: Instant = day("2018-12-31")) -> [Int] {
        Subscription(SubscriptionFacts(arriving: told)).contentAccess(issues: issues, at: instant).enumerated()
            .filter { $0.element.reachedBy != nil }.map { $0.offset + 1 }
    }

    private static let expected: [(MagazineVariant, [Int])] = [
        (.base, [2, 3, 4, 6, 7]), (.rowARefunded, [3, 4, 6, 7]), (.rowBRefunded, [2, 3, 6, 7]),
        (.rowCRefunded, [2, 3, 4]), (.rowsAAndBRefunded, [6, 7]), (.rowBReversed, [2, 3, 4, 6, 7]),
    ]

    @Test("the subscriber of the magazine table can read these months", arguments: expected)
    func table(_ variant: MagazineVariant, _ months: [Int]) {
        #expect(Self.readable(variant.told) == months)
        // A reversal that arrives before its refund reverses nothing.
        let isReversal = variant == .rowBReversed
        #expect(Self.readable(variant.told.reversed()) == (isReversal ? [2, 3, 6, 7] : months))
        #expect(Self.readable(variant.told + variant.told) == months)
    }

    @Test("an issue is readable from the time that a period reaches it")
    func inTime() {
        let told = MagazineVariant.base.told

        #expect(Self.readable(told, at: day("2018-02-19")) == [])
        #expect(Self.readable(told, at: day("2018-02-20")) == [2])
        #expect(Self.readable(told, at: day("2018-03-01")) == [2, 3])
        #expect(Self.readable(told, at: day("2018-05-01")) == [2, 3, 4])
        #expect(Self.readable(told, at: day("2018-06-16")) == [2, 3, 4])
        #expect(Self.readable(told, at: day("2018-06-17")) == [2, 3, 4, 6])
    }

    @Test("the result names the rule and the period")
    func reason() throws {
        let subscription = Subscription(SubscriptionFacts(arriving: MagazineVariant.base.told))

        let answers = subscription.contentAccess(issues: Self.issues, at: day("2018-12-31"))

        let february = try #require(answers[1].reachedBy)
        #expect(february.rule == .unlockedAtStart)
        #expect(february.period.transactionId == "1000000000000001")
        let april = try #require(answers[3].reachedBy)
        #expect(april.rule == .inside)
        #expect(april.period.transactionId == "1000000000000002")
    }

    @Test("an issue published in grace is readable, one published in the gap after it is not")
    func grace() {
        let a = row("1000000000000001", "2018-02-20", "2018-03-20")
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2018-04-05")
        }
        let told = [Told("2018-02-20", [a]), Told("2018-03-20", [a], [failed])]

        #expect(Self.readable(told) == [2, 3, 4])
    }
}

@Suite("Purchases without an expiry date")
struct OneTimePurchaseTests {
    private static func purchase(
        _ id: String, _ date: String, product: String, quantity: Int? = 1, subscription: String = "1000000000000001"
    ) -> Transaction {
        var transaction = Transaction(transactionId: id, originalTransactionId: subscription)
        transaction.productId = product
        transaction.quantity = quantity
        transaction.purchaseDate = day(date)
        return transaction
    }

    private static let products = ProductCatalog([
        "coins": .consumable, "season": .nonRenewing(CalendarDuration(iso8601: "P3M")!), "atlas": .nonConsumable,
    ])

    private static func subscription(_ told: [Told]) -> Subscription {
        Subscription(SubscriptionFacts(arriving: told), products: products)
    }

    @Test("a non-consumable is owned from its purchase until it is revoked", arguments: ["atlas", "not-configured"])
    func nonConsumable(_ product: String) {
        let bought = Self.purchase("1", "2018-02-20", product: product)
        let owned = Self.subscription([Told("2018-02-20", [bought])])
        let refunded = Self.subscription([
            Told("2018-02-20", [bought]), Told("2018-03-01", [bought.refunded("2018-03-01")]),
        ])

        #expect(owned.status(at: day("2018-02-19")) == .never)
        #expect(owned.status(at: day("2018-02-20")) == .owned)
        #expect(owned.isActive(at: day("2118-02-20")))
        #expect(owned.nextChange(after: day("2018-02-20"))?.at == nil)
        #expect(refunded.access.isEmpty)
        #expect(refunded.status(at: day("2018-04-01")) == .refunded)
    }

    @Test("a non-renewing subscription ends after its configured duration, which is not in its facts")
    func nonRenewing() {
        let season = Self.subscription([Told("2018-01-31", [Self.purchase("1", "2018-11-30", product: "season")])])

        #expect(season.access.map(\.start) == [day("2018-11-30")])
        #expect(season.access.map(\.end) == [day("2019-02-28")])
        #expect(season.status(at: day("2019-02-27")) == .active)
        #expect(season.status(at: day("2019-02-28")) == .expired)
    }

    @Test("consumables are counted by quantity, without refunded ones")
    func consumables() {
        let first = Self.purchase("1", "2018-01-01", product: "coins", quantity: 3)
        let second = Self.purchase("2", "2018-02-01", product: "coins", quantity: 2)
        let third = Self.purchase("3", "2018-03-01", product: "coins", quantity: nil)
        let subscription = Self.subscription([
            Told("2018-03-01", [first, second, third]), Told("2018-03-05", [second.refunded("2018-03-05")]),
        ])

        #expect(subscription.consumables(at: day("2017-12-31")) == 0)
        #expect(subscription.consumables(at: day("2018-01-01")) == 3)
        #expect(subscription.consumables(at: day("2018-04-01")) == 4)
        #expect(subscription.access.isEmpty)
        #expect(subscription.status(at: day("2018-04-01")) == .owned)
    }

    @Test("a refund returns its share of the price, from its date on")
    func refundedPart() {
        var whole = Self.purchase("1", "2018-01-01", product: "coins", quantity: 1)
        whole.revocationDate = day("2018-01-10")
        var part = whole
        part.revocationType = "REFUND_PRORATED"
        part.revocationPercentage = 40_000
        var unknown = part
        unknown.revocationPercentage = nil

        #expect(whole.refundedPart(of: 2990, at: day("2018-01-09")) == 0)
        #expect(whole.refundedPart(of: 2990, at: day("2018-01-10")) == 2990)
        #expect(part.refundedPart(of: 2990, at: day("2018-01-10")) == 1196)
        #expect(part.refundedPart(of: .max, at: day("2018-01-10")) > 0)
        #expect(unknown.refundedPart(of: 2990, at: day("2018-01-10")) == 0)
    }

    @Test("very large quantities do not overflow")
    func hugeQuantities() {
        let all = ["1", "2"].map { Self.purchase($0, "2018-01-01", product: "coins", quantity: .max) }

        #expect(Self.subscription([Told("2018-01-01", all)]).consumables(at: day("2018-02-01")) == .max)
    }

    @Test("a catalog is read from its text in the database")
    func catalogText() {
        let text = "non-consumable\tatlas\nconsumable\tcoins\nnon-renewing P3M\tseason"

        #expect(ProductCatalog(configured: text) == Self.products)
        #expect(ProductCatalog(configured: "") == .empty)
        #expect(ProductCatalog.isWellFormed(text))
        #expect(ProductCatalog.isWellFormed(""))
    }

    @Test("products whose ids differ only in their bytes are different products")
    func catalogBytes() {
        let (composed, decomposed) = ("\u{E9}", "e\u{301}")
        let text = "consumable\t\(decomposed)\nnon-renewing P1Y\t\(composed)"

        let catalog = ProductCatalog(configured: text)

        #expect(catalog.kind(of: decomposed) == .consumable)
        #expect(catalog.kind(of: composed) == CalendarDuration(iso8601: "P12M").map { .nonRenewing($0) })
        #expect(ProductCatalog.isWellFormed(text))
    }

    @Test(
        "a malformed catalog is detected",
        arguments: [
            "consumable", "consumable\t", "consumable\ta\n", "consumable P3M\ta", "non-renewing\ta", "rented\ta",
            "consumable\tb\nconsumable\ta", "consumable\ta\nconsumable\ta", "non-renewing P3X\ta",
        ])
    func strangeText(_ text: String) {
        #expect(!ProductCatalog.isWellFormed(text))
    }

    @Test("a subscription row with an unreadable expiry is not treated as a permanent purchase")
    func unreadableExpiry() {
        var lost = Self.purchase("1", "2018-02-20", product: monthly)
        lost.webOrderLineItemId = "9"

        let subscription = Self.subscription([Told("2018-02-20", [lost])])

        #expect(subscription.access.isEmpty)
    }

    @Test(
        "durations are added in calendar units",
        arguments: [
            ("2018-01-31", "P1M", "2018-02-28"), ("2020-01-31", "P1M", "2020-02-29"),
            ("2020-02-29", "P1Y", "2021-02-28"),
            ("2018-12-15", "P1M", "2019-01-15"), ("2018-01-01", "P2W", "2018-01-15"),
            ("2018-01-31", "P1M1D", "2018-03-01"),
            ("9999-12-01", "P1Y", "9999-12-31T23:59:59.999Z"),
        ])
    func calendar(_ start: String, _ duration: String, _ end: String) throws {
        let duration = try #require(CalendarDuration(iso8601: duration))

        #expect(day(start).advanced(by: duration) == day(end))
    }

    @Test("an invalid duration is rejected", arguments: ["", "P", "P0D", "1M", "PT1H", "P1D1M", "P-1M", "p1m"])
    func malformed(_ text: String) {
        #expect(CalendarDuration(iso8601: text) == nil)
    }
}
