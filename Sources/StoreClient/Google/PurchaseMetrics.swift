import EventLog
import Metrics

/// Metrics of questions about purchases of Google Play. Created at start, so that the first occurrence of each is visible
/// as an increase from zero.
struct PurchaseMetrics: Sendable {
    /// What came of an attempt to acknowledge a purchase.
    enum Acknowledgement: String, CaseIterable {
        case made
        /// Google says that it was acknowledged before, or must not be.
        case refused
        case failed
    }

    private let due: Gauge
    private let unanswered: Gauge
    private let oldestDue: Gauge
    private let oldestUnacknowledged: Gauge
    private let stale: Counter
    private let results: CounterTable
    private let acknowledgements: CounterTable

    init(apps: [String], factory: any MetricsFactory) {
        due = Gauge(label: "subledger_google_purchases_due", factory: factory)
        unanswered = Gauge(label: "subledger_google_purchases_unanswered", factory: factory)
        oldestDue = Gauge(label: "subledger_google_purchases_oldest_due_seconds", factory: factory)
        oldestUnacknowledged = Gauge(label: "subledger_google_oldest_unacknowledged_seconds", factory: factory)
        for gauge in [due, unanswered, oldestDue, oldestUnacknowledged] { gauge.record(0) }
        stale = Counter(label: "subledger_google_stale_answers_total", factory: factory)
        stale.increment(by: 0)
        func counters(_ label: String, _ results: [some RawRepresentable<String>]) -> CounterTable {
            CounterTable(label, [MetricLabel("app", apps), MetricLabel("result", results)], factory: factory)
        }
        results = counters("subledger_google_questions_total", PurchaseResult.allCases)
        acknowledgements = counters("subledger_google_acknowledgements_total", Acknowledgement.allCases)
    }

    func note(_ result: PurchaseResult, of app: String) {
        results.increment([app, result.rawValue])
    }

    func noteAcknowledgement(_ acknowledgement: Acknowledgement, of app: String) {
        acknowledgements.increment([app, acknowledgement.rawValue])
    }

    /// Counts a notification whose effect no answer has shown.
    func noteStale() { stale.increment() }

    /// - Parameters:
    ///   - unanswered: How many purchases wait for Google's first answer.
    ///   - oldestUnacknowledged: How long ago the oldest unacknowledged purchase was bought; zero if there is none.
    func note(_ backlog: PollBacklog, unanswered: Int64, oldestUnacknowledged: Duration) {
        due.record(backlog.due)
        self.unanswered.record(unanswered)
        oldestDue.record(backlog.oldest / .seconds(1))
        self.oldestUnacknowledged.record(oldestUnacknowledged / .seconds(1))
    }
}
