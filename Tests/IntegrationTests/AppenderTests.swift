import AppStore
import EventLog
import Foundation
import Logging
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("The appender stores each event in its own stream")
struct AppenderTests {
    private static let otherApp = "com.example.other"
    private static let apps = [V1Body.app, otherApp].map { App(bundleId: $0, sharedSecrets: [V1Body.secret]) }

    private static func body(_ number: Int, of app: String = V1Body.app) -> V1Body {
        var body = V1Body(number: number)
        body["bid"] = app
        return body
    }

    private static func notification(_ number: Int, of app: String = V1Body.app) throws -> VerifiedNotification {
        try Apps(apps).verify(try body(number, of: app).bytes, receivedAt: TestBundle.now)
    }

    /// Runs the test with a separate appender, which has ended when this returns.
    private static func withAppender(
        _ database: ConnectionConfiguration, limit: Int = 2, _ test: (Appender) async throws -> Void
    ) async throws {
        let logger = LogRecorder().logger
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: limit, logger: logger)
        let appender = Appender(pool: pool, logger: logger)
        let running = Task { await appender.run() }
        let outcome: Result<Void, any Error>
        do {
            try await test(appender)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await appender.stop()
        await running.value
        await pool.close()
        try outcome.get()
    }

    @Test("after the database is replaced by one with other stream numbers, events are stored in their app's stream")
    func replacedDatabase() async throws {
        let first = try await SharedDatabase.make()
        let second = try await SharedDatabase.make()
        try await Self.withAppender(second.configuration) { appender in
            _ = try await appender.append(
                PreparedEvent(try Self.notification(1, of: Self.otherApp), receivedAt: TestBundle.now))
        }

        try await Self.withAppender(first.configuration) { appender in
            _ = try await appender.append(PreparedEvent(try Self.notification(1), receivedAt: TestBundle.now))
            _ = try await appender.append(
                PreparedEvent(try Self.notification(1, of: Self.otherApp), receivedAt: TestBundle.now))
            let operatorConnection = try await TestCluster.connect(first.configuration.with(database: "postgres"))
            for step in [
                """
                select pg_terminate_backend(pid, 10000)
                from pg_stat_activity
                where datname in ('\(first.name)', '\(second.name)')
                """,
                "alter database \(first.name) rename to \(first.name)_before",
                "alter database \(second.name) rename to \(first.name)",
            ] {
                try await operatorConnection.script(step, deadline: .now + .seconds(30))
            }
            await operatorConnection.close()

            let places = try await withThrowingTaskGroup(of: Appended.self) { group in
                for app in [V1Body.app, Self.otherApp] {
                    for number in 2...3 {
                        group.addTask {
                            try await appender.append(
                                PreparedEvent(try Self.notification(number, of: app), receivedAt: TestBundle.now))
                        }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(places.map(\.position).sorted() == [1, 2, 2, 3])
        }

        // In the second database the other app's stream has number 1.
        let lines = try await first.lines(
            """
            select stream_id || ' ' || app || ' ' || count(*) || ' ' || min(
              convert_from(subledger.event_body(stream_id, position), 'UTF8')::jsonb ->> 'bid'
            )
            from subledger.event
            join subledger.stream using (stream_id)
            group by stream_id, app
            order by stream_id
            """)
        #expect(lines == ["1 \(Self.otherApp) 3 \(Self.otherApp)", "2 \(V1Body.app) 2 \(V1Body.app)"])
    }

    @Test("if pg_notify fails, notifications are stored, answered and folded")
    func refusedNotify() async throws {
        let database = try await TestCluster.freshDatabase()
        let owner = try await TestCluster.connect(database)
        // As PostgreSQL does for all sessions while its queue is full.
        try await owner.script(
            """
            revoke execute on function pg_notify(text, text) from public;
            grant execute on function pg_notify(text, text) to subledger_projector
            """, deadline: .now + .seconds(10))
        await owner.close()
        try await TestBundle.withServer(database: database) { server in
            for number in 1...3 {
                let answer = try await server.apple.post(try V1Body(number: number).bytes)
                #expect(answer.status == 200)
                #expect(answer.json["position"] as? Int == number)
            }

            _ = try await eventually("the failure is logged") {
                server.logs.text.contains("listeners could not be notified") ? true : nil
            }
            try await server.isFolded()
        }
    }

    @Test("a committed append notifies the listeners of its stream")
    func notifies() async throws {
        let database = try await TestCluster.freshDatabase()
        let listener = try await TestCluster.connect(database)
        try await listener.listen(to: "subledger_event", deadline: .now + .seconds(10))
        try await Self.withAppender(database) { appender in
            _ = try await appender.append(PreparedEvent(try Self.notification(1), receivedAt: TestBundle.now))

            let heard = try await listener.notifications(until: .now + .seconds(20))

            #expect(heard.map(\.payload) == ["1"])
        }
        await listener.close()
    }

    @Test("advisory locks of a reader on streams and schema do not block a start or the first event")
    func readersLocks() async throws {
        let database = try await SharedDatabase.make()
        let reader = try await TestCluster.connect(database.configuration.with(role: "subledger_reader"))
        try await reader.script(
            """
            select pg_advisory_lock(hashtext('subledger'), hashtext('stream'));
            select pg_advisory_lock(hashtext('subledger'), hashtext('schema'));
            begin;
            lock table subledger.schema_version, subledger.stream, subledger.stream_head in access share mode
            """, deadline: .now + .seconds(10))

        let server = try database.server("receiver")
        let answer = try await HTTPClient(port: try await server.ports().public).post(try V1Body(number: 1).bytes)

        #expect(answer.status == 200, "\(answer.body)")
        server.signal(SIGTERM)
        try await server.hasEnded()
        await reader.close()
    }

    @Test("an app whose stream cannot be created does not block other apps")
    func heldStream() async throws {
        let database = try await TestCluster.freshDatabase()
        try await Self.withAppender(database) { appender in
            _ = try await appender.append(PreparedEvent(try Self.notification(1), receivedAt: TestBundle.now))
            let owner = try await TestCluster.connect(database)
            try await owner.script(
                "begin; lock table subledger.stream in share mode", deadline: .now + .seconds(10))

            let held = Task {
                try await appender.append(
                    PreparedEvent(try Self.notification(1, of: Self.otherApp), receivedAt: TestBundle.now))
            }
            _ = try await eventually("the creation of the stream waits") {
                let rows = try await owner.query(Self.waiting, deadline: .now + .seconds(10))
                return try rows[0].value(Int64.self, at: 0) > 0 ? true : nil
            }
            for number in 2...5 {
                let place = try await appender.append(
                    PreparedEvent(try Self.notification(number), receivedAt: TestBundle.now))
                #expect(place.position == Int64(number))
            }
            let stillWaiting = try await owner.query(Self.waiting, deadline: .now + .seconds(10))
            #expect(try stillWaiting[0].value(Int64.self, at: 0) == 1)
            try await owner.rollback(deadline: .now + .seconds(10))
            await owner.close()

            #expect(try await held.value.position == 1)
        }
    }

    private static let waiting = Statement(
        "waiting",
        """
        select count(*)
        from pg_locks
        where relation = 'subledger.stream'::regclass
          and not granted
        """)

    @Test("three failed batches in a row set a failing condition, and the next stored batch clears it")
    func condition() async throws {
        let database = try await TestCluster.freshDatabase()
        let owner = try await TestCluster.connect(database)
        try await Self.withAppender(database) { appender in
            _ = try await appender.append(PreparedEvent(try Self.notification(0), receivedAt: TestBundle.now))
            try await owner.script(
                "revoke insert on subledger.event from subledger_receiver", deadline: .now + .seconds(10))
            for number in 1...3 {
                #expect(await appender.condition == .ok)
                await #expect(throws: AppendError.refused(sqlstate: "42501")) {
                    try await appender.append(PreparedEvent(try Self.notification(number), receivedAt: TestBundle.now))
                }
            }

            guard case .failing(let since, "database_refused") = await appender.condition else {
                Issue.record("the condition is not failing")
                return
            }
            #expect(since <= .now)
            try await owner.script(
                "grant insert on subledger.event to subledger_receiver", deadline: .now + .seconds(10))
            _ = try await appender.append(PreparedEvent(try Self.notification(4), receivedAt: TestBundle.now))
            #expect(await appender.condition == .ok)
        }
        await owner.close()
    }
}
