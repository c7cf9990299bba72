import EventLog
import Postgres
import Subscriptions

/// A line as the projector holds it while it folds a batch.
struct ProjectedLine: Sendable {
    var facts: SubscriptionFacts
    /// The last event that said something about the line.
    var position: Int64
    /// What its rows say now, so that only those are written that change; nil where that is not known.
    var written: Subscription?
    /// It has no row yet, so that its rows can be copied in.
    var isNew = false
}

extension ProjectedLine {
    /// Reads rows with the columns of ``ProjectionStatements/loadSubscriptions``.
    static func read(_ rows: RowSet) throws(PostgresError) -> ProjectionOutcome<[ProjectedLine]> {
        var lines: [ProjectedLine] = []
        lines.reserveCapacity(rows.count)
        for row in rows {
            let id: String = try row.value(at: 0)
            let position: Int64 = try row.value(at: 1)
            let facts = readJSON(try row.value(JSONText.self, at: 2).utf8, position: position) {
                try SubscriptionFacts(originalTransactionId: id, json: $0)
            }
            switch facts {
            case .success(let facts): lines.append(ProjectedLine(facts: facts, position: position))
            case .failure(let failure): return .failure(ProjectionError(failure))
            }
        }
        return .success(lines)
    }
}

extension FoldableEvent {
    /// Folds what the event says about each of its lines.
    func fold(into lines: inout [String: ProjectedLine]) {
        for (id, facts) in factsByLine {
            let new = ProjectedLine(
                facts: SubscriptionFacts(originalTransactionId: id), position: position, isNew: true)
            // In its place: a line that is held twice is copied with all its facts.
            fold(facts, into: &lines[id, default: new])
        }
    }

    private func fold(_ facts: StatedFacts, into line: inout ProjectedLine) {
        fold(facts, into: &line.facts)
        line.position = position
    }
}
