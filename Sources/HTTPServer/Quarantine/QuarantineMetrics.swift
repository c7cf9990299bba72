import EventLog
import Metrics

/// Metrics of the quarantine, created at start, so that the first occurrence is visible as an increase from zero.
struct QuarantineMetrics: Sendable {
    private let forBytes = QuarantineMetrics.dropped("bytes")
    private let forAge = QuarantineMetrics.dropped("age")
    private let takenIn = Counter(label: "subledger_quarantine_taken_in_total")

    init() {
        for outcome in QuarantineKeeper.Outcome.allCases { Self.arrived(outcome).increment(by: 0) }
    }

    func note(_ outcome: QuarantineKeeper.Outcome) {
        Self.arrived(outcome).increment()
    }

    func note(_ dropped: Quarantine.Dropped) {
        forBytes.increment(by: dropped.forBytes)
        forAge.increment(by: dropped.forAge)
    }

    func noteTakenIn() {
        takenIn.increment()
    }

    private static func arrived(_ outcome: QuarantineKeeper.Outcome) -> Counter {
        Counter(label: "subledger_quarantine_notifications_total", dimensions: [("outcome", outcome.rawValue)])
    }

    private static func dropped(_ reason: String) -> Counter {
        Counter(label: "subledger_quarantine_dropped_total", dimensions: [("reason", reason)])
    }
}
