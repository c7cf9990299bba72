import EventLog
import Postgres
import Subscriptions

/// A subscription while the projector folds a batch.
struct ProjectedSubscription: Sendable {
    package var facts: SubscriptionFacts
    /// The position of the last event about the subscription.
    var position: Int64
    /// The content of the stored rows, so that only changed rows are written; nil if it is not known.
    var written: Subscription?
    /// What the facts say about the owner; nil if it is not known.
    var evidence: OwnershipEvidence?
    /// True if the subscription has no rows yet, so that they can be written by `copy`.
    var isNew = false
    /// True if the batch changed the facts.
    var isTouched = false
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

extension ProjectedSubscription {
    /// Folds the events at some positions into subscriptions about which nothing was known before.
    ///
    /// - Parameters:
    ///   - positions: Ascending.
    ///   - isWanted: Whether the facts about a subscription are folded, by its id.
    static func fold(
        _ positions: [Int64], of streamId: Int32, about isWanted: (String) -> Bool, _ connection: PostgresConnection
    ) async throws(PostgresError) -> ProjectionOutcome<[String: ProjectedSubscription]> {
        var states: [String: ProjectedSubscription] = [:]
        var holders = TransactionHolders()
        var rest = positions[...]
        while !rest.isEmpty {
            let page = Array(rest.prefix(Int(Limits.batchEventsMax)))
            rest = rest.dropFirst(page.count)
            let rows = try await connection.query(Step(AuditStatements.events, [Parameter(streamId), .array(page)]))
            for row in rows {
                switch try FoldableEvent.read(row) {
                case .success(let event): event.about(isWanted).fold(into: &states, among: &holders)
                case .failure(let failure): return .failure(ProjectionError(failure))
                }
            }
        }
        return .success(states)
    }
}

extension ProjectedSubscription: SubscriptionState {
    package init(originalTransactionId: String, position: Int64) {
        self.init(
            facts: SubscriptionFacts(originalTransactionId: originalTransactionId), position: position, isNew: true)
    }

    package mutating func change(position: Int64, _ body: (inout SubscriptionFacts) -> Void) {
        body(&facts)
        self.position = position
        evidence = nil
        isTouched = true
    }
}
