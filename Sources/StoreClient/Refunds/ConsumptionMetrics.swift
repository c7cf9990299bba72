import Metrics
import Subscriptions

/// Counts what came of answers to refund requests. The counters are created at start, so that the first occurrence of each
/// is visible as an increase from zero.
struct ConsumptionMetrics: Sendable {
    private let counters: [String: [RefundRequest.Answer.State: Counter]]

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
    }

    func note(_ state: RefundRequest.Answer.State, of app: String, count: Int = 1) {
        counters[app]?[state]?.increment(by: count)
    }
}
