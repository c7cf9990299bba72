import Crypto
import Encoding
import Postgres
import Subscriptions

/// Writes batches of events, each batch in one transaction and one round trip.
package struct EventLogWriter: Sendable {
    let pool: PostgresPool

    /// What connections of the receiver's role need set. A batch's plan does not hang on what is in it, and planning
    /// the append takes as long as executing it for a small batch; left to itself PostgreSQL plans it each time,
    /// because it knows how many rows the arrays of that batch make.
    package static let planSettings = ["enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"]

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// An event with what a row of the log needs beside it, made ready outside the transaction.
    package struct Entry: Sendable {
        package let stream: StreamKey
        package let event: Event
        let body: CompactBody
        let bodyDigest: [UInt8]
        let facts: JSONB
        let defects: JSONB?
        /// As column `subscription_sha256` of `subscription_head` has them, without repetition.
        let subscriptions: [[UInt8]]
        let chain: SigningChain?
        package let receivedAt: Instant

        /// - Parameter receivedAt: Our clock.
        package init(_ proven: some ProvenEvent, receivedAt: Instant) {
            stream = proven.stream
            event = proven.event
            body = CompactBody(proven.body)
            bodyDigest = proven.bodyDigest
            var writer = JSONWriter()
            writer.object { proven.event.writeFacts(to: &$0) }
            facts = JSONB(utf8: writer.bytes)
            if proven.event.defects.isEmpty {
                defects = nil
            } else {
                writer = JSONWriter()
                writer.array(proven.event.defects) { $1.write(to: &$0) }
                defects = JSONB(utf8: writer.bytes)
            }
            let digests = proven.event.subscriptions.map { Array(SHA256.hash(data: Array($0.text.utf8)).prefix(8)) }
            subscriptions = Array(Set(digests))
            chain = proven.chain
            self.receivedAt = receivedAt
        }

        /// What it takes on its way to the database.
        var bodyBytes: Int { body.stored.count + body.headers.reduce(0) { $0 + $1.text.count } }
    }

    /// Appends entries to the streams of the given ids and returns their places, in the order of the entries; nil for
    /// an entry whose stream does not have that id, of which nothing is written.
    ///
    /// The first step locks the heads of the streams, in the order of their ids so that two writers cannot wait for
    /// each other. The append is a statement of its own because a statement sees what had been committed when it
    /// began: it must begin after the lock to see what the previous holder committed. The headers of the bodies go
    /// in between: nothing is remembered of them here, since a failover could have lost what we remember, and a body
    /// without its header is lost.
    package func append(
        _ entries: [Entry], streamIds: [Int32], deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> [Appended?] {
        let batch = AppendBatch(entries, streamIds: streamIds)
        let steps = [
            Step(Statements.lockHeads, [batch.distinctStreams]),
            Step(Statements.keepHeaders, batch.headerParameters),
            Step(Statements.append, batch.appendParameters),
        ]
        let results = try await pool.withConnection(deadline: deadline) {
            (connection) async throws(PostgresError) -> [RowSet] in
            try await connection.transaction(steps, deadline: deadline)
        }
        let rows = results[2]
        var places = [Appended?](repeating: nil, count: entries.count)
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
            _ = try await pool.query(Statements.createStream, key, deadline: deadline)
        }
    }
}
