import EventLog
import Metrics
import Subscriptions

/// Counts what came of answers to refund requests.
struct ConsumptionMetrics: Sendable {
    private let counters: CounterTable
    private let unreadable: StreamGauges

    init(apps: [String], factory: any MetricsFactory) {
        let states: [RefundRequest.Answer.State] = [.accepted, .refused, .late]
        counters = CounterTable(
            "subledger_consumption_answers_total", [MetricLabel("app", apps), MetricLabel("result", states)],
            factory: factory)
        unreadable = StreamGauges("subledger_consumption_requests_unreadable", apps: apps, factory: factory)
    }

    func note(unreadable count: Int, in stream: StreamKey) {
        unreadable.record(count, of: stream)
    }

    func note(_ state: RefundRequest.Answer.State, of app: String, count: Int = 1) {
        counters.increment([app, state.rawValue], by: count)
    }
}
