import EventLog
import Metrics

/// Metrics of checks. Created at start, so that the first occurrence of each is visible as an increase from zero.
struct CheckMetrics: Sendable {
    private let due: Gauge
    private let oldestDue: Gauge
    private let results: CounterTable

    init(apps: [String], factory: any MetricsFactory) {
        due = Gauge(label: "subledger_checks_due", factory: factory)
        due.record(0)
        oldestDue = Gauge(label: "subledger_checks_oldest_due_seconds", factory: factory)
        oldestDue.record(0)
        results = CounterTable(
            "subledger_checks_total", [MetricLabel("app", apps), MetricLabel("result", CheckResult.labels)],
            factory: factory)
    }

    func note(_ result: CheckResult, of app: String) {
        results.increment([app, result.label])
    }

    func note(_ backlog: PollBacklog) {
        due.record(backlog.due)
        oldestDue.record(backlog.oldest / .seconds(1))
    }
}
