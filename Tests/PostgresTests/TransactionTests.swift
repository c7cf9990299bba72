import Testing

@testable import Postgres

extension WithServer {
    @Suite("a transaction commits, rolls back, or reports an unknown outcome")
    struct TransactionTests {
        static let insert = Statement("x_insert", "insert into x_rows (v) values ($1)")
        static let count = Statement("x_count", "select count(*) from x_rows where v = $1")
        static let fail = Statement("x_fail", "select 1 / $1::int4")

        let connection: PostgresConnection

        init() async throws {
            connection = try await TestServer.connect()
            let lock = "select pg_advisory_xact_lock(1)"
            try await connection.script(
                "\(lock); create table if not exists x_rows (v int4 unique deferrable initially deferred)",
                deadline: soon()
            )
        }

        @Test("all steps commit together and return their rows")
        func commits() async throws {
            let results = try await connection.transaction(
                [Step(Self.insert, [Parameter(Int32(1))]), Step(Self.count, [Parameter(Int32(1))])], deadline: soon()
            )

            #expect(results.count == 2 && results[0].affectedRows == 1)
            #expect(try results[1][0].value(Int64.self, at: 0) == 1)
            #expect(try await rows(with: 1) == 1)
        }

        @Test("a failing step rolls back all, and the connection stays usable")
        func rollsBack() async throws {
            let error = try await failure { () throws(PostgresError) in
                try await connection.transaction(
                    [
                        Step(Self.insert, [Parameter(Int32(2))]), Step(Self.fail, [Parameter(Int32(0))]),
                        Step(Self.count, [Parameter(Int32(2))]),
                    ],
                    deadline: soon()
                )
            }

            #expect(error.kind == .server(sqlstate: "22012"))
            #expect(await connection.isUsable)
            #expect(try await rows(with: 2) == 0)
            _ = try await connection.transaction([Step(Self.insert, [Parameter(Int32(2))])], deadline: soon())
            #expect(try await rows(with: 2) == 1)
        }

        @Test("a constraint violated at commit is a rejection, not an unknown outcome")
        func deferredConstraint() async throws {
            let step = Step(Self.insert, [Parameter(Int32(3))])

            let error = try await failure { () throws(PostgresError) in
                try await connection.transaction([step, step], deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "23505"))
            #expect(await connection.isUsable)
            #expect(try await rows(with: 3) == 0)
        }

        @Test("a warning during a step does not make the commit unknown")
        func warningInStep() async throws {
            try await connection.script(
                """
                create or replace function x_warn() returns void language plpgsql
                as $$ begin raise warning 'careful'; end $$
                """,
                deadline: soon()
            )

            let results = try await connection.transaction(
                [Step(Self.insert, [Parameter(Int32(4))]), Step(Statement("x_warn", "select x_warn()"))],
                deadline: soon()
            )

            #expect(results.count == 2)
        }

        @Test("a commit that the server confirms only locally is unknown")
        func committedLocally() async throws {
            let pid = connection.backendPID
            try await connection.script("set synchronous_commit = on", deadline: soon())
            async let error = failure { () throws(PostgresError) in
                try await connection.transaction([Step(Self.insert, [Parameter(Int32(5))])], deadline: soon())
            }
            try await TestServer.waitUntil(backend: pid, waitsFor: "SyncRep")

            try await TestServer.cancel(backend: pid)

            #expect(try await error.kind == .outcomeUnknown)
            #expect(try await rows(with: 5) == 1)
        }

        @Test("a separate commit that the server confirms only locally is unknown")
        func committedLocallyAlone() async throws {
            let pid = connection.backendPID
            try await connection.script("set synchronous_commit = on", deadline: soon())
            try await connection.begin(deadline: soon())
            _ = try await connection.query(Self.insert, [Parameter(Int32(6))], deadline: soon())
            async let error = failure { () throws(PostgresError) in
                try await connection.commit(deadline: soon())
            }
            try await TestServer.waitUntil(backend: pid, waitsFor: "SyncRep")

            try await TestServer.cancel(backend: pid)

            #expect(try await error.kind == .outcomeUnknown)
        }

        @Test("a backend killed during the commit leaves the outcome unknown")
        func killedDuringCommit() async throws {
            let pid = connection.backendPID
            try await connection.script("set synchronous_commit = on", deadline: soon())
            async let error = failure { () throws(PostgresError) in
                try await connection.transaction([Step(Self.insert, [Parameter(Int32(7))])], deadline: soon())
            }
            try await TestServer.waitUntil(backend: pid, waitsFor: "SyncRep")

            try await TestServer.terminate(backend: pid)

            #expect(try await error.kind == .outcomeUnknown)
            #expect(await !connection.isUsable)
        }

        @Test("a deadline that passes during the commit leaves the outcome unknown")
        func deadlineDuringCommit() async throws {
            try await connection.script("set synchronous_commit = on", deadline: soon())

            let error = try await failure { () throws(PostgresError) in
                try await connection.transaction(
                    [Step(Self.insert, [Parameter(Int32(8))])], deadline: .now + .milliseconds(500)
                )
            }

            #expect(error.kind == .outcomeUnknown)
            #expect(await !connection.isUsable)
        }

        @Test("steps may depend on each other between begin and commit")
        func stepwise() async throws {
            try await connection.begin(deadline: soon())
            #expect(await !connection.isUsable)
            _ = try await connection.query(Self.insert, [Parameter(Int32(9))], deadline: soon())
            try await connection.commit(deadline: soon())
            #expect(try await rows(with: 9) == 1)

            try await connection.begin(deadline: soon())
            _ = try await connection.query(Self.insert, [Parameter(Int32(10))], deadline: soon())
            try await connection.rollback(deadline: soon())
            #expect(try await rows(with: 10) == 0)
            #expect(await connection.isUsable)
        }

        @Test("the commit of a failed transaction is rejected")
        func commitOfFailed() async throws {
            try await connection.begin(deadline: soon())
            _ = try await failure { () throws(PostgresError) in
                try await connection.query(Self.fail, [Parameter(Int32(0))], deadline: soon())
            }

            let error = try await failure { () throws(PostgresError) in
                try await connection.commit(deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "25P02"))
            #expect(await connection.isUsable)
        }

        @Test("a long pipeline with large values does not stall")
        func longPipeline() async throws {
            let value = [UInt8](repeating: 7, count: 100_000)
            let echo = Statement("x_echo", "select $1::bytea")

            let results = try await connection.transaction(
                (0..<100).map { _ in Step(echo, [Parameter(value)]) }, deadline: soon()
            )

            #expect(try results.allSatisfy { try $0[0].value([UInt8].self, at: 0) == value })
        }

        private func rows(with value: Int32) async throws -> Int64 {
            let other = try await TestServer.connect()
            return try await other.query(Self.count, [Parameter(value)], deadline: soon())[0].value(at: 0)
        }
    }

    @Suite("notifications")
    struct NotificationTests {
        @Test("a notification from another connection arrives")
        func delivered() async throws {
            let listener = try await TestServer.connect()
            let sender = try await TestServer.connect()
            try await listener.listen(to: "News \"today\"", deadline: soon())
            async let arrived = listener.notifications(until: soon())

            try await sender.script("notify \"News \"\"today\"\"\", 'good'", deadline: soon())

            let expected = ServerNotification(channel: "News \"today\"", payload: "good")
            #expect(try await arrived == [expected])
        }

        @Test("a notification that arrives during a statement is not lost")
        func duringStatement() async throws {
            let listener = try await TestServer.connect()
            try await listener.listen(to: "self", deadline: soon())

            _ = try await listener.query(Statement("n_notify", "select pg_notify('self', 'x')"), deadline: soon())

            #expect(try await listener.notifications(until: soon()).map(\.payload) == ["x"])
        }

        @Test("an interrupt wakes the waiting call, and a deadline ends the wait")
        func interrupt() async throws {
            let listener = try await TestServer.connect()
            try await listener.listen(to: "silence", deadline: soon())
            async let nothing = listener.notifications(until: soon())
            let start = ContinuousClock.now

            listener.interrupt()

            #expect(try await nothing == [])
            #expect(start.duration(to: .now) < .seconds(10))
            #expect(try await listener.notifications(until: .now + .milliseconds(30)) == [])
            _ = try await listener.query(PostgresConnectionTests.one, deadline: soon())
        }

        @Test("a lost connection fails the waiting call")
        func lost() async throws {
            let listener = try await TestServer.connect()
            try await listener.listen(to: "lost", deadline: soon())
            async let error = failure { () throws(PostgresError) in
                try await listener.notifications(until: soon())
            }

            try await TestServer.terminate(backend: listener.backendPID)

            #expect(try await error.kind == .unavailable)
        }
    }
}
