import Postgres
import Subscriptions

/// Writes batches of events, each batch in one transaction and one round trip.
package struct EventLogWriter: Sendable {
    let pool: PostgresPool
    private let layout = DatabaseLayout()

    /// What connections of the receiver's role need set. A batch's plan does not hang on what is in it, and planning
    /// the append takes as long as executing it for a small batch; left to itself PostgreSQL plans it each time,
    /// because it knows how many rows the arrays of that batch make. Compiling a plan takes longer than a batch.
    package static let planSettings = ["enable_seqscan": "off", "jit": "off", "plan_cache_mode": "force_generic_plan"]

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Appends events to the streams of the given ids and returns the place of each, in the order of the events; nil for
    /// an event whose stream does not have that id, of which nothing is written.
    ///
    /// The first step locks the heads of the streams, in the order of their ids so that two writers cannot wait for
    /// each other. The append is a statement of its own because a statement sees what had been committed when it
    /// began: it must begin after the lock to see what the previous holder committed. The headers of the bodies go
    /// in between: nothing is remembered of them here, since a failover could have lost what we remember, and a body
    /// without its header is lost.
    ///
    /// One transaction stores all events or none. In a distributed database, each stream of the batch has a transaction
    /// of its own, on its node, and fails alone.
    ///
    /// If there is no partition for the bodies of the month, it is made, and the events are appended again.
    package func append(
        _ events: [PreparedEvent], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async -> [Result<Appended?, PostgresError>] {
        let outcomes = await tryAppending(events, streamIds: streamIds, deadline: deadline)
        let isMissingPartition = outcomes.contains { outcome in
            if case .failure(let error) = outcome { error.isMissingPartition } else { false }
        }
        guard isMissingPartition, ContinuousClock.now < deadline else { return outcomes }
        do throws(PostgresError) {
            // A batch waits for seconds at most, so it has two months at most.
            let times = events.map(\.receivedAt)
            for time in [times.min(), times.max()].compactMap(\.self) {
                _ = try await pool.query(
                    BodyPartitions.make, [Parameter(time), Parameter(Int32(0))], deadline: deadline)
            }
        } catch {
            return outcomes
        }
        // What another stream's node has stored is a repeat now, which gets the same place.
        return await tryAppending(events, streamIds: streamIds, deadline: deadline)
    }

    private func tryAppending(
        _ events: [PreparedEvent], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async -> [Result<Appended?, PostgresError>] {
        do throws(PostgresError) {
            if try await layout.isDistributed(pool, deadline: deadline) {
                return await appendOnNodes(events, streamIds: streamIds, deadline: deadline)
            }
            let batch = AppendBatch(events, streamIds: streamIds)
            let steps = [
                Step(Statements.lockHeads, [batch.distinctStreams]),
                Step(Statements.keepHeaders, batch.headerParameters),
                Step(Statements.append, batch.appendParameters),
            ]
            let results = try await pool.withConnection(deadline: deadline) {
                (connection) async throws(PostgresError) -> [RowSet] in
                try await connection.transaction(steps, deadline: deadline)
            }
            return try Self.places(results[2], count: events.count).map { .success($0) }
        } catch {
            return Array(repeating: .failure(error), count: events.count)
        }
    }

    /// Appends an event to a stream in the open transaction of a connection, whose role must be allowed to.
    static func append(
        _ event: PreparedEvent, streamId: Int32, in connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Appended {
        let batch = AppendBatch([event], streamIds: [streamId])
        _ = try await connection.query(
            BodyPartitions.make, [Parameter(event.receivedAt), Parameter(Int32(0))], deadline: deadline)
        _ = try await connection.query(Statements.lockHeads, [batch.distinctStreams], deadline: deadline)
        _ = try await connection.query(Statements.keepHeaders, batch.headerParameters, deadline: deadline)
        let rows = try await connection.query(Statements.append, batch.appendParameters, deadline: deadline)
        guard let place = try places(rows, count: 1)[0] else { throw PostgresError(.unavailable) }
        return place
    }

    static func places(_ rows: RowSet, count: Int) throws(PostgresError) -> [Appended?] {
        var places = [Appended?](repeating: nil, count: count)
        for row in rows {
            let ordinal: Int64 = try row.value(at: 0)
            places[Int(ordinal) - 1] = Appended(
                position: try row.value(at: 1), isNew: try row.value(at: 2), isConflict: try row.value(at: 3))
        }
        return places
    }

    /// The id of a stream, made if there is none yet. Safe from several writers at once: unique keys keep them apart,
    /// and the one that comes second looks again.
    package func streamId(of stream: StreamKey, deadline: ContinuousClock.Instant) async throws(PostgresError) -> Int32
    {
        let key = [Parameter(stream.app), Parameter(stream.environment.rawValue)]
        while true {
            let found = try await pool.query(Statements.findStream, key, deadline: deadline)
            if found.count == 1 { return try found[0].value(at: 0) }
            guard ContinuousClock.now < deadline else { throw PostgresError(.deadlineExceeded) }
            let id: Int32 = try await pool.query(Statements.nextStreamId, [], deadline: deadline)[0].value(at: 0)
            let steps = [
                Step(Statements.createStream, key + [Parameter(id)]), Step(Statements.createHead, key),
            ]
            do throws(PostgresError) {
                _ = try await pool.withConnection(deadline: deadline) {
                    (connection) async throws(PostgresError) -> [RowSet] in
                    try await connection.transaction(steps, deadline: deadline)
                }
            } catch {
                // unique_violation
                guard error.sqlstate == "23505" else { throw error }
            }
        }
    }
}
