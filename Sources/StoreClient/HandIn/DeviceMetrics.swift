import Metrics

/// Counts what came of signed data that was handed in. The counters are created at start, so that the first occurrence
/// of each is visible as an increase from zero.
struct DeviceMetrics: Sendable {
    private let appended: Counter
    private let known: Counter
    private let rejected: Counter

    init(factory: any MetricsFactory) {
        func counter(_ result: String) -> Counter {
            let counter = Counter(
                label: "subledger_device_statements_total", dimensions: [("result", result)], factory: factory)
            counter.increment(by: 0)
            return counter
        }
        appended = counter("appended")
        known = counter("known")
        rejected = counter("rejected")
    }

    func note(isNews: Bool) {
        (isNews ? appended : known).increment()
    }

    func noteRefusal() {
        rejected.increment()
    }
}
