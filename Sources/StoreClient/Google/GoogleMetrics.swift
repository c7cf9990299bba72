import Metrics
import PlayStore

/// Metrics of calls to the Play Developer API. Created at start, so that the first occurrence of each is visible as an
/// increase from zero.
struct GoogleMetrics: Sendable {
    /// The label of a call's result.
    enum Result: String, CaseIterable {
        case answered
        case notFound = "not_found"
        case gone
        case refused
        case unauthorised
        case forbidden
        case rateLimited = "rate_limited"
        case temporary
        case unreadable
        case noAnswer = "no_answer"
    }

    private let requests: [PlayRequest.Quota: [Result: Counter]]
    private let breaker: Gauge
    private let time: Timer
    private let callsOfDay: Gauge
    private let tokens: [Bool: Counter]

    init(factory: any MetricsFactory) {
        var requests: [PlayRequest.Quota: [Result: Counter]] = [:]
        for quota in PlayRequest.Quota.allCases {
            for result in Result.allCases {
                let counter = Counter(
                    label: "subledger_google_requests_total",
                    dimensions: [("quota", quota.rawValue), ("result", result.rawValue)], factory: factory)
                counter.increment(by: 0)
                requests[quota, default: [:]][result] = counter
            }
        }
        self.requests = requests
        breaker = Gauge(label: "subledger_google_breaker_state", factory: factory)
        breaker.record(BreakerState.closed.rawValue)
        time = Timer(label: "subledger_google_request_seconds", factory: factory)
        callsOfDay = Gauge(label: "subledger_google_calls_of_day", factory: factory)
        callsOfDay.record(0)
        tokens = Dictionary(
            uniqueKeysWithValues: [true, false].map { isIssued in
                let counter = Counter(
                    label: "subledger_google_access_tokens_total",
                    dimensions: [("result", isIssued ? "issued" : "failed")], factory: factory)
                counter.increment(by: 0)
                return (isIssued, counter)
            })
    }

    func note(_ result: Result, _ quota: PlayRequest.Quota, duration: Duration) {
        requests[quota]?[result]?.increment()
        time.record(duration: duration)
    }

    func note(_ state: BreakerState) {
        breaker.record(state.rawValue)
    }

    func note(callsOfDay calls: Int) {
        callsOfDay.record(calls)
    }

    func noteToken(isIssued: Bool) {
        tokens[isIssued]?.increment()
    }
}
