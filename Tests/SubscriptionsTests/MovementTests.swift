import Encoding
import Subscriptions
import Testing

@Suite("Movements of subscriptions")
struct MovementTests {
    private typealias Movement = ReportingPeriod.Movement

    private static func charge(
        _ number: Int, _ start: String, _ end: String, reason: String? = "RENEWAL", product: String = monthly,
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        row("100000000000000\(number)", start, end, product: product) {
            $0.transactionReason = reason
            change(&$0)
        }
    }

    private static let trial = charge(1, "2026-01-01", "2026-01-08", reason: "PURCHASE") {
        $0.offerType = 1
        $0.offerDiscountType = "FREE_TRIAL"
    }
    private static let paid = charge(1, "2026-01-08", "2026-02-08", reason: "PURCHASE")

    /// The movements of the periods, in order, in every order of arrival.
    private static func movements(_ told: [Told]) -> [Movement?] {
        let all = Set(
            Arrival.allCases.map { Subscription(arriving: $0.arrange(told)).reportingPeriods.map(\.movement) })
        #expect(all.count == 1)
        return all.first ?? []
    }

    private static func movements(of charges: Transaction...) -> [Movement?] {
        movements(charges.map { Told($0.purchaseDate ?? .latest, [$0], [intention(autoRenew: true)]) })
    }

    @Test("a paid subscription is new, then renews")
    func new() {
        let renewal = Self.charge(2, "2026-02-08", "2026-03-08")

        #expect(Self.movements(of: Self.paid, renewal) == [.new, .renewal])
    }

    @Test("a trial starts, its first paid period is the conversion, the next one a renewal")
    func conversion() {
        let first = Self.charge(2, "2026-01-08", "2026-02-08")
        let second = Self.charge(3, "2026-02-08", "2026-03-08")

        #expect(Self.movements(of: Self.trial, first, second) == [.trialStart, .conversion, .renewal])
    }

    @Test("a trial converts after grace too; the grace is no movement")
    func conversionAfterGrace() {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-01-24")
        }
        let first = Self.charge(2, "2026-01-12", "2026-02-08")

        let movements = Self.movements([
            Told("2026-01-01", [Self.trial], [intention(autoRenew: true)]), Told("2026-01-08", [Self.trial], [failed]),
            Told("2026-01-12", [first], [intention(autoRenew: true)]),
        ])

        #expect(movements == [.trialStart, nil, .conversion])
    }

    @Test(
        "a charge by the App Store within 60 days of a gap recovers; a later one or a purchase resubscribes",
        arguments: [
            ("2026-04-09", "RENEWAL", ReportingPeriod.Movement.recovered), ("2026-04-10", "RENEWAL", .resubscribed),
            ("2026-02-09", "PURCHASE", .resubscribed), ("2026-02-09", "RENEWAL", .recovered),
        ])
    func gap(_ start: String, _ reason: String, _ movement: ReportingPeriod.Movement) {
        let again = Self.charge(2, start, "2026-06-01", reason: reason)

        #expect(Self.movements(of: Self.paid, again) == [.new, movement])
    }

    @Test("a paid period after a lost trial and a gap resubscribes; it is no conversion, nor is the next one")
    func lostTrial() {
        let again = Self.charge(2, "2026-01-20", "2026-02-20", reason: "PURCHASE")
        let next = Self.charge(3, "2026-02-20", "2026-03-20")

        #expect(Self.movements(of: Self.trial, again, next) == [.trialStart, .resubscribed, .renewal])
    }

    @Test("without a reason of the transaction, in V1, a gap after a failed renewal is recovered, any other is not")
    func withoutReason() {
        let again = Self.charge(2, "2026-03-01", "2026-04-01", reason: nil)
        for (renewal, movement) in [
            (intention(autoRenew: true) { $0.isInBillingRetryPeriod = true }, Movement.recovered),
            (intention(autoRenew: false), .resubscribed),
        ] {
            let told = [
                Told("2026-01-08", [Self.paid], [intention(autoRenew: true)]), Told("2026-02-08", [], [renewal]),
                Told("2026-03-01", [again], [intention(autoRenew: true)]),
            ]

            #expect(Self.movements(told) == [.new, movement])
        }
    }

    @Test("an upgrade is no movement, unless it is the first payment after a trial")
    func upgrade() {
        let upgrade = Self.charge(2, "2026-01-05", "2026-02-05", reason: "PURCHASE", product: premium)
        let later = Self.charge(3, "2026-01-20", "2026-02-20", reason: "PURCHASE", product: premium)
        func signed(_ transaction: Transaction) -> Transaction {
            var signed = transaction
            signed.signedDate = transaction.purchaseDate
            return signed
        }

        #expect(Self.movements(of: signed(Self.trial), signed(upgrade)) == [.trialStart, .conversion])
        #expect(Self.movements(of: signed(Self.paid), signed(later)) == [.new, nil])
    }

    @Test("a restored copy adds no time and is no movement")
    func copy() {
        let copy = Self.charge(2, "2026-01-08", "2026-02-08") { $0.webOrderLineItemId = Self.paid.webOrderLineItemId }

        #expect(Self.movements(of: Self.paid, copy) == [.new, nil])
    }
}
