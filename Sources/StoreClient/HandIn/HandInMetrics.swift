import EventLog
import Metrics

/// Counts what came of questions about receipts that were handed in. The counters are created at start, so that the
/// first occurrence of each is visible as an increase from zero.
struct HandInMetrics: Sendable {
    private let counters: [HandIn.State: Counter]

    init(factory: any MetricsFactory) {
        counters = Dictionary(
            uniqueKeysWithValues: HandIn.State.allCases.map { state in
                let counter = Counter(
                    label: "subledger_receipts_total", dimensions: [("result", state.rawValue)], factory: factory)
                counter.increment(by: 0)
                return (state, counter)
            })
    }

    func note(_ state: HandIn.State) {
        counters[state]?.increment()
    }
}
