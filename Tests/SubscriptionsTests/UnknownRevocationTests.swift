import Encoding
import Subscriptions
import TestSupport
import Testing

/// A revocation whose kind this version does not know ends access at its date, and nothing else follows from it.
@Suite("Revocations of an unknown kind, and of assigned seats")
struct UnknownRevocationTests {
    private let rowA = row("1000000000000001", "2026-10-25", "2026-11-25")
    private let revokedAt = "2026-11-10"

    private func revoked(_ change: (inout Transaction) -> Void) -> Transaction {
        var revoked = rowA
        revoked.signedDate = day(revokedAt)
        revoked.revocationDate = day(revokedAt)
        change(&revoked)
        return revoked
    }

    private func subscription(_ revoked: Transaction) -> Subscription {
        var bought = rowA
        bought.signedDate = day("2026-10-25")
        bought.inAppOwnershipType = revoked.inAppOwnershipType
        return Subscription(arriving: [Told("2026-10-25", [bought]), Told(revokedAt, [revoked])])
    }

    private func expectEnd(_ subscription: Subscription, _ cut: AccessPeriod.Cut) {
        #expect(subscription.access.map(\.cut) == [cut])
        #expect(subscription.spans == [Span("2026-10-25", revokedAt)])
        #expect(subscription.refunded.isEmpty)
        #expect(subscription.status(at: day("2026-11-01")) == .active)
        #expect(subscription.status(at: day(revokedAt)) == .revoked)
        #expect(subscription.lastReportingPeriod?.churnReason.kind != .refund)
        #expect(subscription.transactions.map { $0.settled.refundedPart(of: 9990, at: .latest) } == [0])
    }

    @Test("an unknown revocationType, with any ownership")
    func type() {
        for ownership in [nil, "PURCHASED"] {
            expectEnd(
                subscription(
                    revoked {
                        $0.revocationType = "BUNDLE_UPGRADE"
                        $0.revocationReason = 0
                        $0.inAppOwnershipType = ownership
                    }), .unknownRevocation)
        }
    }

    @Test("an unknown revocationReason without a kind")
    func reason() {
        expectEnd(subscription(revoked { $0.revocationReason = 2 }), .unknownRevocation)
    }

    @Test("an unknown ownership, unless the kind is known to be a refund")
    func ownership() {
        expectEnd(subscription(revoked { $0.inAppOwnershipType = "LENT" }), .unknownRevocation)

        let refunded = subscription(
            revoked {
                $0.inAppOwnershipType = "LENT"
                $0.revocationType = "REFUND_FULL"
            })
        #expect(refunded.access.isEmpty)
        #expect(refunded.status(at: day(revokedAt)) == .refunded)
    }

    @Test("known refunds still count as such", arguments: [nil, 0, 1])
    func known(_ reason: Int?) {
        for type in [nil, "REFUND_FULL"] {
            let refunded = subscription(
                revoked {
                    $0.revocationReason = reason
                    $0.revocationType = type
                })
            #expect(refunded.access.isEmpty)
            #expect(refunded.status(at: day(revokedAt)) == .refunded)
        }
    }

    @Test("a seat that was taken back ends at the date, whatever else the row says")
    func assignment() {
        for ownership in [nil, "PURCHASED", "ASSIGNED"] {
            expectEnd(
                subscription(
                    revoked {
                        $0.inAppOwnershipType = ownership
                        $0.revocationType = "ASSIGNMENT_REVOKE"
                    }), .assignmentRevoked)
        }
        for type in [nil, "REFUND_FULL", "NEWER"] {
            expectEnd(
                subscription(
                    revoked {
                        $0.inAppOwnershipType = "ASSIGNED"
                        $0.revocationType = type
                    }), .assignmentRevoked)
        }
    }

    @Test("an assigned row has no payer, and its token names no owner")
    func payer() {
        var assigned = rowA
        assigned.inAppOwnershipType = "ASSIGNED"
        assigned.appAccountToken = tokenA
        assigned.price = 9990
        assigned.offerDiscountType = "FREE_TRIAL"
        let told = [Told("2026-10-25", [assigned])]

        #expect(Subscription(arriving: told).reportingPeriods.map(\.payerState) == [.assigned])
        #expect(SubscriptionFacts(arriving: told).ownershipEvidence().purchases.isEmpty)
    }

    @Test("a revocation within the grace period ends it, and does not take it back")
    func grace() {
        let failing = intention(autoRenew: true) {
            $0.isInBillingRetryPeriod = true
            $0.gracePeriodExpiresDate = day("2026-12-11")
        }
        let revoked = revoked {
            $0.revocationDate = day("2026-12-01")
            $0.signedDate = day("2026-12-01")
            $0.revocationType = "ASSIGNMENT_REVOKE"
        }
        let subscription = Subscription(
            arriving: [
                Told("2026-10-25", [rowA]), Told("2026-11-25", [rowA], [failing]), Told("2026-12-01", [revoked]),
            ])

        #expect(subscription.spans == [Span("2026-10-25", "2026-12-01")])
        #expect(subscription.access.map(\.cut) == [nil, .assignmentRevoked])
        #expect(subscription.status(at: day("2026-12-05")) == .revoked)
    }

    @Test("units of a consumable are there until the date")
    func consumable() {
        var coins = rowA
        coins.expiresDate = nil
        coins.type = Transaction.ProductType.consumable.rawValue
        coins.quantity = 5
        coins.revocationDate = day(revokedAt)
        coins.revocationType = "NEWER"

        #expect(coins.unitsLeft(at: day("2026-11-01")) == 5)
        #expect(coins.unitsLeft(at: day(revokedAt)) == 0)
        #expect(coins.refundedPart(of: 990, at: .latest) == 0)
    }

    @Test("a later report without the kind keeps the unknown reason")
    func reasonIsKept() {
        let signed = revoked { $0.revocationReason = 2 }
        var later = rowA
        later.revocationDate = day(revokedAt)

        let subscription = Subscription(
            arriving: [Told("2026-10-25", [rowA]), Told(revokedAt, [signed]), Told("2026-11-20", [later])])

        expectEnd(subscription, .unknownRevocation)
    }

    @Test("the deletion of the account still refunds what was bought, and ends what was assigned")
    func accountDeletion() {
        let unknown = revoked { $0.revocationType = "NEWER" }
        let deleted = Subscription(
            arriving: [Told("2026-10-25", [rowA]), Told(revokedAt, [unknown]), Told(deletionAt: "2026-11-12")])
        #expect(deleted.access.isEmpty)

        var assigned = rowA
        assigned.inAppOwnershipType = "ASSIGNED"
        let ended = Subscription(arriving: [Told("2026-10-25", [assigned]), Told(deletionAt: "2026-11-12")])
        #expect(ended.spans == [Span("2026-10-25", "2026-11-12")])
    }

    @Test("the explanation names the value and the event that states it")
    func explanation() {
        let revoked = revoked { $0.revocationType = "BUNDLE_UPGRADE" }
        let facts = SubscriptionFacts(arriving: [Told("2026-10-25", [rowA]), Told(revokedAt, [revoked])])
        let explained = ExplainedCustomers(
            [facts], links: CustomerLinks([Int64: LinkStatement]()), policy: .standard)

        let reason = explained.explanation(
            of: monthly, for: CustomerKey(.subscription, testSubscription), at: day("2026-11-11")
        ).because.first

        #expect(reason?.rule == .unknownRevocation)
        #expect(reason?.positions == [2])
        #expect(reason?.text.contains("revocationType BUNDLE_UPGRADE") == true)
    }
}
