import EventLog
import Metrics
import Subscriptions

/// Metrics of histories that are read without a command.
struct BackfillMetrics: Sendable {
    /// The label of an account's result.
    enum Result: String, CaseIterable {
        case read
        case notFound = "not_found"
        case refused
        case unavailable
    }

    private let results: CounterTable
    private let waiting: StreamGauges
    private let open: StreamGauges

    /// - Parameter apps: Their bundle ids.
    init(apps: [String], factory: any MetricsFactory) {
        results = CounterTable(
            "subledger_backfill_accounts_total",
            [MetricLabel("app", apps), MetricLabel("result", Result.allCases)], factory: factory)
        waiting = StreamGauges("subledger_backfill_waiting_events", apps: apps, factory: factory)
        open = StreamGauges("subledger_backfill_accounts_open", apps: apps, factory: factory)
    }

    func note(_ result: Result, of app: String) {
        results.increment([app, result.rawValue])
    }

    func note(open accounts: Int64, in stream: StreamKey) {
        open.record(accounts, of: stream)
    }

    func note(waiting events: Int64, in stream: StreamKey) {
        waiting.record(events, of: stream)
    }
}
