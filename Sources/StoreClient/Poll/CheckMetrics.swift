import EventLog
import Metrics

/// Metrics of checks. Created at start, so that the first occurrence of each is visible as an increase from zero.
struct CheckMetrics: Sendable {
    private let due: Gauge
    private let oldestDue: Gauge
    /// By bundle id and label of the result.
    private let results: [String: [String: Counter]]

    init(apps: [String], factory: any MetricsFactory) {
        due = Gauge(label: "subledger_checks_due", factory: factory)
        due.record(0)
        oldestDue = Gauge(label: "subledger_checks_oldest_due_seconds", factory: factory)
        oldestDue.record(0)
        var results: [String: [String: Counter]] = [:]
        for app in apps {
            for label in CheckResult.labels {
                let counter = Counter(
                    label: "subledger_checks_total", dimensions: [("app", app), ("result", label)], factory: factory)
                counter.increment(by: 0)
                results[app, default: [:]][label] = counter
            }
        }
        self.results = results
    }

    func note(_ result: CheckResult, of app: String) {
        results[app]?[result.label]?.increment()
    }

    func note(_ backlog: PollBacklog) {
        due.record(backlog.due)
        oldestDue.record(backlog.oldest / .seconds(1))
    }
}

/// The checks that are due, in all streams that the App Store is asked about.
package struct PollBacklog: Sendable, Hashable {
    package let due: Int64
    /// How long the oldest one has been due; zero if none is.
    package let oldest: Duration
}
