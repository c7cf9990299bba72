import Postgres

extension EventLogWriter {
    /// Appends the events of each stream in a transaction on the node of the stream.
    func appendOnNodes(
        _ events: [PreparedEvent], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async -> [Result<Appended?, PostgresError>] {
        let streams = Dictionary(grouping: events.indices) { streamIds[$0] }
        var outcomes = [Result<Appended?, PostgresError>](repeating: .success(nil), count: events.count)
        await withTaskGroup(of: [(index: Int, outcome: Result<Appended?, PostgresError>)].self) { group in
            for (id, indices) in streams {
                group.addTask {
                    let batch = indices.map { events[$0] }
                    do throws(PostgresError) {
                        let places = try await appendOnNode(batch, streamId: id, deadline: deadline)
                        return zip(indices, places).map { ($0, .success($1)) }
                    } catch {
                        return indices.map { ($0, .failure(error)) }
                    }
                }
            }
            for await stream in group {
                for (index, outcome) in stream { outcomes[index] = outcome }
            }
        }
        return outcomes
    }

    /// If the stream moves to another node meanwhile, the batch is appended there.
    private func appendOnNode(
        _ events: [PreparedEvent], streamId: Int32, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> [Appended?] {
        let batch = AppendBatch(events, streamIds: Array(repeating: streamId, count: events.count))
        let step = Step(
            NodeFunctions.appendOnNode, [Parameter(streamId)] + batch.headerParameters + batch.appendParameters)
        while true {
            do throws(PostgresError) {
                let results = try await pool.withConnection(deadline: deadline) {
                    (connection) async throws(PostgresError) -> [RowSet] in
                    try await connection.transaction([step], deadline: deadline)
                }
                return try Self.places(results[0], count: events.count)
            } catch {
                guard error.sqlstate == NodeFunctions.moved, ContinuousClock.now < deadline else { throw error }
            }
        }
    }
}
