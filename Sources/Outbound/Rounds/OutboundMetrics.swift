import Encoding
import Metrics

/// Counts attempts by what came of them. The counters are created at start, so that the first occurrence of each is visible
/// as an increase from zero.
struct OutboundMetrics: Sendable {
    private let attempts: [Endpoint.Purpose: [AttemptOutcome.Class: Counter]]
    private let oldest: Gauge
    private let disabled: Gauge
    private let failing: Gauge

    init(factory: any MetricsFactory) {
        var attempts: [Endpoint.Purpose: [AttemptOutcome.Class: Counter]] = [:]
        for purpose in Endpoint.Purpose.allCases {
            for outcome in AttemptOutcome.Class.allCases {
                let counter = Counter(
                    label: "subledger_endpoint_attempts_total",
                    dimensions: [("purpose", purpose.rawValue), ("result", outcome.rawValue)], factory: factory)
                counter.increment(by: 0)
                attempts[purpose, default: [:]][outcome] = counter
            }
        }
        self.attempts = attempts
        oldest = Gauge(label: "subledger_endpoint_oldest_undelivered_seconds", factory: factory)
        disabled = Gauge(label: "subledger_endpoints_disabled", factory: factory)
        failing = Gauge(label: "subledger_endpoints_failing", factory: factory)
        for gauge in [oldest, disabled, failing] { gauge.record(0) }
    }

    func note(_ outcome: AttemptOutcome.Class, of purpose: Endpoint.Purpose) {
        attempts[purpose]?[outcome]?.increment()
    }

    func note(_ figures: DeliveryLog.Figures, at now: Instant) {
        oldest.record(figures.oldest.map { max(0, Double($0.duration(to: now) / .milliseconds(1)) / 1000) } ?? 0)
        disabled.record(figures.disabled)
        failing.record(figures.failing)
    }
}
