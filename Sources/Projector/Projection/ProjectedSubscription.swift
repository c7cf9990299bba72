import EventLog
import Postgres
import Subscriptions

/// A subscription while the projector folds a batch.
struct ProjectedSubscription: Sendable {
    var facts: SubscriptionFacts
    /// The position of the last event about the subscription.
    var position: Int64
    /// The content of the stored rows, so that only changed rows are written; nil if it is not known.
    var written: Subscription?
    /// What the facts say about the owner; nil if it is not known.
    var evidence: OwnershipEvidence?
    /// True if the subscription has no rows yet, so that they can be written by `copy`.
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
    /// Folds the facts of the event into each of its subscriptions.
    func fold(into states: inout [String: ProjectedSubscription]) {
        for (id, facts) in factsBySubscription {
            let new = ProjectedSubscription(
                facts: SubscriptionFacts(originalTransactionId: id), position: position, isNew: true)
            // Mutate in place: a second reference would make Swift copy all facts.
            fold(facts, into: &states[id, default: new])
        }
    }

    private func fold(_ facts: StatedFacts, into state: inout ProjectedSubscription) {
        fold(facts, into: &state.facts)
        state.position = position
        state.evidence = nil
    }
}
