import Postgres

extension EventLogWriter {
    /// Appends the events of each stream in a transaction on the node of the stream.
    func appendOnNodes(
        _ events: [PreparedEvent], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> [Appended?] {
        let streams = Dictionary(grouping: events.indices) { streamIds[$0] }
        var outcomes: [(indices: [Int], result: Result<[Appended?], PostgresError>)] = []
        await withTaskGroup(of: (indices: [Int], result: Result<[Appended?], PostgresError>).self) { group in
            for (id, indices) in streams {
                group.addTask {
                    let batch = indices.map { events[$0] }
                    do throws(PostgresError) {
                        return (indices, .success(try await appendOnNode(batch, streamId: id, deadline: deadline)))
                    } catch {
                        return (indices, .failure(error))
                    }
                }
            }
            for await outcome in group { outcomes.append(outcome) }
        }
        var places = [Appended?](repeating: nil, count: events.count)
        for outcome in outcomes {
            for (index, place) in zip(outcome.indices, try outcome.result.get()) { places[index] = place }
        }
        return places
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
