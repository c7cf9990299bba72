import EventLog
import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing

@Suite("Work that servers divide among themselves is led by one process, whatever readers do")
struct LeadershipTests {
    private static func withElectors(
        _ test: (_ first: StreamLeadership, _ second: StreamLeadership, ConnectionConfiguration) async throws -> Void
    ) async throws {
        try await TestCluster.withDatabase { database in
            let role = database.with(role: "subledger_poller")
            let (first, second) = (StreamLeadership(Elector(role)), StreamLeadership(Elector(role)))
            try await test(first, second, database)
            await first.release()
            await second.release()
        }
    }

    private static func script(_ sql: String, _ database: ConnectionConfiguration) async throws {
        let owner = try await TestCluster.connect(database)
        try await owner.script(sql, deadline: .now + .seconds(20))
        await owner.close()
    }

    @Test("each stream has one leader; a leader that stops leaves at once, and one that dies when its lease runs out")
    func oneLeader() async throws {
        try await Self.withElectors { first, second, database in
            #expect(try await first.lead([1, 2]) == [1, 2])
            #expect(try await second.lead([2, 3]) == [3])
            try await first.keep()
            #expect(try await second.lead([1, 2, 3]) == [3])

            await first.release()
            #expect(try await second.lead([1, 2]) == [1, 2])

            try await Self.script("update subledger.lease set until = now()", database)
            #expect(try await first.lead([1, 2, 3]) == [1, 2, 3])

            // A process that only reports that it is alive takes what no process leads any more.
            let third = StreamLeadership(Elector(database.with(role: "subledger_poller")))
            #expect(try await third.lead([1, 2, 3]) == [])
            await first.release()
            try await third.keep()
            #expect(try await first.lead([1, 2, 3]) == [])
            await third.release()
        }
    }

    @Test("many processes that ask at the same time for the same streams get each stream once, and none waits for ever")
    func together() async throws {
        try await TestCluster.withDatabase { database in
            let role = database.with(role: "subledger_poller")
            let leaders = (0..<8).map { _ in StreamLeadership(Elector(role)) }
            let streams = (1...50).map(Int32.init)

            let led = try await withThrowingTaskGroup(of: Set<Int32>.self) { group in
                for (number, leader) in leaders.enumerated() {
                    let asked = number.isMultiple(of: 2) ? streams : streams.reversed()
                    group.addTask { try await leader.lead(asked) }
                }
                return try await group.reduce(into: [Int32]()) { $0 += $1 }
            }

            #expect(led.sorted() == streams)
            for leader in leaders { await leader.release() }
        }
    }

    /// Every advisory lock that an earlier release used, held by a session that may only read.
    @Test("advisory locks of a read-only session change nothing", arguments: ["subledger_reader", "subledger_analyst"])
    func advisoryLocks(_ role: String) async throws {
        try await Self.withElectors { first, _, database in
            let reader = try await TestCluster.connect(database.with(role: role))
            try await reader.script(
                """
                select pg_advisory_lock(work, stream_id)
                from unnest(array[x'504f4c4c'::int, x'41554454'::int, x'52464e44'::int, x'424b464c'::int,
                  x'474f4f47'::int, x'564f4944'::int]) as work
                cross join generate_series(0, 9) as stream_id;
                select pg_advisory_lock(hashtextextended(purpose || ' of com.example.magazine in production', 0))
                from unnest(array['links', 'writes']) as purpose
                """, deadline: .now + .seconds(20))

            #expect(try await first.lead([0, 1]) == [0, 1])
            await reader.close()
        }
    }

    @Test("no statement and no function uses an advisory lock")
    func none() throws {
        let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        func files(in folder: String, _ suffix: String) throws -> [String] {
            try FileManager.default.subpathsOfDirectory(atPath: top.appendingPathComponent(folder).path)
                .filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }
        }
        // The functions of a database that Citus distributes are among the sources.
        let files = try ["schema.sql"] + files(in: "deploy/migrations", ".sql") + files(in: "Sources", ".swift")
        #expect(files.count > 500)

        for file in files {
            let text = try String(contentsOf: top.appendingPathComponent(file), encoding: .utf8)
            #expect(!text.contains(/pg_(try_)?advisory/), "\(file)")
        }
    }

    @Test("a role that does not do the work can neither write nor lock who does it")
    func locks() async throws {
        try await TestCluster.withDatabase { database in
            for role in ["subledger_reader", "subledger_analyst", "subledger_projector", "subledger_products"] {
                for statement in [
                    "select from subledger.lease for key share", "select from subledger.turn for update",
                    "lock table subledger.lease in row exclusive mode",
                    "lock table subledger.turn in row exclusive mode",
                    "insert into subledger.turn (work, app, environment) values ('links', 'a', 'production')",
                    "update subledger.lease set until = now()",
                ] {
                    let session = try await TestCluster.connect(database.with(role: role))
                    let error = await #expect(throws: PostgresError.self, "\(role): \(statement)") {
                        try await session.script(
                            "begin; set transaction_read_only = off; \(statement)", deadline: .now + .seconds(20))
                    }
                    #expect(error?.sqlstate == "42501", "\(role): \(statement)")
                    await session.close()
                }
            }
        }
    }

    @Test("if nobody can be chosen, the elector names the work and for how long, until it works again")
    func unled() async throws {
        try await TestCluster.withDatabase { database in
            let passed = Mutex(Duration.zero)
            let start = ContinuousClock.now
            let elector = Elector(database.with(role: "subledger_poller")) { start + passed.withLock { $0 } }
            let (checks, google) = (StreamLeadership(elector), StreamLeadership(elector, for: .google))
            #expect(try await checks.lead([1]) == [1])
            #expect(try await google.lead([0]) == [0])
            passed.withLock { $0 = .seconds(60) }
            #expect(await elector.unled().isEmpty)

            try await Self.script("revoke insert on subledger.lease from subledger_poller", database)
            passed.withLock { $0 = .seconds(61) }
            await #expect(throws: ReadError.self) { _ = try await checks.lead([1]) }
            #expect(await elector.unled().map(\.work) == [.checks, .google])
            #expect(await elector.unled().map(\.time) == [.seconds(61), .seconds(61)])
            try await Self.script("grant insert on subledger.lease to subledger_poller", database)
            #expect(try await checks.lead([1]) == [1])

            #expect(await elector.unled().map(\.work) == [.google])
            await checks.release()
            await google.release()
            passed.withLock { $0 = .seconds(600) }
            #expect(await elector.unled().isEmpty)
        }
    }

    @Test("a session that waits for its turn gets it when the other one ends, whether it commits or not")
    func turns() async throws {
        try await TestCluster.withDatabase { database in
            let holder = try await TestCluster.connect(database.with(role: "subledger_receiver"))
            let take = """
                begin;
                insert into subledger.turn (work, app, environment) values ('links', 'a', 'production')
                on conflict (work, app, environment) do update set work = excluded.work
                """
            try await holder.script(take, deadline: .now + .seconds(20))
            let other = try await TestCluster.connect(database.with(role: "subledger_poller"))
            async let waiting: Void = other.script(take, deadline: .now + .seconds(60))
            _ = try await eventually("the other session waits") {
                let owner = try await TestCluster.connect(database)
                let rows = try await owner.query(
                    Statement("waiting", "select pid from pg_stat_activity where wait_event_type = 'Lock'"),
                    deadline: .now + .seconds(20))
                await owner.close()
                return rows.isEmpty ? nil : true
            }

            try await holder.rollback(deadline: .now + .seconds(20))

            try await waiting
            await other.close()
            await holder.close()
        }
    }
}
