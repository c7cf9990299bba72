import Encoding
import EventLog
import Postgres
import Subscriptions

extension ProjectionRebuild {
    package struct Comparison: Sendable, Hashable {
        package internal(set) var streams = 0
        package internal(set) var eventsFolded: Int64 = 0
        /// Rows that a rebuild would change, add or remove.
        package internal(set) var rows = 0
        /// Subscriptions with such rows.
        package internal(set) var subscriptions = 0
    }

    /// Folds the log like a rebuild, compares the result with the live rows, and discards it.
    ///
    /// The live rows stay as they are, and readers do not notice. While the rows of a stream are compared, its live
    /// projection waits.
    ///
    /// - Parameters:
    ///   - onProgress: Called after each batch.
    ///   - onDifference: Called with each difference, in order of stream, subscription and table.
    /// - Throws: ``RebuildError``, ``PostgresError``, and what the parameters throw.
    package func compare(
        onProgress: (Progress) async throws -> Void, onDifference: (RebuildDifference) throws -> Void
    ) async throws -> Comparison {
        try await claiming { connection, claim in
            do {
                let comparison = try await compare(connection, claim, onProgress, onDifference)
                try await discard(connection, claim)
                return comparison
            } catch {
                try? await discard(connection, claim)
                throw error
            }
        }
    }

    private func discard(_ connection: PostgresConnection, _ claim: PostgresConnection) async throws {
        // Ends the locks on the tables that are dropped.
        try await claim.rollback(deadline: .now + Limits.statementWaitMax)
        _ = try await connection.query(Step(RebuildStatements.dropTables), deadline: .now + Limits.statementWaitMax)
    }

    private func compare(
        _ connection: PostgresConnection, _ claim: PostgresConnection, _ onProgress: (Progress) async throws -> Void,
        _ onDifference: (RebuildDifference) throws -> Void
    ) async throws -> Comparison {
        func query(_ step: Step, _ limit: Duration) async throws(PostgresError) -> RowSet {
            try await claim.query(step, deadline: .now + limit)
        }
        /// The position of the live rows; nil if the stream has none.
        func livePosition(_ stream: Stream) async throws(PostgresError) -> Int64? {
            let rows = try await query(
                Step(RebuildStatements.liveCheckpoint, [Parameter(stream.id)]), Limits.statementWaitMax)
            return rows.count > 0 ? try rows[0].value(at: 0) : nil
        }
        var streams = try await self.streams(connection)
        try await connection.script(
            RebuildStatements.makeTables.text + ";\n" + DifferenceStatements.makeTable.text,
            deadline: .now + Limits.statementWaitMax)
        for index in streams.indices {
            guard let position = try await livePosition(streams[index]) else { continue }
            try await catchUp(&streams, index, through: position, onProgress)
        }
        try await connection.script(RebuildStatements.analyze.text, deadline: .now + Limits.tableWaitMax)
        _ = try await query(Step(RebuildStatements.workAsProjector), Limits.statementWaitMax)
        _ = try await query(Step(RebuildStatements.disableJIT), Limits.statementWaitMax)
        var comparison = Comparison()
        for index in streams.indices {
            let id = Parameter(streams[index].id)
            _ = try await query(Step(RebuildStatements.lockLive, [id]), Limits.leadWaitMax)
            guard let position = try await livePosition(streams[index]) else { continue }
            // The projection may have advanced meanwhile. Both sides must have folded the same events.
            try await catchUp(&streams, index, through: position, onProgress)
            for table in DifferenceStatements.tables {
                for _ in 1...table.passes {
                    for statement in table.prepare {
                        _ = try await query(Step(statement, [id]), Limits.tableWaitMax)
                    }
                    let isSame = try await query(Step(table.isSame, [id]), Limits.tableWaitMax)
                    if try isSame[0].value(Bool.self, at: 0) { break }
                    _ = try await query(Step(table.record, [id]), Limits.tableWaitMax)
                }
            }
            comparison.streams += 1
            comparison.eventsFolded += streams[index].folded
            try await DifferenceReader(stream: streams[index], connection: claim).read(&comparison, onDifference)
        }
        return comparison
    }
}
