import Encoding
import EventLog
import Foundation
import TestSupport
import Testing

@testable import Postgres
@testable import Projector

@Suite("Cost of ten thousand idle streams")
struct IdleStreamsTests {
    private static let streams = 10_000

    /// The number of 8 KB pages that a statement reads, from EXPLAIN.
    private static func pages(
        _ statement: Statement, _ explain: Statement, in database: ConnectionConfiguration
    ) async throws -> Int {
        var projector = database.with(role: "subledger_projector")
        projector.sessionSettings = Projector.planSettings
        let connection = try await TestCluster.connect(projector)
        // Stored as a setting, because the EXPLAIN statement cannot have parameters.
        try await connection.script(
            "set test.projection_version = '\(Checkpoint.projectionVersion)'; prepare asked as \(statement.sql)",
            deadline: .now + .seconds(20))
        let rows = try await connection.query(explain, deadline: .now + .seconds(20))
        var lines: [String] = []
        for row in rows { lines.append(try row.value(at: 0)) }
        await connection.close()
        // The first such line is that of the whole statement.
        let buffers = try #require(lines.first { $0.contains("Buffers: shared") })
        return buffers.matches(of: /(?:hit|read)=(\d+)/).compactMap { Int($0.output.1) }.reduce(0, +)
    }

    @Test("after a notification the projector reads only the named stream, not all of them")
    func pages() async throws {
        let database = try await TestCluster.freshDatabase()
        let owner = try await TestCluster.connect(database)
        try await owner.script(
            """
            insert into subledger.stream (stream_id, app, environment)
            select id, 'com.example.app' || id, 'production'
            from generate_series(1, \(Self.streams)) as id;
            insert into subledger.stream_head (stream_id, position, chain)
            select stream_id, 10, sha256('')
            from subledger.stream;
            insert into subledger.checkpoint (stream_id, position, products, projection_version)
            select stream_id, case stream_id when 77 then 9 else 10 end, '', \(Checkpoint.projectionVersion)
            from subledger.stream;
            insert into subledger.change_head (stream_id, number, published_until, next_at)
            select stream_id, 1, '2019-11-08', '2019-12-08'
            from subledger.stream;
            analyze;
            """, deadline: .now + .seconds(60))
        let behind = try await owner.query(
            ProjectionStatements.streamsToFold,
            [Parameter(Instant(milliseconds: 1_573_171_210_000) ?? .latest), Parameter(Checkpoint.projectionVersion)],
            deadline: .now + .seconds(20))
        #expect(behind.count == 1)
        #expect(try behind[0].value(Int32.self, at: 0) == 77)
        await owner.close()

        let named = try await Self.pages(
            ProjectionStatements.namedStreams,
            Statement("explain_named", "explain (analyze, buffers) execute asked(array[77, 78])"), in: database)
        let all = try await Self.pages(
            ProjectionStatements.streamsToFold,
            Statement(
                "explain_all",
                """
                explain (analyze, buffers)
                execute asked('2019-11-08 00:00:10Z', current_setting('test.projection_version')::integer)
                """), in: database)

        print("pages looked at: \(named) for two streams by name, \(all) for all \(Self.streams)")
        #expect(named <= 40)
        #expect(all <= 4000)
    }

    @Test("all streams are due every ten seconds; in between only named and unfinished ones are")
    func schedule() {
        let start = ContinuousClock.now
        var schedule = StreamSchedule(now: start)

        #expect(schedule.takeDue(now: start) == .all)
        #expect(schedule.takeDue(now: start) == .only([]))
        #expect(schedule.next == start + .seconds(10))
        schedule.markDirty([3, 4])
        schedule.markDirty([3])
        #expect(schedule.takeDue(now: start) == .only([3, 4]))
        schedule.record(3, .done(for: nil), now: start)
        schedule.record(4, .ledElsewhere, now: start)
        schedule.record(5, .failed, now: start)
        #expect(schedule.next == start + .milliseconds(250))
        schedule.markDirty([6])
        #expect(schedule.takeDue(now: start + .milliseconds(249)) == .only([6]))
        #expect(schedule.takeDue(now: start + .milliseconds(250)) == .only([4]))
        #expect(schedule.takeDue(now: start + .seconds(1)) == .only([5]))
        #expect(schedule.takeDue(now: start + .seconds(9)) == .only([]))
        #expect(schedule.takeDue(now: start + .seconds(10)) == .all)
        schedule.scheduleSweep(at: start + .seconds(11))
        #expect(schedule.takeDue(now: start + .seconds(11)) == .all)
    }

    @Test("a leader is first checked for a stall after ten seconds, and then every second")
    func silentLeaders() {
        let start = ContinuousClock.now
        var schedule = StreamSchedule(now: start)

        schedule.record(4, .ledElsewhere, now: start)
        schedule.record(5, .ledElsewhere, now: start)
        schedule.record(5, .unfinished, now: start + .seconds(1))
        schedule.record(5, .ledElsewhere, now: start + .seconds(2))
        #expect(schedule.takeLedElsewhere(now: start + .seconds(9)) == [])
        #expect(schedule.takeLedElsewhere(now: start + .seconds(10)) == [4])
        schedule.record(4, .ledElsewhere, now: start + .seconds(10))
        #expect(schedule.takeLedElsewhere(now: start + .seconds(10.5)) == [])
        #expect(schedule.takeLedElsewhere(now: start + .seconds(12)) == [4, 5])
        schedule.record(4, .done(for: nil), now: start + .seconds(12))
        #expect(schedule.takeLedElsewhere(now: start + .seconds(14)) == [5])
    }

    @Test("an event is folded at once beside ten thousand idle streams")
    func folded() async throws {
        try await TestBundle.withServer { server in
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                insert into subledger.stream (stream_id, app, environment)
                select id, 'com.example.idle' || id, 'production'
                from generate_series(1, \(Self.streams)) as id;
                insert into subledger.stream_head (stream_id, position, chain)
                select stream_id, 0, sha256('')
                from subledger.stream
                """, deadline: .now + .seconds(60))
            await owner.close()

            #expect(try await server.apple.post(try V1Body(number: 1).bytes).status == 200)
            _ = try await server.subscription("/subscriptions/2000000000000001")

            #expect(try await server.sql("select stream_id::text from subledger.checkpoint") == ["10001"])
        }
    }
}
