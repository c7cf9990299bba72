import AppStore
import Encoding
import EventLog
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Verify names the position of what a superuser changed in the log")
struct ChainTests {
    private static let key = HeadKey()
    private static let stream = StreamKey(app: V1Body.app, environment: .sandbox)
    private static let name = "stream 1 (com.example.magazine, sandbox)"

    /// Computes every value of the chain again, as a superuser can.
    static let recompute = """
        update subledger.event
        set chain = linked.chain
        from (
          select stream_id, event.position,
            subledger.chained(
              subledger.chain_start(stream.app, stream.environment, stream.created_at), event.position,
              subledger.event_digest(received_at, source, dedupe_key, body_sha256, chain_id, revocation)
            ) over (partition by stream_id order by event.position) as chain
          from subledger.event
          join subledger.stream using (stream_id)
        ) as linked
        where linked.stream_id = event.stream_id
          and linked.position = event.position;
        update subledger.stream_head
        set position = last.position, chain = last.chain
        from (
          select distinct on (stream_id) stream_id, position, chain
          from subledger.event
          order by stream_id, position desc
        ) as last
        where last.stream_id = stream_head.stream_id
        """

    /// A copy of the event at position 3 with a key of its own, at position 9; those after it move up.
    static let insertion = """
        update subledger.event set position = position + 100000 where position >= 9;
        update subledger.event set position = position - 99999 where position > 100000;
        insert into subledger.event (
          stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, fingerprint, facts,
          defects, body_sha256, chain_id, revocation, chain
        )
        select stream_id, 9, received_at, occurred_at, source, type, subtype, kind, sha256('x'), fingerprint, facts,
          defects, body_sha256, chain_id, revocation, chain
        from subledger.event
        where position = 3;
        update subledger.stream_head set position = position + 1
        """

    /// Removes an event; those after it move down.
    static let removal = """
        delete from subledger.event where position = 9;
        update subledger.event set position = position + 100000 where position > 9;
        update subledger.event set position = position - 100001 where position > 100000
        """

    static let swap = """
        update subledger.event set position = 100000 where position = 9;
        update subledger.event set position = 9 where position = 12;
        update subledger.event set position = 12 where position = 100000
        """

    /// Another body, with its digest.
    static let exchanged = """
        alter table subledger.event_body disable trigger event_body_append_only;
        update subledger.event_body set body = '{}' where position = 9;
        alter table subledger.event_body enable always trigger event_body_append_only;
        update subledger.event set body_sha256 = sha256('{}') where position = 9
        """

    static let rewritten = """
        update subledger.event set received_at = received_at + interval '1 hour' where position = 9
        """

    private static func withLog(_ test: (SimulatedLog, [SignedHead]) async throws -> Void) async throws {
        let template = try await SimulatedLog.fewStories.value
        try await SimulatedLog.with(from: template) { log in
            try await log.script("alter table subledger.event disable trigger event_append_only")
            try await test(log, try await heads(log))
        }
    }

    /// A head for each position, as a server would have signed it then.
    private static func heads(_ log: SimulatedLog) async throws -> [SignedHead] {
        let values = try await log.lines("select encode(chain, 'hex') from subledger.event order by position")
        return try values.enumerated().map { index, text in
            let value = Array(text.utf8).withUnsafeBufferPointer { Hex.bytes($0) }
            let head = StreamHead(stream: stream, position: Int64(index + 1), chain: try #require(value))
            return try key.sign(head, at: TestBundle.now)
        }
    }

    private static func finding(
        _ log: SimulatedLog, _ heads: [SignedHead] = [], keys: [HeadPublicKey] = [ChainTests.key.publicKey]
    ) async throws -> String? {
        let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
        let verifier = ChainVerifier(
            log: LogAudit(connection: connection), heads: HeadCheck(heads: heads, keys: keys))
        let outcome = try await verifier.run()
        await connection.close()
        return outcome.finding?.description
    }

    /// The finding of the whole verification.
    private static func wholeFinding(_ log: SimulatedLog, _ heads: [SignedHead]) async throws -> String? {
        let role = log.database.with(role: "subledger_projector")
        let (events, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
        let outcome = try await DatabaseVerifier(
            log: LogAudit(connection: events), projections: try await ProjectionAudit(connection: rows, seed: 1),
            signatures: SignatureVerifier(roots: SimulatedLog.roots), extent: .sample(1),
            heads: HeadCheck(heads: heads, keys: [key.publicKey])
        ).run()
        await events.close()
        await rows.close()
        return outcome.finding?.description
    }

    @Test("the append's chain is the one that the functions of the schema compute, and extends every earlier head")
    func clean() async throws {
        try await Self.withLog { log, heads in
            let before = try await log.lines("select encode(chain, 'hex') from subledger.stream_head")
            try await log.script(Self.recompute)

            let after = try await Self.heads(log)
            #expect(after.map(\.head) == heads.map(\.head))
            #expect(try await log.lines("select encode(chain, 'hex') from subledger.stream_head") == before)
            #expect(heads.count > 12)
            #expect(try await Self.finding(log, heads) == nil)
            #expect(try await Self.wholeFinding(log, heads) == nil)
        }
    }

    @Test(
        "a change that leaves the chain as it is is found at its position",
        arguments: [
            (rewritten, 9), ("update subledger.event set body_sha256 = sha256('x') where position = 9", 9),
            (exchanged, 9),
            ("update subledger.event set revocation = 'pending' where position = 9", 9),
            ("update subledger.event set chain = sha256('x') where position = 9", 9), (insertion, 9), (swap, 9),
            ("delete from subledger.event where position = 9", 9),
            ("update subledger.stream set created_at = created_at + interval '1 microsecond'", 1),
        ])
    func unchained(_ change: String, _ position: Int) async throws {
        try await Self.withLog { log, _ in
            try await log.script(change)

            let findings = [try await Self.finding(log), try await Self.wholeFinding(log, [])]
            for finding in findings {
                #expect(finding?.hasPrefix("\(Self.name) position \(position): ") == true, "\(finding ?? "none")")
            }
        }
    }

    @Test("a value of the chain in the stream's head that is not that of the last event is found there")
    func movedHead() async throws {
        try await Self.withLog { log, heads in
            let last = heads.count
            try await log.script("update subledger.stream_head set chain = sha256('x')")
            let forged = try await Self.finding(log)
            try await log.script(
                """
                delete from subledger.event where position = \(last);
                update subledger.stream_head set position = \(last - 1)
                """)
            let truncated = try await Self.finding(log)

            let problem = "chain in the stream's head is not that of the event"
            #expect(forged == "\(Self.name) position \(last): \(problem)")
            #expect(truncated == "\(Self.name) position \(last - 1): \(problem)")
        }
    }

    @Test(
        "a change with a chain that was computed again is found between two heads, and at its position by heads beside it",
        arguments: [rewritten, insertion, swap, removal])
    func rechained(_ change: String) async throws {
        try await Self.withLog { log, heads in
            try await log.script(change + ";" + Self.recompute)

            let unseen = try await Self.finding(log)
            let wide = try await Self.finding(log, [heads[3], heads[11]])
            let exact = try await Self.finding(log, [heads[8], heads[7], heads[11]])
            let whole = try await Self.wholeFinding(log, [heads[8], heads[7]])

            #expect(unseen == nil, "a chain alone cannot show that all of it was replaced")
            let problem = "an event was changed, inserted or removed: the log does not extend the head signed at"
            #expect(
                wide == "\(Self.name) positions 5 to 12: \(problem) \(TestBundle.now) with position 12",
                "\(wide ?? "none")")
            #expect(exact == "\(Self.name) position 9: \(problem) \(TestBundle.now) with position 9")
            // A copied event has an invalid key besides.
            #expect(whole?.hasPrefix("\(Self.name) position 9: ") == true, "\(whole ?? "none")")
        }
    }

    @Test("a truncated tail is found at the first missing position, however the rest was mended")
    func truncated() async throws {
        try await Self.withLog { log, heads in
            try await log.script("delete from subledger.event where position > 10;" + Self.recompute)

            let unseen = try await Self.finding(log, [heads[9]])
            let found = try await Self.finding(log, [heads[9], heads[11]])
            let whole = try await Self.wholeFinding(log, [heads[11]])

            #expect(unseen == nil)
            let expected = "\(Self.name) position 11: event is missing: the log does not extend the head signed at "
            #expect(found == expected + "\(TestBundle.now) with position 12")
            #expect(whole == found)
        }
    }

    @Test("a forged head and a head of a stream that is gone are reported")
    func forged() async throws {
        try await Self.withLog { log, heads in
            let foreign = try HeadKey().sign(heads[4].head, at: TestBundle.now)
            let elsewhere = StreamHead(
                stream: StreamKey(app: "com.example.other", environment: .sandbox), position: 2,
                chain: heads[1].head.chain)

            let other = try await Self.finding(log, [heads[3], foreign])
            let gone = try await Self.finding(log, [try Self.key.sign(elsewhere, at: TestBundle.now)])

            #expect(
                other
                    == "stream (com.example.magazine, sandbox) position 5: the head is forged: its signature is not of an accepted key"
            )
            #expect(
                gone
                    == "stream (com.example.other, sandbox) position 2: the stream is missing: the head was signed at \(TestBundle.now)"
            )
        }
    }

    @Test("the chain has no gap and no fork while several writers append to several streams")
    func writers() async throws {
        let database = try await TestCluster.freshDatabase()
        let deliveries = try await SimulatedLog.deliveries(subscriptions: 12)
        let others = try await SimulatedLog.deliveries(subscriptions: 12, environment: .production)
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 4, logger: logger)
        let appenders = (0..<3).map { _ in Appender(pool: pool, logger: logger) }
        let running = appenders.map { appender in Task { await appender.run() } }

        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, delivery) in (deliveries + others).enumerated() {
                group.addTask {
                    let event = PreparedEvent(delivery.notification, receivedAt: delivery.receivedAt)
                    // A busy machine may need longer than the append waits. The sender then sends again.
                    for attempt in 1...10 {
                        do throws(AppendError) {
                            _ = try await appenders[index % 3].append(event)
                            return
                        } catch {
                            if attempt == 10 { throw error }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        for appender in appenders { await appender.stop() }
        for task in running { await task.value }
        await pool.close()

        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))
        let outcome = try await ChainVerifier(log: LogAudit(connection: connection), heads: .none).run()
        await connection.close()
        #expect(outcome.finding == nil)
        #expect(outcome.streams == 2)
        #expect(outcome.events > 50)
    }
}
