import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("Partitions of bodies by month")
struct BodyPartitionsTests {
    private static func partitions(_ log: SimulatedLog) async throws -> [String] {
        try await log.lines("select name from subledger.body_partitions() order by first_at")
    }

    private static func append(_ number: Int, at date: String, _ log: SimulatedLog) async throws -> Appended {
        let pool = PostgresPool(log.database.with(role: "subledger_receiver"), limit: 1, logger: LogRecorder().logger)
        let appender = Appender(pool: pool, logger: LogRecorder().logger)
        let running = Task { await appender.run() }
        let receivedAt = try #require(Instant(iso8601: date))
        let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
        let body = try V1Body(number: number).bytes
        let outcome: Result<Appended, any Error>
        do {
            let verified = try apps.verify(body, receivedAt: receivedAt)
            outcome = .success(try await appender.append(PreparedEvent(verified, receivedAt: receivedAt)))
        } catch {
            outcome = .failure(error)
        }
        await appender.stop()
        await running.value
        await pool.close()
        return try outcome.get()
    }

    @Test("an append makes the partition that it needs, and the body is in the partition of its month in UTC")
    func missing() async throws {
        try await SimulatedLog.with { log in
            let before = try await Self.partitions(log)

            let last = try await Self.append(1, at: "2031-05-31T23:59:59.999Z", log)
            let first = try await Self.append(2, at: "2031-06-01T00:00:00.000Z", log)

            #expect((last.position, first.position) == (1, 2))
            let made = try await Self.partitions(log).filter { !before.contains($0) }
            #expect(made == ["event_body_2031_05", "event_body_2031_06"])
            #expect(
                try await log.lines(
                    """
                    select relname::text
                    from subledger.event_body
                    join pg_class on pg_class.oid = event_body.tableoid
                    order by position
                    """) == ["event_body_2031_05", "event_body_2031_06"])
            #expect(
                try await log.lines(
                    """
                    select (sha256(subledger.event_body(stream_id, position)) = body_sha256)::text
                    from subledger.event
                    """) == ["true", "true"])
        }
    }

    @Test("three months are made ahead, once, by whatever number of processes; a new year and a short month included")
    func ahead() async throws {
        try await SimulatedLog.with { log in
            let pool = PostgresPool(
                log.database.with(role: "subledger_receiver"), limit: 8, logger: LogRecorder().logger)
            let now = try #require(Instant(iso8601: "2034-11-30T12:00:00.000Z"))
            let before = try await Self.partitions(log)
            let watches = (0..<8).map { _ in BodyPartitions(pool: pool, now: { now }, logger: LogRecorder().logger) }

            await withTaskGroup(of: Void.self) { group in
                for watch in watches { group.addTask { await watch.make() } }
            }

            #expect(watches.map(\.monthsAhead) == Array(repeating: 3, count: 8))
            let made = try await Self.partitions(log).filter { !before.contains($0) }
            #expect(
                made == ["event_body_2034_11", "event_body_2034_12", "event_body_2035_01", "event_body_2035_02"])
            await pool.close()
        }
    }

    @Test("whoever sees an event sees its body, also while the partition of the body is made")
    func seen() async throws {
        try await SimulatedLog.with { log in
            let months = 60
            async let appended: Void = {
                for month in 0..<months {
                    let (year, number) = (2040 + month / 12, month % 12 + 1)
                    let date = "\(year)-\(number < 10 ? "0" : "")\(number)-15T12:00:00.000Z"
                    _ = try await Self.append(month, at: date, log)
                }
            }()
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_poller"))
            var (last, lost) = (Int64(0), [Int64]())
            let deadline = ContinuousClock.now + .seconds(120)
            while last < months, ContinuousClock.now < deadline {
                let rows = try await connection.transaction(
                    [Step(Self.events, [Parameter(last)])], isolation: .readSnapshot, deadline: deadline)[0]
                for row in rows {
                    last = try row.value(at: 0)
                    if try row.value(at: 1) { lost.append(last) }
                }
            }
            await connection.close()
            try await appended

            #expect(last == months && lost == [])
        }
    }

    /// The events after a position, and whether the body of each is missing.
    private static let events = Statement(
        "test_events_and_bodies",
        """
        select event.position, stored.body is null
        from subledger.event
        left join \(BodyPartitions.bodyOfEvent) on true
        where event.position > $1
        order by event.position
        """)

    @Test("partitions that cannot be made are reported once, and once when they can be made again")
    func stuck() async throws {
        try await SimulatedLog.with { log in
            let recorder = LogRecorder()
            let pool = PostgresPool(log.database.with(role: "subledger_receiver"), limit: 1, logger: recorder.logger)
            let now = try #require(Instant(iso8601: "2036-01-31T12:00:00.000Z"))
            let watch = BodyPartitions(pool: pool, now: { now }, logger: recorder.logger)
            let function = "subledger.make_body_partitions(timestamptz, integer)"
            try await log.script("revoke execute on function \(function) from subledger_receiver")

            await watch.make()
            await watch.make()
            let stuck = watch.monthsAhead
            await #expect(throws: AppendError.self) {
                _ = try await Self.append(1, at: "2036-01-31T12:00:00.000Z", log)
            }
            try await log.script("grant execute on function \(function) to subledger_receiver")
            await watch.make()

            #expect(stuck == 0)
            #expect(watch.monthsAhead == 3)
            #expect(recorder.text.ranges(of: "no partition for the bodies of next month").count == 1)
            #expect(recorder.text.contains("42501"))
            #expect(recorder.text.ranges(of: "partitions for bodies are made ahead again").count == 1)
            #expect(try await Self.append(1, at: "2036-01-31T12:00:00.000Z", log).position == 1)
            await pool.close()
        }
    }

    @Test("only a receiver makes partitions, a year ahead at most, and a partition is as append-only as the table")
    func rights() async throws {
        try await SimulatedLog.with { log in
            _ = try await Self.append(1, at: "2031-05-31T12:00:00.000Z", log)
            let make = "select subledger.make_body_partitions(now(), 0)"
            for (role, statement, sqlstate) in [
                ("subledger_reader", make, "42501"), ("subledger_projector", make, "42501"),
                ("subledger_receiver", "select subledger.make_body_partitions(now(), 13)", "22023"),
                ("subledger_receiver", "select from subledger.event_body_2031_05", "42501"),
                ("subledger_receiver", "update subledger.event_body set body = ''", "42501"),
                ("subledger_owner", "update subledger.event_body_2031_05 set body = ''", "42501"),
                ("subledger_owner", "delete from subledger.event_body_2031_05", "42501"),
                ("subledger_owner", "truncate subledger.event_body", "42501"),
            ] {
                let connection = try await TestCluster.connect(log.database.with(role: role))
                let error = await #expect(throws: PostgresError.self, "\(role): \(statement)") {
                    try await connection.script(statement, deadline: .now + .seconds(20))
                }
                #expect(error?.sqlstate == sqlstate, "\(role): \(statement)")
                await connection.close()
            }
        }
    }

    @Test("reading one body looks into one partition")
    func pruned() async throws {
        try await SimulatedLog.with { log in
            for month in 1...9 {
                _ = try await Self.append(month, at: "2031-0\(month)-15T12:00:00.000Z", log)
            }
            let connection = try await TestCluster.connect(log.database.with(role: "subledger_projector"))
            let scans = Statement(
                "scans",
                """
                select count(*)
                from pg_stat_xact_all_tables
                where relname like 'event\\_body\\_2%' and coalesce(idx_scan, 0) + seq_scan > 0
                """)
            let soon = ContinuousClock.now + .seconds(20)

            try await connection.begin(deadline: soon)
            try await connection.script("select subledger.event_body(1, 5)", deadline: soon)
            let read = try await connection.query(scans, deadline: soon)[0].value(Int64.self, at: 0)
            try await connection.rollback(deadline: soon)

            #expect(read == 1)
            await connection.close()
        }
    }
}
