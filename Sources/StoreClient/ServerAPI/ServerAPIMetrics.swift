import AppStore
import Metrics

/// Metrics of calls to the App Store Server API. Created at start, so that the first occurrence of each is visible as an
/// increase from zero.
struct ServerAPIMetrics: Sendable {
    /// The label of a call's result.
    enum Result: String, CaseIterable {
        case answered
        case notFound = "not_found"
        case refused
        case unauthorised
        case rateLimited = "rate_limited"
        case temporary
        case unreadable
        case noAnswer = "no_answer"
    }

    private let requests: [ReceiptHost: [ServerAPIEndpoint: [Result: Counter]]]
    private let breakers: [ReceiptHost: Gauge]
    private let time: Timer

    init(factory: any MetricsFactory) {
        var requests: [ReceiptHost: [ServerAPIEndpoint: [Result: Counter]]] = [:]
        var breakers: [ReceiptHost: Gauge] = [:]
        for host in ReceiptHost.allCases {
            for endpoint in ServerAPIEndpoint.allCases {
                for result in Result.allCases {
                    let counter = Counter(
                        label: "subledger_store_api_requests_total",
                        dimensions: [
                            ("host", host.rawValue), ("endpoint", endpoint.rawValue), ("result", result.rawValue),
                        ], factory: factory)
                    counter.increment(by: 0)
                    requests[host, default: [:]][endpoint, default: [:]][result] = counter
                }
            }
            let gauge = Gauge(
                label: "subledger_store_api_breaker_state", dimensions: [("host", host.rawValue)], factory: factory)
            gauge.record(BreakerState.closed.rawValue)
            breakers[host] = gauge
        }
        self.requests = requests
        self.breakers = breakers
        time = Timer(label: "subledger_store_api_request_seconds", factory: factory)
    }

    func note(_ result: Result, _ endpoint: ServerAPIEndpoint, _ host: ReceiptHost, duration: Duration) {
        requests[host]?[endpoint]?[result]?.increment()
        time.record(duration: duration)
    }

    func note(_ state: BreakerState, of host: ReceiptHost) {
        breakers[host]?.record(state.rawValue)
    }
}
