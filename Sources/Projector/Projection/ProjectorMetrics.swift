import Metrics
import Subscriptions

/// Metrics of the projector. Created at start, so that each is exported from then on.
struct ProjectorMetrics: Sendable {
    /// Unfolded events of all streams, as of the last read of the log.
    let lag = Gauge(label: "subledger_projector_lag_events")
    /// Failed reads of the log and failed folds. While reads fail, the lag is not updated.
    let failures = Counter(label: "subledger_projector_failures_total")
    /// Account tokens that turned out to be shared by more store accounts than the app's rules allow.
    let sharedTokens = Counter(label: "subledger_account_tokens_shared_total")
    /// Customers who lost a seat of a subscription, since there are fewer seats than claims.
    let lostSeats = Counter(label: "subledger_seats_lost_total")
    /// What events say about customers besides their facts, by kind.
    let notices = Dictionary(
        uniqueKeysWithValues: CustomerNotice.Kind.allCases.map { kind in
            (kind, Counter(label: "subledger_customer_notices_total", dimensions: [("kind", kind.rawValue)]))
        })
}
