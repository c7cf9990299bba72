import AppStore
import Metrics

/// Metrics of calls to the App Store. Created at start, so that the first occurrence of each is visible as an increase
/// from zero.
struct StoreMetrics: Sendable {
    private let requests: [ReceiptHost: [CallLabel: Counter]]
    private let time: Timer
    private let budgetWaits: Counter
    private let breakers: [ReceiptHost: Gauge]

    init(factory: any MetricsFactory) {
        var requests: [ReceiptHost: [CallLabel: Counter]] = [:]
        var breakers: [ReceiptHost: Gauge] = [:]
        for host in ReceiptHost.allCases {
            for label in CallLabel.allCases {
                let counter = Counter(
                    label: "subledger_store_requests_total",
                    dimensions: [("host", host.rawValue), ("result", label.rawValue)], factory: factory)
                counter.increment(by: 0)
                requests[host, default: [:]][label] = counter
            }
            let gauge = Gauge(
                label: "subledger_store_breaker_state", dimensions: [("host", host.rawValue)], factory: factory)
            gauge.record(BreakerState.closed.rawValue)
            breakers[host] = gauge
        }
        self.requests = requests
        self.breakers = breakers
        time = Timer(label: "subledger_store_request_seconds", factory: factory)
        budgetWaits = Counter(label: "subledger_store_budget_waits_total", factory: factory)
        budgetWaits.increment(by: 0)
    }

    func note(_ call: ReceiptCall, to host: ReceiptHost, duration: Duration) {
        guard let label = CallLabel(call) else { return }
        requests[host]?[label]?.increment()
        time.record(duration: duration)
    }

    func noteBudgetWait() {
        budgetWaits.increment()
    }

    func note(_ state: BreakerState, of host: ReceiptHost) {
        breakers[host]?.record(state.rawValue)
    }
}
