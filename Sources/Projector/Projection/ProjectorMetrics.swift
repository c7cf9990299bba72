import Metrics

/// What an operator sees of folding. Made at the start, so that all of it can be seen from then on.
struct ProjectorMetrics: Sendable {
    /// Events of all streams behind their checkpoints, as of the last look at the log.
    let lag = Gauge(label: "subledger_projector_lag_events")
    /// Looks at the log, and streams, that failed. While they do, the lag stands still.
    let failures = Counter(label: "subledger_projector_failures_total")
}
