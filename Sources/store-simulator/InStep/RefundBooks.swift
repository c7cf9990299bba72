import Encoding
import EventLog
import Simulation

/// Compares a server's answers about purchases for which refunds were requested with the questions of the store.
/// Every product of the run has a policy.
struct RefundBooks: Sendable {
    /// Each purchase as one line; empty if all are right.
    let differences: [String]
    let description: String

    /// - Parameters:
    ///   - sent: Every notification of the store.
    ///   - audits: In the order in which they were made.
    ///   - answers: The answers that the store received.
    ///   - steps: The ends of the steps, ascending.
    ///   - lost: What arrived then is not in the log because of it, nor what was answered.
    init(
        sent: [SimulatedNotification], audits: [DeliveryAudit], answers: [SimulatedConsumption],
        steps: [Instant], lost: LostTime?
    ) {
        let firstAudits = Dictionary(audits.map { ($0.day, $0.auditedAt) }) { first, _ in first }
        /// The step in which a notification arrived, or in which it was fetched.
        func arrival(_ notification: SimulatedNotification) -> Instant? {
            let posted = notification.attempts.first { $0.result == .success }.flatMap { attempt in
                lost?.contains(attempt.at) ?? false ? nil : steps.first { attempt.at <= $0 }
            }
            return [posted, firstAudits[AuditDay(containing: notification.signedDate)]].compactMap(\.self).min()
        }
        let decisions = Dictionary(grouping: sent.filter { ["REFUND", "REFUND_DECLINED"].contains($0.type) }) {
            $0.transactionId
        }
        let given = Dictionary(
            grouping: answers.filter { !(lost?.contains($0.receivedAt) ?? false) }, by: \.transactionId)
        var expected: [String: Instant] = [:]
        var questions = 0
        for question in sent where question.type == "CONSUMPTION_REQUEST" {
            guard let id = question.transactionId, let asked = arrival(question) else { continue }
            questions += 1
            // What Apple has decided needs no answer.
            let isDecided = (decisions[id] ?? []).contains { decision in
                question.signedDate <= decision.signedDate && arrival(decision).map { $0 <= asked } ?? false
            }
            if !isDecided { expected[id] = asked }
        }
        var differences: [String] = []
        for id in Set(expected.keys).union(given.keys).sorted() {
            let found = (given[id] ?? []).map(\.receivedAt)
            guard found != [expected[id]].compactMap(\.self) else { continue }
            differences.append(
                "\(id): expected \(expected[id].map { "an answer at \($0)" } ?? "no answer"), answered at \(found)")
        }
        self.differences = differences
        description =
            "answered \(answers.count) of \(questions) refund requests, \(questions - expected.count) were decided "
            + "before they arrived, differences: \(differences.count)"
    }
}
