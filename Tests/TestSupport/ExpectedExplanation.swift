import Encoding
import StoreSimulator
import Subscriptions
import Testing

/// What a storyteller's books say about an explanation.
struct ExpectedExplanation {
    /// Nil if nothing that was bought gives the entitlement.
    let reason: AccessReason?
    /// The number of the event that states what the rule rests on; nil if there is none.
    var evidence: Int?
    /// The rules that may decide if nothing that was bought gives the entitlement.
    var otherwise: [ExplanationRule] = [.noPurchase]
    /// Whether the id of a transaction is that of a purchase in the books.
    var isSame: (_ transactionId: String, _ inBooks: String) -> Bool = { $0 == $1 }

    /// Compares the decisive rule, its purchase and its evidence.
    func check(_ explanation: Explanation, _ message: @autoclosure () -> String) {
        guard let difference = difference(explanation) else { return }
        Issue.record("\(difference), \(message()): \(explanation.sentence)")
    }

    private func difference(_ explanation: Explanation) -> String? {
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
}

extension AccessBook {
    /// The instants at which something begins or ends in the books, and another one, with their neighbours.
    func instants(and other: Instant) -> [Instant] {
        let all = boundaries.filter { $0 < .latest } + [other]
        return Set(all.flatMap { [$0.advanced(byMilliseconds: -1), $0, $0.advanced(byMilliseconds: 1)] }).sorted()
    }
}
