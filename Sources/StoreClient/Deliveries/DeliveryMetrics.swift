import Metrics

/// Metrics of notifications that were fetched from Apple's history. Created at start, so that the first occurrence of
/// each is visible as an increase from zero.
struct DeliveryMetrics: Sendable {
    private let fetched: [String: Counter]
    private let lost: [String: Counter]

    init(apps: [String], factory: any MetricsFactory) {
        func counters(_ label: String) -> [String: Counter] {
            var counters: [String: Counter] = [:]
            for app in apps {
                let counter = Counter(label: label, dimensions: [("app", app)], factory: factory)
                counter.increment(by: 0)
                counters[app] = counter
            }
            return counters
        }
        fetched = counters("subledger_notifications_fetched_total")
        lost = counters("subledger_notifications_lost_total")
    }

    /// - Parameter wasDelivered: Whether Apple says that it delivered the notification.
    func noteFetched(of app: String, wasDelivered: Bool) {
        fetched[app]?.increment()
        if wasDelivered { lost[app]?.increment() }
    }
}
