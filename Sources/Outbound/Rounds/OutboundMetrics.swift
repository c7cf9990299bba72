import Encoding
import EventLog
import Metrics

/// Counts attempts by what came of them.
struct OutboundMetrics: Sendable {
    private let attempts: CounterTable
    private let oldest: Gauge
    private let disabled: Gauge
    private let failing: Gauge
    private let lost: Gauge

    init(factory: any MetricsFactory) {
        attempts = CounterTable(
            "subledger_endpoint_attempts_total",
            [MetricLabel("purpose", Endpoint.Purpose.allCases), MetricLabel("result", AttemptOutcome.Class.allCases)],
            factory: factory)
        oldest = Gauge(label: "subledger_endpoint_oldest_undelivered_seconds", factory: factory)
        disabled = Gauge(label: "subledger_endpoints_disabled", factory: factory)
        failing = Gauge(label: "subledger_endpoints_failing", factory: factory)
        lost = Gauge(label: "subledger_endpoint_bodies_lost", factory: factory)
        for gauge in [oldest, disabled, failing, lost] { gauge.record(0) }
    }

    func note(_ outcome: AttemptOutcome.Class, of purpose: Endpoint.Purpose) {
        attempts.increment([purpose.rawValue, outcome.rawValue])
    }

    func note(_ figures: DeliveryLog.Figures, at now: Instant) {
        oldest.record(figures.oldest.map { max(0, Double($0.duration(to: now) / .milliseconds(1)) / 1000) } ?? 0)
        disabled.record(figures.disabled)
        failing.record(figures.failing)
        lost.record(figures.lost)
    }
}
