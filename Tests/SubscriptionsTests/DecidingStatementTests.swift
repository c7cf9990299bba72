import Encoding
import Subscriptions
import TestSupport
import Testing

/// Text and evidence of a reason come from the statement that decides, in whatever order the statements arrive.
@Suite("The evidence of a reason is the event that decides")
struct DecidingStatementTests {
    private static let bought = signed(row("11", "2026-01-01", "2026-02-01"), "2026-01-01")

    /// The reports that the decisive reason names, in each order of arrival.
    private static func evidence(
        _ reports: [Told], of rule: ExplanationRule, at instant: String
    ) throws -> Set<Set<Told>> {
        var found: Set<Set<Told>> = []
        for order in permutations(of: reports) {
            let example = ExplanationExample(
                rule: rule, reports: order, at: instant, active: true, positions: [])
            let reason = try #require(example.explanation.because.first { $0.rule == rule })
            found.insert(Set(reason.positions.map { order[Int($0 - 1)] }))
        }
        return found
    }

    @Test("a refund whose share another statement names: the statement with the share")
    func share() throws {
        let dated = Told(
            "2026-01-10",
            [
                changed(row("11", "2026-01-01", "2026-02-01")) {
                    $0.revocationDate = day("2026-01-10")
                }
            ])
        let share = Told(
            "2026-01-11",
            [
                changed(signed(Self.bought, "2026-01-11")) {
                    $0.revocationDate = day("2026-01-10")
                    $0.revocationType = "REFUND_PRORATED"
                }
            ])

        let evidence = try Self.evidence(
            [Told("2026-01-01", [Self.bought]), dated, share], of: .refundedPart, at: "2026-01-20")

        #expect(evidence == [[share]])
    }

    @Test("a purchase whose end was moved: each statement with its own end")
    func movedEnd() throws {
        let longer = Told(
            "2026-01-15",
            [
                changed(signed(Self.bought, "2026-01-15")) {
                    $0.expiresDate = day("2026-02-08")
                }
            ])

        let first = Told("2026-01-01", [Self.bought])

        #expect(try Self.evidence([first, longer], of: .paid, at: "2026-01-20") == [[first]])
        #expect(try Self.evidence([first, longer], of: .extended, at: "2026-02-05") == [[longer]])
        let explanation = ExplanationExample(
            rule: .paid, reports: [first, longer], at: "2026-01-20", active: true, positions: []
        ).explanation
        #expect(explanation.until == day("2026-02-08"))
        #expect(explanation.because[0].text.hasSuffix("from 1 Jan 2026 00:00:00 UTC to 1 Feb 2026 00:00:00 UTC"))
    }

    @Test("what is stated again with other details rests on the earliest statement")
    func earliest() throws {
        let first = Told("2026-01-01", [Self.bought])
        let again = Told("2026-01-05", [signed(Self.bought, "2026-01-05")])
        let other = Told("2026-01-06", [changed(signed(Self.bought, "2026-01-06")) { $0.price = 990 }])

        let evidence = try Self.evidence([first, again, other], of: .paid, at: "2026-01-20")

        #expect(evidence == [[first]])
    }

    @Test("a refund that was reversed and stated again rests on the report after the reversal")
    func statedAgain() throws {
        let refunded = changed(Self.bought) { $0.revocationDate = day("2026-01-10") }
        let reports = [
            Told("2026-01-01", [Self.bought]), Told("2026-01-10", [signed(refunded, "2026-01-10")]),
            Told("2026-01-12", [signed(Self.bought, "2026-01-12")]),
            Told("2026-01-14", [signed(refunded, "2026-01-14")]),
        ]
        let example = ExplanationExample(
            rule: .refundedWhole, reports: reports, at: "2026-01-20", active: false, positions: [])

        let missing = example.explained.missingEvidence.keys.map(\.statedAt)

        #expect(missing.contains(day("2026-01-14")))
    }

    @Test("\"belongs to the customer\" names another customer than the one that is asked about")
    func otherCustomer() {
        let bought = changed(Self.bought) { $0.appAccountToken = tokenA }
        func explanation(for customer: CustomerKey) -> Explanation {
            ExplanationExample(
                rule: .tiedByLink, reports: [Told("2026-01-01", [bought])],
                statements: [linked("u-1", CustomerKey(.subscription, testSubscription))], customer: customer,
                at: "2026-01-15", active: true, positions: []
            ).explanation
        }

        let own = explanation(for: .u1).because.first { $0.rule == .tiedByLink }
        let other = explanation(for: .a).against.first { $0.rule == .tiedByLink }

        #expect(own?.text.hasSuffix("belongs to the customer by a link of the backend") == true)
        #expect(other?.text.hasSuffix("belongs to customer u-1 by a link of the backend") == true)
    }
}
