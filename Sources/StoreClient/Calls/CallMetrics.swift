import EventLog
import Metrics

/// The label of a call in metrics.
enum CallLabel: String, CaseIterable {
    case answered
    case accountDeleted = "account_deleted"
    case otherHost = "other_host"
    case temporaryStatus = "temporary_status"
    /// Status 21002.
    case malformed
    case notFound = "not_found"
    case gone
    case refused
    case secretRejected = "secret_rejected"
    case unauthorised
    case forbidden
    case rateLimited = "rate_limited"
    case temporary
    case unreadable
    case httpStatus = "http_status"
    case timeout
    case tooLong = "too_long"
    case unreachable
    case cancelled
    case noAnswer = "no_answer"
}

/// Metrics of calls to a store. Those of a store with a single host do not name it.
struct CallMetrics<Host: StoreHost>: Sendable {
    private let calls: CounterTable
    private let breakers: [Host: Gauge]
    private let time: Timer
    private let waits: Counter?

    /// - Parameters:
    ///   - prefix: Of the names.
    ///   - series: The labels of the counter of calls, with their values.
    ///   - results: The values of its label `result`.
    ///   - countsWaits: Whether calls that wait for the budget are counted.
    init(
        _ prefix: String, series: [CounterTable.Label], results: [CallLabel], countsWaits: Bool = false,
        factory: any MetricsFactory
    ) {
        calls = CounterTable(
            "\(prefix)_requests_total", series + [CounterTable.Label("result", results)], factory: factory)
        breakers = Dictionary(
            uniqueKeysWithValues: Host.allCases.map { host in
                let gauge = Gauge(
                    label: "\(prefix)_breaker_state",
                    dimensions: Host.allCases.count == 1 ? [] : [("host", host.rawValue)], factory: factory)
                gauge.record(BreakerState.closed.rawValue)
                return (host, gauge)
            })
        time = Timer(label: "\(prefix)_request_seconds", factory: factory)
        waits = countsWaits ? Counter(label: "\(prefix)_budget_waits_total", factory: factory) : nil
        waits?.increment(by: 0)
    }

    func note(_ label: CallLabel, of series: [String], duration: Duration) {
        calls.increment(series + [label.rawValue])
        time.record(duration: duration)
    }

    func note(_ state: BreakerState, of host: Host) {
        breakers[host]?.record(state.rawValue)
    }

    func noteWait() {
        waits?.increment()
    }
}
