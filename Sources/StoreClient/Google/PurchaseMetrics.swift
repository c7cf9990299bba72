import EventLog
import Metrics

/// Metrics of questions about purchases of Google Play. Created at start, so that the first occurrence of each is visible
/// as an increase from zero.
struct PurchaseMetrics: Sendable {
    /// What came of an attempt to acknowledge a purchase.
    enum Acknowledgement: String, CaseIterable {
        case made
        /// Google says that it was acknowledged before, or must not be.
        case refused
        case failed
    }

    private let due: Gauge
    private let oldestDue: Gauge
    private let oldestUnacknowledged: Gauge
    private let stale: Counter
    /// By package name.
    private let results: [String: [PurchaseResult: Counter]]
    private let acknowledgements: [String: [Acknowledgement: Counter]]

    init(apps: [String], factory: any MetricsFactory) {
        due = Gauge(label: "subledger_google_purchases_due", factory: factory)
        oldestDue = Gauge(label: "subledger_google_purchases_oldest_due_seconds", factory: factory)
        oldestUnacknowledged = Gauge(label: "subledger_google_oldest_unacknowledged_seconds", factory: factory)
        for gauge in [due, oldestDue, oldestUnacknowledged] { gauge.record(0) }
        stale = Counter(label: "subledger_google_stale_answers_total", factory: factory)
        stale.increment(by: 0)
        func counters<Result: RawRepresentable & CaseIterable & Hashable>(
            _ label: String, _: Result.Type
        ) -> [String: [Result: Counter]] where Result.RawValue == String {
            Dictionary(
                uniqueKeysWithValues: apps.map { app in
                    let counters = Result.allCases.map { result in
                        let counter = Counter(
                            label: label, dimensions: [("app", app), ("result", result.rawValue)], factory: factory)
                        counter.increment(by: 0)
                        return (result, counter)
                    }
                    return (app, Dictionary(uniqueKeysWithValues: counters))
                })
        }
        results = counters("subledger_google_questions_total", PurchaseResult.self)
        acknowledgements = counters("subledger_google_acknowledgements_total", Acknowledgement.self)
    }

    func note(_ result: PurchaseResult, of app: String) {
        results[app]?[result]?.increment()
    }

    func noteAcknowledgement(_ acknowledgement: Acknowledgement, of app: String) {
        acknowledgements[app]?[acknowledgement]?.increment()
    }

    /// Counts a notification whose effect no answer has shown.
    func noteStale() { stale.increment() }

    func note(_ backlog: PurchaseBacklog) {
        due.record(backlog.due)
        oldestDue.record(backlog.oldest / .seconds(1))
        oldestUnacknowledged.record(backlog.oldestUnacknowledged / .seconds(1))
    }
}

/// The questions that are due and the purchases that are not acknowledged, of all apps that are asked about.
package struct PurchaseBacklog: Sendable, Hashable {
    package var due: Int64 = 0
    /// How long the oldest one has been due; zero if none is.
    package var oldest = Duration.zero
    /// How long ago the oldest unacknowledged purchase was bought; zero if there is none.
    package var oldestUnacknowledged = Duration.zero
}
