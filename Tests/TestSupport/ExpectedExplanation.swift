import Encoding
import Simulation
import Subscriptions

/// What a storyteller's books say about an explanation.
package struct ExpectedExplanation {
    /// Nil if nothing that was bought gives the entitlement.
    package let reason: AccessReason?
    /// The position of the event that states what the rule rests on; nil if there is none.
    package var evidence: Int?
    /// The rules that may decide if nothing that was bought gives the entitlement.
    package var otherwise: [ExplanationRule] = [.noPurchase]
    /// Whether the id of a transaction is that of a purchase in the books.
    package var isSame: (_ transactionId: String, _ inBooks: String) -> Bool = { $0 == $1 }

    package init(
        reason: AccessReason?, evidence: Int? = nil, otherwise: [ExplanationRule] = [.noPurchase],
        isSame: @escaping (_ transactionId: String, _ inBooks: String) -> Bool = { $0 == $1 }
    ) {
        self.reason = reason
        self.evidence = evidence
        self.otherwise = otherwise
        self.isSame = isSame
    }

    /// Compares the decisive rule, its purchase and its evidence; nil if they are right.
    package func difference(_ explanation: Explanation) -> String? {
        guard let decisive = explanation.because.first else { return "no reason" }
        guard let reason else {
            return !explanation.active && otherwise.contains(decisive.rule) ? nil : "expected no purchase"
        }
        guard decisive.rule.rawValue == reason.kind.rawValue,
            decisive.transactionId.map({ isSame($0, reason.transactionId) }) == true
        else { return "expected \(reason)" }
        // A reversed refund is among the reasons why the purchase counts.
        if reason.wasGivenBack {
            let isExplained = explanation.because.contains { $0.rule == .laterStatementWins }
            return reason.kind != .paid || isExplained ? nil : "expected the reversal of the refund"
        }
        if let evidence, decisive.positions != [Int64(evidence)] { return "expected event \(evidence)" }
        return nil
    }

    /// Whether the id of a transaction on Google Play is that of an order in the books: an order that paid for several
    /// products, or that two purchases show, is several transactions.
    package static func isSameOrder(_ transactionId: String, _ inBooks: String) -> Bool {
        let parts = inBooks.split(separator: "/").map(String.init)
        let shown = String(transactionId.reversed().drop { $0 == "+" }.reversed())
        return shown == parts[0] || shown == parts.joined(separator: ":")
    }
}

extension AccessBook {
    /// The instants at which something begins or ends in the books, and another one, with their neighbours.
    package func instants(and other: Instant) -> [Instant] {
        let all = boundaries.filter { $0 < .latest } + [other]
        return Set(all.flatMap { [$0.advanced(byMilliseconds: -1), $0, $0.advanced(byMilliseconds: 1)] }).sorted()
    }
}

extension AccessReason {
    /// The number of the notification that states what the rule rests on, counted from 1 among those of version 2.
    package func version2Evidence(_ sent: [StoreNotification]) -> Int? {
        func first(_ isEvidence: (StoreNotification) -> Bool) -> Int? {
            sent.firstIndex(where: isEvidence).map { $0 + 1 }
        }
        func isAbout(_ notification: StoreNotification) -> Bool {
            notification.unclaimedSeats.isEmpty && notification.subject.transactionId == transactionId
        }
        switch kind {
        case .paid, .owned: return first(isAbout)
        case .extended: return first { isAbout($0) && $0.version2?.type == "RENEWAL_EXTENDED" }
        case .grace: return first { $0.version2 == StoreNotification.Name("DID_FAIL_TO_RENEW", "GRACE_PERIOD") }
        case .switchedOffInGrace:
            return sent.lastIndex { $0.version2?.subtype == "AUTO_RENEW_DISABLED" }.map { $0 + 1 }
        // A plan that is bought in grace may be reported as if the old one had expired.
        case .upgraded: return first { ["UPGRADE", "RESUBSCRIBE"].contains($0.version2?.subtype) }
        case .endedByStatus: return first { $0.version2?.type == "GRACE_PERIOD_EXPIRED" }
        case .refunded, .refundedPart, .graceTakenBack:
            return first { isAbout($0) && $0.version2?.type == "REFUND" }
        case .familyRevoked, .assignmentRevoked: return first { isAbout($0) && $0.version2?.type == "REVOKE" }
        case .over, .revoked: return nil
        }
    }
}
