import EventLog
import Metrics

/// Counts what came of signed data that was handed in.
struct DeviceMetrics: Sendable {
    private enum Result: String, CaseIterable {
        case appended, known, rejected
    }

    private let counters: CounterTable

    init(factory: any MetricsFactory) {
        counters = CounterTable(
            "subledger_device_statements_total", [MetricLabel("result", Result.allCases)], factory: factory)
    }

    func note(isNews: Bool) { note(isNews ? .appended : .known) }

    func noteRefusal() { note(.rejected) }

    private func note(_ result: Result) { counters.increment([result.rawValue]) }
}
