import Metrics

/// What an operator sees of appending. Made at the start, so that all of it can be seen from then on.
struct AppendMetrics: Sendable {
    /// Events that wait for the next commit.
    let queue = Gauge(label: "subledger_append_queue_events")
    /// How long the transactions of batches took, failed ones included.
    let time = Timer(label: "subledger_append_seconds")
    /// Batches that were committed, and the events in them.
    let batches = Counter(label: "subledger_batches_total")
    let batchEvents = Counter(label: "subledger_batch_events_total")
    let unknownValues = UnknownValueMetrics()
}
