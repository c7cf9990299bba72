import Metrics
import Subscriptions

/// Counts what came of answers to refund requests. The counters are created at start, so that the first occurrence of each
/// is visible as an increase from zero.
struct ConsumptionMetrics: Sendable {
    private let counters: [String: [RefundRequest.Answer.State: Counter]]
    private let unreadable: [StreamKey: Gauge]

    init(apps: [String], factory: any MetricsFactory) {
        var counters: [String: [RefundRequest.Answer.State: Counter]] = [:]
        for app in apps {
            for state in [RefundRequest.Answer.State.accepted, .refused, .late] {
                let counter = Counter(
                    label: "subledger_consumption_answers_total",
                    dimensions: [("app", app), ("result", state.rawValue)], factory: factory)
                counter.increment(by: 0)
                counters[app, default: [:]][state] = counter
            }
        }
        self.counters = counters
        var unreadable: [StreamKey: Gauge] = [:]
        for app in apps {
            for environment in [Environment.production, .sandbox] {
                let gauge = Gauge(
                    label: "subledger_consumption_requests_unreadable",
                    dimensions: [("app", app), ("environment", environment.rawValue)], factory: factory)
                gauge.record(0)
                unreadable[StreamKey(app: app, environment: environment)] = gauge
            }
        }
        self.unreadable = unreadable
    }

    func note(unreadable count: Int, in stream: StreamKey) {
        unreadable[stream]?.record(count)
    }

    func note(_ state: RefundRequest.Answer.State, of app: String, count: Int = 1) {
        counters[app]?[state]?.increment(by: count)
    }
}
