import EventLog
import Metrics

/// Counts what came of questions about receipts that were handed in.
struct HandInMetrics: Sendable {
    private let counters: CounterTable

    init(factory: any MetricsFactory) {
        counters = CounterTable(
            "subledger_receipts_total", [MetricLabel("result", HandIn.State.allCases)], factory: factory)
    }

    func note(_ state: HandIn.State) { counters.increment([state.rawValue]) }
}
