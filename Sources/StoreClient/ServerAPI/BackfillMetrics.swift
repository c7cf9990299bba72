import Metrics
import Subscriptions

/// Metrics of histories that are read without a command. Created at start, so that the first occurrence of each is visible
/// as an increase from zero.
struct BackfillMetrics: Sendable {
    /// The label of an account's result.
    enum Result: String, CaseIterable {
        case read
        case notFound = "not_found"
        case refused
        case unavailable
    }

    private let results: [String: [Result: Counter]]
    private let waiting: [StreamKey: Gauge]
    private let open: [StreamKey: Gauge]

    /// - Parameter apps: Their bundle ids.
    init(apps: [String], factory: any MetricsFactory) {
        var results: [String: [Result: Counter]] = [:]
        var waiting: [StreamKey: Gauge] = [:]
        var open: [StreamKey: Gauge] = [:]
        for app in apps {
            for result in Result.allCases {
                let counter = Counter(
                    label: "subledger_backfill_accounts_total",
                    dimensions: [("app", app), ("result", result.rawValue)], factory: factory)
                counter.increment(by: 0)
                results[app, default: [:]][result] = counter
            }
            for environment in [Environment.production, .sandbox] {
                let gauge = Gauge(
                    label: "subledger_backfill_waiting_events",
                    dimensions: [("app", app), ("environment", environment.rawValue)], factory: factory)
                gauge.record(0)
                waiting[StreamKey(app: app, environment: environment)] = gauge
                let accounts = Gauge(
                    label: "subledger_backfill_accounts_open",
                    dimensions: [("app", app), ("environment", environment.rawValue)], factory: factory)
                accounts.record(0)
                open[StreamKey(app: app, environment: environment)] = accounts
            }
        }
        self.results = results
        self.waiting = waiting
        self.open = open
    }

    func note(_ result: Result, of app: String) {
        results[app]?[result]?.increment()
    }

    func note(open accounts: Int64, in stream: StreamKey) {
        open[stream]?.record(accounts)
    }

    func note(waiting events: Int64, in stream: StreamKey) {
        waiting[stream]?.record(events)
    }
}
