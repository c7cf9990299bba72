import EventLog
import Postgres
import Subscriptions

/// A subscription as the projector holds it while it folds a batch.
struct ProjectedSubscription: Sendable {
    var facts: SubscriptionFacts
    /// The last event that said something about the subscription.
    var position: Int64
    /// What its rows say now, so that only those are written that change; nil where that is not known.
    var written: Subscription?
    /// It has no row yet, so that its rows can be copied in.
    var isNew = false
}

extension ProjectedSubscription {
    /// Reads rows with the columns of ``ProjectionStatements/loadSubscriptions``.
    static func read(_ rows: RowSet) throws(PostgresError) -> ProjectionOutcome<[ProjectedSubscription]> {
        var states: [ProjectedSubscription] = []
        states.reserveCapacity(rows.count)
        for row in rows {
            let id: String = try row.value(at: 0)
            let position: Int64 = try row.value(at: 1)
            let facts = readJSON(try row.value(JSONText.self, at: 2).utf8, position: position) {
                try SubscriptionFacts(originalTransactionId: id, json: $0)
            }
            switch facts {
            case .success(let facts): states.append(ProjectedSubscription(facts: facts, position: position))
            case .failure(let failure): return .failure(ProjectionError(failure))
            }
        }
        return .success(states)
    }
}

extension FoldableEvent {
    /// Folds what the event says about each of its subscriptions.
    func fold(into states: inout [String: ProjectedSubscription]) {
        for (id, facts) in factsBySubscription {
            let new = ProjectedSubscription(
                facts: SubscriptionFacts(originalTransactionId: id), position: position, isNew: true)
            // In its place: a subscription that is held twice is copied with all its facts.
            fold(facts, into: &states[id, default: new])
        }
    }

    private func fold(_ facts: StatedFacts, into state: inout ProjectedSubscription) {
        fold(facts, into: &state.facts)
        state.position = position
    }
}
