import Encoding
import EventLog
import Postgres
import Subscriptions

/// Folds subscriptions into temporary tables of a session, and compares them with the live tables.
struct AuditWorker: Sendable {
    let connection: PostgresConnection

    /// The subscriptions that an event mentions, which may repeat.
    struct Mention: Sendable {
        let position: Int64
        let subscriptions: [String]
    }

    /// What the events after a position mention, in order of position. Called outside of a transaction.
    func mentions(_ stream: Int32, after position: Int64, through last: Int64) async throws -> [Mention] {
        let rows = try await query(
            Step(AuditStatements.eventSubscriptions, [Parameter(stream), Parameter(position), Parameter(last)]))
        return try rows.map { row in
            let subscriptions = try JSONDocument(try row.value(JSONText.self, at: 1).utf8).root.elements
            return Mention(position: try row.value(at: 0), subscriptions: subscriptions.compactMap(\.string))
        }
    }

    /// Compares some subscriptions in one snapshot of the database.
    ///
    /// - Returns: False if the projector is ahead of the index.
    func compare(_ ids: [String], _ stream: Int32, _ index: MentionIndex) async -> Result<Bool, any Error> {
        do {
            return .success(try await outcome(ids, stream, index))
        } catch {
            return .failure(error)
        }
    }

    private func outcome(_ ids: [String], _ stream: Int32, _ index: MentionIndex) async throws -> Bool {
        try await connection.begin(deadline: .now + Limits.statementWaitMax)
        do {
            let isDone = try await compareInTransaction(ids, stream, index)
            // Commit to empty the tables: a rollback would leave dead rows in them.
            try await connection.commit(deadline: .now + Limits.statementWaitMax)
            return isDone
        } catch {
            try? await connection.rollback(deadline: .now + Limits.statementWaitMax)
            throw error
        }
    }

    private func compareInTransaction(_ ids: [String], _ stream: Int32, _ index: MentionIndex) async throws -> Bool {
        _ = try await query(Step(AuditStatements.beginSnapshot))
        _ = try await query(
            Step(AuditStatements.selectTables, [Parameter(ProjectionTables.temporary.rawValue)]))
        let place = try await query(Step(AuditStatements.streamPosition, [Parameter(stream)]))
        let folded: Int64 = try place[0].optional(at: 1) ?? 0
        guard folded <= index.upTo else { return false }

        let mentions = index.events(about: ids, upTo: folded)
        var ids = ids
        var fresh = try await fold(mentions, about: Set(ids), stream)
        let mayJoin = fresh.values.contains { $0.facts.mayJoinOthers }
        let tied = mayJoin ? ids : try await self.tied(ids, stream)
        if !tied.isEmpty {
            let related = try await related(to: tied, stream)
            ids = related.subscriptions.union(ids).sorted()
            fresh = try await fold(related.positions.union(mentions).sorted(), about: Set(ids), stream)
        }
        if !fresh.isEmpty {
            let writer = ProjectionWriter(
                streamId: stream, products: ProductCatalog(configured: try place[0].optional(at: 2) ?? ""),
                checks: (CheckPolicy(recorded: try place[0].optional(at: 5) ?? "") ?? .standard)
                    .of(Environment(rawValue: try place[0].optional(at: 6) ?? "")),
                tables: .temporary)
            let states = fresh.keys.sorted().compactMap { fresh[$0] }
            for step in writer.steps(states, writer.subscriptions(states)) { _ = try await query(step) }
            let edges = fresh.sorted { $0.key < $1.key }.flatMap { id, folded in
                CustomerChanges.edges(id, folded.facts.ownershipEvidence())
            }
            _ = try await query(Step(AuditStatements.copyNextChecks))
            _ = try await query(Step(CustomerStatements.writeEdges, CustomerFold.parameters(stream, edges)))
        }
        let difference = try await query(
            Step(AuditStatements.firstDifference, [Parameter(stream), .array(ids)]))
        if difference.count > 0 { throw try ProjectionAudit.problem(difference[0]) }
        return true
    }

    private func fold(
        _ positions: [Int64], about wanted: Set<String>, _ stream: Int32
    ) async throws -> [String: ProjectedSubscription] {
        switch try await ProjectedSubscription.fold(positions, of: stream, about: { wanted.contains($0) }, connection) {
        case .success(let fresh): return fresh
        case .failure(let failure): throw ProjectionAudit.Problem(description: "\(failure)")
        }
    }

    /// Those of some subscriptions that are tied to others, by which their facts may be determined, too.
    private func tied(_ ids: [String], _ stream: Int32) async throws -> [String] {
        try await query(Step(AuditStatements.tied, [Parameter(stream), .array(ids)])).map { row in
            try row.value(at: 0)
        }
    }

    /// All purchases of the subscriptions that some purchases belong to, and all subscriptions under which transactions of
    /// some were reported, with the positions of the events about them, as the stored rows have them. Events that these do
    /// not have are found by the subscriptions that they mention.
    private func related(
        to ids: [String], _ stream: Int32
    ) async throws -> (subscriptions: Set<String>, positions: Set<Int64>) {
        var (purchases, positions): (Set<String>, Set<Int64>) = ([], [])
        var wanted = Set(ids)
        while !wanted.isEmpty {
            purchases.formUnion(wanted)
            let rows = try await query(Step(AuditStatements.facts, [Parameter(stream), .array(wanted.sorted())]))
            wanted = []
            switch try ProjectedSubscription.read(rows) {
            case .success(let states):
                for state in states {
                    positions.formUnion(state.facts.positions)
                    if let line = state.facts.line { positions.insert(line.position) }
                    wanted.formUnion(state.facts.succession.members)
                    wanted.formUnion(state.facts.otherHolders)
                }
            case .failure(let failure): throw ProjectionAudit.Problem(description: "\(failure)")
            }
            wanted.subtract(purchases)
        }
        return (purchases, positions)
    }

    private func query(_ step: Step) async throws(PostgresError) -> RowSet {
        try await connection.query(step, deadline: .now + Limits.statementWaitMax)
    }
}
