import Encoding
import Subscriptions
import Testing

@Suite("Payments of a subscription and the renewals after them")
struct RenewalRunTests {
    /// A payment as reports see it.
    private struct Payment: Hashable, CustomStringConvertible {
        let start: Instant
        let number: Int
        let renewal: String?

        init(_ start: String, _ number: Int, _ renewal: String? = nil) {
            self.start = day(start)
            self.number = number
            self.renewal = renewal
        }

        init?(_ period: ReportingPeriod) {
            guard let start = period.runStart, let number = period.paymentNumber else { return nil }
            self.start = start
            self.number = number
            renewal = period.renewal?.name
        }

        var description: String { "\(number) since \(start), then \(renewal ?? "nothing else")" }
    }

    private static func charge(
        _ number: Int, _ start: String, _ end: String, reason: String = "RENEWAL", product: String = monthly,
        change: (inout Transaction) -> Void = { _ in }
    ) -> Transaction {
        row("100000000000000\(number)", start, end, product: product) {
            $0.transactionReason = reason
            $0.signedDate = $0.purchaseDate
            change(&$0)
        }
    }

    private static let first = charge(1, "2026-01-01", "2026-02-01", reason: "PURCHASE")
    private static let on = intention(autoRenew: true)

    /// The payments of the subscription, in every order of arrival.
    private static func payments(_ told: [Told]) -> [Payment] {
        let all = Set(
            Arrival.allCases.map { Subscription(arriving: $0.arrange(told)).reportingPeriods.compactMap(Payment.init) })
        #expect(all.count == 1)
        return all.first ?? []
    }

    private static func payments(of charges: Transaction...) -> [Payment] {
        payments(charges.map { Told($0.purchaseDate ?? .latest, [$0], [on]) })
    }

    @Test("payments are numbered from the first one, and a renewal on time needs no mark")
    func onTime() {
        let second = Self.charge(2, "2026-02-01", "2026-03-01")
        let third = Self.charge(3, "2026-03-01", "2026-04-01")

        #expect(
            Self.payments(of: Self.first, second, third)
                == [Payment("2026-01-01", 1), Payment("2026-01-01", 2), Payment("2026-01-01", 3)])
    }

    @Test("a trial and a payment with an introductory offer come before the first one; a later offer counts")
    func offers() {
        let trial = Self.charge(1, "2026-01-01", "2026-01-08", reason: "PURCHASE") {
            $0.offerType = 1
            $0.offerDiscountType = "FREE_TRIAL"
        }
        let introductory = Self.charge(2, "2026-01-08", "2026-02-08") {
            $0.offerType = 1
            $0.offerDiscountType = "PAY_AS_YOU_GO"
        }
        let standard = Self.charge(3, "2026-02-08", "2026-03-08")
        let promotional = Self.charge(4, "2026-03-08", "2026-04-08") {
            $0.offerType = 2
            $0.offerDiscountType = "PAY_AS_YOU_GO"
        }

        #expect(
            Self.payments(of: trial, introductory, standard, promotional)
                == [Payment("2026-02-08", 1), Payment("2026-02-08", 2)])
    }

    @Test(
        "a charge within grace is marked so, whichever purchase date it shows; one day after grace it is later",
        arguments: [("2026-02-05", "in_grace"), ("2026-02-01", "in_grace"), ("2026-02-18", "later")])
    func grace(_ start: String, _ renewal: String) {
        let failed = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-02-17")
        }
        let charged = Self.charge(2, start, "2026-03-18")

        let payments = Self.payments([
            Told("2026-01-01", [Self.first], [Self.on]), Told("2026-02-01", [Self.first], [failed]),
            Told("2026-02-19", [charged], [Self.on]),
        ])

        #expect(payments == [Payment("2026-01-01", 1, renewal), Payment("2026-01-01", 2)])
    }

    @Test("a charge after a gap is later within 60 days; after 61 the renewal is lost, and a run begins anew")
    func later() {
        let within = Self.charge(2, "2026-04-02", "2026-05-02")
        let after = Self.charge(2, "2026-04-03", "2026-05-03")

        #expect(Self.payments(of: Self.first, within) == [Payment("2026-01-01", 1, "later"), Payment("2026-01-01", 2)])
        #expect(
            Self.payments(of: Self.first, after) == [Payment("2026-01-01", 1, "unknown"), Payment("2026-04-03", 1)])
    }

    @Test("a purchase after expiry begins another run, and the lost renewal has Apple's reason")
    func boughtAgain() {
        let again = Self.charge(2, "2026-02-20", "2026-03-20", reason: "PURCHASE")
        let expired = intention(autoRenew: false) { $0.expirationIntent = 1 }

        let payments = Self.payments([
            Told("2026-01-01", [Self.first], [Self.on]), Told("2026-02-01", [Self.first], [expired]),
            Told("2026-02-20", [again], [Self.on]),
        ])

        #expect(payments == [Payment("2026-01-01", 1, "voluntary"), Payment("2026-02-20", 1)])
    }

    @Test("another product begins another run, at once by an upgrade or with the next period")
    func changedPlan() {
        let upgrade = Self.charge(2, "2026-01-20", "2026-02-20", reason: "PURCHASE", product: premium)
        let downgrade = Self.charge(2, "2026-02-01", "2026-03-01", product: premium)

        #expect(
            Self.payments(of: Self.first, upgrade)
                == [Payment("2026-01-01", 1, "changed_plan"), Payment("2026-01-20", 1)])
        #expect(
            Self.payments(of: Self.first, downgrade)
                == [Payment("2026-01-01", 1, "changed_plan"), Payment("2026-02-01", 1)])
    }

    @Test("a payment that was refunded in full is one of the run, and a restored copy is none")
    func refundAndCopy() {
        let refunded = Self.charge(2, "2026-02-01", "2026-03-01") { $0.revocationDate = day("2026-03-10") }
        let third = Self.charge(3, "2026-03-01", "2026-04-01")
        let copy = Self.charge(4, "2026-03-01", "2026-04-01") { $0.webOrderLineItemId = third.webOrderLineItemId }

        #expect(
            Self.payments(of: Self.first, refunded, third, copy)
                == [Payment("2026-01-01", 1), Payment("2026-01-01", 2), Payment("2026-01-01", 3)])
    }

    @Test("a family member pays nothing")
    func family() {
        let shared = Self.charge(1, "2026-01-01", "2026-02-01") { $0.inAppOwnershipType = "FAMILY_SHARED" }

        #expect(Self.payments(of: shared) == [])
    }
}
