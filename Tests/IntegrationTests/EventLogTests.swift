import AppStore
import EventLog
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("The event log is gapless, in commit order, and append-only")
struct EventLogTests {
    private static let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])

    /// An appender with a separate pool, like one in another process.
    private static func appender(
        _ database: ConnectionConfiguration, queueEventsMax: Int = Limits.queueEventsMax
    ) -> (appender: Appender, pool: PostgresPool) {
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        return (Appender(pool: pool, queueEventsMax: queueEventsMax, logger: logger), pool)
    }

    private static func notification(_ number: Int) throws -> VerifiedNotification {
        try apps.verify(try V1Body(number: number).bytes, receivedAt: TestBundle.now)
    }

    @Test("two concurrent writers of the same notifications store positions 1...n without gaps or repeats")
    func concurrentWriters() async throws {
        let database = try await TestCluster.freshDatabase()
        let writers = [Self.appender(database), Self.appender(database)]
        let count = 300
        let running = writers.map { writer in Task { await writer.appender.run() } }

        let places = try await withThrowingTaskGroup(of: (Int, Appended).self) { group in
            for number in 0..<count {
                for writer in writers {
                    group.addTask {
                        let place = try await writer.appender.append(
                            PreparedEvent(try Self.notification(number), receivedAt: TestBundle.now))
                        return (number, place)
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        for writer in writers { await writer.appender.stop() }
        for task in running { await task.value }

        var positions: [Int: Set<Int64>] = [:]
        for (number, place) in places { positions[number, default: []].insert(place.position) }
        #expect(positions.count == count)
        #expect(positions.values.allSatisfy { $0.count == 1 }, "both writers return the same position")
        #expect(Set(positions.values.joined()) == Set(1...Int64(count)))
        #expect(places.filter(\.1.isNew).count == count)
        for writer in writers { await writer.pool.close() }
    }

    @Test("appending finds events by index and never scans the log")
    func noScan() async throws {
        let database = try await TestCluster.freshDatabase()
        let (appender, pool) = Self.appender(database)
        let running = Task { await appender.run() }
        for number in 0..<20 {
            _ = try await appender.append(PreparedEvent(try Self.notification(number), receivedAt: TestBundle.now))
        }
        await appender.stop()
        await running.value
        await pool.close()

        let owner = try await TestCluster.connect(database)
        let scans = try await eventually("the statistics are updated") {
            let rows = try await owner.query(
                CitusCluster.isWanted ? Self.scansOnNodes : Self.scans, deadline: .now + .seconds(10))
            let byIndex: Int64 = try rows[0].value(at: 0)
            let byReadingAll: Int64 = try rows[0].value(at: 1)
            return byIndex >= 20 ? byReadingAll : nil
        }
        await owner.close()

        #expect(scans == 0)
    }

    private static let scans = Statement(
        "test_scans",
        """
        select idx_scan, seq_scan
        from pg_stat_user_tables
        where relname = 'event'
        """)

    /// The same for the parts of the table, each of which counts on its node.
    private static let scansOnNodes = Statement(
        "test_scans_on_nodes",
        """
        select sum(split_part(result, ' ', 1)::bigint)::bigint, sum(split_part(result, ' ', 2)::bigint)::bigint
        from run_command_on_workers($$
          select sum(idx_scan) || ' ' || sum(seq_scan)
          from pg_stat_user_tables
          where relname ~ '^event_[0-9]+$'
        $$)
        """)

    @Test("copies inside one batch are stored as one row, and all return its position")
    func copiesInOneBatch() async throws {
        let database = try await TestCluster.freshDatabase()
        let (appender, pool) = Self.appender(database)
        let one = try Self.notification(1)
        let appends = (0..<20).map { _ in
            Task { try await appender.append(PreparedEvent(one, receivedAt: TestBundle.now)) }
        }
        _ = try await eventually("all are queued") { await appender.queuedEvents == appends.count ? true : nil }

        let running = Task { await appender.run() }
        var places: [Appended] = []
        for append in appends { places.append(try await append.value) }
        await appender.stop()
        await running.value

        #expect(Set(places.map(\.position)) == [1])
        #expect(places.filter(\.isNew).count == 1)
        await pool.close()
    }

    @Test("a full queue rejects an append, and queued appends are still stored")
    func fullQueue() async throws {
        let database = try await TestCluster.freshDatabase()
        let queueEventsMax = 16
        let (appender, pool) = Self.appender(database, queueEventsMax: queueEventsMax)
        let one = try Self.notification(1)
        let appends = (0..<queueEventsMax).map { _ in
            Task { try await appender.append(PreparedEvent(one, receivedAt: TestBundle.now)) }
        }
        _ = try await eventually("the queue is full") { await appender.queuedEvents == appends.count ? true : nil }

        await #expect(throws: AppendError.queueFull) {
            try await appender.append(PreparedEvent(one, receivedAt: TestBundle.now))
        }

        let running = Task { await appender.run() }
        for append in appends { #expect(try await append.value.position == 1) }
        await appender.stop()
        await running.value
        await pool.close()
    }

    @Test(
        "no role, including the owner, can change or delete rows of append-only tables",
        arguments: [
            "update subledger.event set kind = 'other'", "delete from subledger.event", "truncate subledger.event",
            "set session_replication_role = replica; delete from subledger.event",
            "update subledger.event_body set body = ''", "delete from subledger.event_body",
            "truncate subledger.event_body", "set session_replication_role = replica; delete from subledger.event_body",
            "update subledger.projector_skip set reason = 'other'", "delete from subledger.projector_skip",
            "truncate subledger.projector_skip", "update subledger.jws_header set header = ''",
            "delete from subledger.jws_header", "truncate subledger.jws_header",
            "update subledger.certificate_verdict set verdict = 'good'", "delete from subledger.certificate_verdict",
            "truncate subledger.certificate_verdict", "update subledger.ocsp_response set status = 'good'",
            "delete from subledger.ocsp_response", "truncate subledger.ocsp_response",
            "update subledger.store_check set result = 'refused'",
            "delete from subledger.store_check", "truncate subledger.store_check",
        ])
    func appendOnly(_ statement: String) async throws {
        let owner = try await TestCluster.freshDatabase()
        let roles = [nil, "subledger_owner", "subledger_receiver", "subledger_projector", "subledger_analyst"]
        for configuration in roles.map({ owner.with(role: $0) }) {
            let connection = try await TestCluster.connect(configuration)

            let error = await #expect(throws: PostgresError.self) {
                try await connection.script(statement, deadline: .now + .seconds(10))
            }

            #expect(error?.sqlstate == "42501")
            await connection.close()
        }
    }

    static let readerMayNot = [
        "insert into subledger.stream (stream_id, app, environment) values (9, 'a', 'sandbox')",
        "select body from subledger.event_body", "delete from subledger.access_period",
        "update subledger.checkpoint set position = 0", "select header from subledger.jws_header",
        "select subledger.event_body(1, 1)", "select subledger.rebuilt_body(1, '')",
    ]

    @Test("the reader and analyst roles can read everything except bodies, and write nothing", arguments: readerMayNot)
    func reader(_ statement: String) async throws {
        let database = try await TestCluster.freshDatabase()
        for role in ["subledger_reader", "subledger_analyst"] {
            try await Self.readsEverythingBut(statement, database.with(role: role))
        }
    }

    private static func readsEverythingBut(_ statement: String, _ database: ConnectionConfiguration) async throws {
        let connection = try await TestCluster.connect(database)
        try await connection.script(
            """
            select position, facts from subledger.event;
            select app from subledger.stream;
            select active from subledger.subscription_now;
            select positions from subledger.transaction;
            select starts_at from subledger.access_period;
            select reason from subledger.projector_skip
            """, deadline: .now + .seconds(10))

        let error = await #expect(throws: PostgresError.self) {
            try await connection.script(statement, deadline: .now + .seconds(10))
        }

        #expect(error?.sqlstate == "42501")
        await connection.close()
    }

    @Test("the analyst role has time limits, a memory limit per query and read-only transactions")
    func analyst() async throws {
        let owner = try await TestCluster.connect(try await TestCluster.freshDatabase())
        let rows = try await owner.query(
            Statement(
                "analyst",
                """
                select array_to_string(setconfig, ' ')
                from pg_db_role_setting
                where setrole = 'subledger_analyst'::regrole
                  and setdatabase = 0
                """), deadline: .now + .seconds(10))

        #expect(rows.count == 1)
        #expect(
            try rows[0].value(String.self, at: 0)
                == "statement_timeout=60s idle_in_transaction_session_timeout=60s idle_session_timeout=1h "
                + "default_transaction_read_only=on jit=off work_mem=64MB")
        await owner.close()
    }

    @Test("the projector role cannot write to the log")
    func projector() async throws {
        let database = try await TestCluster.freshDatabase()
        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))

        let error = await #expect(throws: PostgresError.self) {
            try await connection.script(
                "insert into subledger.stream_head (stream_id, position, chain) values (1, 0, sha256(''))",
                deadline: .now + .seconds(10))
        }

        #expect(error?.sqlstate == "42501")
        await connection.close()
    }
}
