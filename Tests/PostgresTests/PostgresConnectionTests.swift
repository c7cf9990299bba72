import Foundation
import Testing

@testable import Postgres

extension WithServer {
    @Suite("a connection returns rows or a typed error")
    struct PostgresConnectionTests {
        static let sleep = Statement("c_sleep", "select pg_sleep(30)")
        static let one = Statement("c_one", "select 1")

        @Test("a statement is prepared once")
        func preparedOnce() async throws {
            let connection = try await TestServer.connect()
            for _ in 0..<3 { _ = try await connection.query(Self.one, deadline: soon()) }

            let rows = try await connection.query(
                Statement("c_prepared", "select count(*) from pg_prepared_statements where name = 'c_one'"),
                deadline: soon()
            )

            #expect(try rows[0].value(Int64.self, at: 0) == 1)
        }

        @Test("a plan made for an empty table is replaced after the table has grown")
        func replanned() async throws {
            let connection = try await TestServer.connect()
            try await connection.script(
                """
                set plan_cache_mode = force_generic_plan;
                create table c_grown (id integer primary key) with (autovacuum_enabled = off)
                """, deadline: soon())
            let find = Statement("c_find", "select id from c_grown where id = $1")
            let explain = Statement("c_explain", "explain execute c_find(1)")
            func plan() async throws -> String {
                let rows = try await connection.query(explain, deadline: soon())
                return try rows.map { try $0.value(String.self, at: 0) }.joined()
            }
            // For a table this small, a sequential scan is as good.
            try await connection.script("set enable_bitmapscan = off; set enable_indexscan = off", deadline: soon())
            try await connection.script("set enable_indexonlyscan = off", deadline: soon())
            _ = try await connection.query(find, [Parameter(Int32(1))], deadline: soon())
            #expect(try await plan().contains("Seq Scan"))
            try await connection.script(
                "reset enable_bitmapscan; reset enable_indexscan; reset enable_indexonlyscan", deadline: soon())
            try await connection.script(
                "insert into c_grown select generate_series(1, 100000)", deadline: soon())

            for _ in 0..<16 { _ = try await connection.query(find, [Parameter(Int32(1))], deadline: soon()) }

            #expect(try await plan().contains("Index"))
        }

        @Test("discarding plans does not affect transactions")
        func replannedOutside() async throws {
            let connection = try await TestServer.connect()
            let isolate = Statement("c_isolate", "set transaction isolation level repeatable read")
            let zero = Statement("c_zero", "select 1 / 0")
            for _ in 0..<20 {
                _ = try await connection.transaction([Step(isolate), Step(Self.one)], deadline: soon())
                try await connection.begin(deadline: soon())
                _ = try await connection.query(isolate, deadline: soon())
                _ = try await failure { () throws(PostgresError) in
                    try await connection.query(zero, deadline: soon())
                }
                try await connection.rollback(deadline: soon())
            }
            #expect(await connection.isUsable)
        }

        @Test("a rejected statement gives SQLSTATE and constraint, and no value in the description")
        func serverError() async throws {
            let connection = try await TestServer.connect()
            try await connection.script(
                "create temp table c_unique (v text constraint c_unique_v unique)", deadline: soon()
            )
            let insert = Statement("c_insert", "insert into c_unique (v) values ($1)")
            _ = try await connection.query(insert, [Parameter("secret-canary")], deadline: soon())

            let error = try await failure { () throws(PostgresError) in
                try await connection.query(insert, [Parameter("secret-canary")], deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "23505"))
            #expect(error.constraint == "c_unique_v" && error.label == "server_constraint" && !error.isTransient)
            #expect(error.debugDescription.contains("c_insert") && error.debugDescription.contains("23505"))
            for text in ["\(error)", error.debugDescription] { #expect(!text.contains("canary")) }
            #expect(!"\(error)".contains("c_unique"))
            #expect(await connection.isUsable)
        }

        @Test("a statement that cannot be prepared fails each time and leaves the connection usable")
        func preparationFails() async throws {
            let connection = try await TestServer.connect()
            let wrong = Statement("c_wrong", "select nothing from nowhere")

            for _ in 0..<2 {
                let error = try await failure { () throws(PostgresError) in
                    try await connection.query(wrong, deadline: soon())
                }
                #expect(error.kind == .server(sqlstate: "42P01"))
            }

            _ = try await connection.query(Self.one, deadline: soon())
        }

        @Test("the connection is abandoned soon after a deadline passes")
        func deadline() async throws {
            let connection = try await TestServer.connect()
            let start = ContinuousClock.now

            let error = try await failure { () throws(PostgresError) in
                try await connection.query(Self.sleep, deadline: start + .milliseconds(150))
            }

            #expect(error.kind == .deadlineExceeded)
            #expect(start.duration(to: .now) >= .milliseconds(150))
            #expect(start.duration(to: .now) < .seconds(15))
            #expect(await !connection.isUsable)
            let next = try await failure { () throws(PostgresError) in
                try await connection.query(Self.one, deadline: soon())
            }
            #expect(next.kind == .unavailable)
        }

        @Test("the server ends the statement of an abandoned connection")
        func abandonedBackendEnds() async throws {
            let connection = try await TestServer.connect()
            let watcher = try await TestServer.connect()
            let pid = connection.backendPID
            _ = try await failure { () throws(PostgresError) in
                try await connection.query(Self.sleep, deadline: .now + .milliseconds(50))
            }

            // A process that another test forks at that moment inherits the socket and keeps it open while it
            // runs.
            try await eventually(within: .seconds(60)) {
                let rows = try await watcher.query(
                    Statement("c_alive", "select 1 from pg_stat_activity where pid = $1"), [Parameter(pid)],
                    deadline: soon()
                )
                return rows.isEmpty
            }
        }

        @Test("a deadline that has passed before sending leaves the connection usable")
        func lateCaller() async throws {
            let connection = try await TestServer.connect()

            let error = try await failure { () throws(PostgresError) in
                try await connection.query(Self.one, deadline: .now - .seconds(1))
            }

            #expect(error.kind == .deadlineExceeded)
            #expect(await connection.isUsable)
        }

        @Test("a backend killed during a statement is reported as unavailable")
        func killed() async throws {
            let connection = try await TestServer.connect()
            let pid = connection.backendPID
            async let error = failure { () throws(PostgresError) in
                try await connection.query(Self.sleep, deadline: soon())
            }
            try await TestServer.waitUntil(backend: pid, waitsFor: "PgSleep")

            try await TestServer.terminate(backend: pid)

            #expect(try await error.kind == .unavailable)
            #expect(try await error.sqlstate == "57P01")
            #expect(await !connection.isUsable)
        }

        @Test("a backend that died while idle is detected before anything is sent")
        func diedIdle() async throws {
            let connection = try await TestServer.connect()
            try await TestServer.terminate(backend: connection.backendPID)
            try await eventually { await !connection.isQuiet() }

            let error = try await failure { () throws(PostgresError) in
                try await connection.transaction([Step(Self.one)], deadline: soon())
            }

            #expect(error.kind == .unavailable || error.kind == .outcomeUnknown)
            #expect(await !connection.isUsable)
        }

        @Test("the configured role applies from the first statement")
        func role() async throws {
            let owner = try await TestServer.connect()
            try await owner.script(
                "create role \"odd role\"; create table c_owned (v int4)", deadline: soon()
            )

            let configuration = try TestServer.configuration().with(role: "odd role")
            let connection = try await PostgresConnection.connect(configuration, deadline: soon())

            let rows = try await connection.query(
                Statement("c_role", "select current_user, current_setting('client_min_messages')"), deadline: soon()
            )
            #expect(try rows[0].value(String.self, at: 0) == "odd role")
            #expect(try rows[0].value(String.self, at: 1) == "warning")
            let error = try await failure { () throws(PostgresError) in
                try await connection.query(Statement("c_owned", "select v from c_owned"), deadline: soon())
            }
            #expect(error.kind == .server(sqlstate: "42501"))
        }

        @Test("a script is one transaction, and the connection stays usable after its error")
        func script() async throws {
            let connection = try await TestServer.connect()

            let error = try await failure { () throws(PostgresError) in
                try await connection.script("create table c_half (v int4); select 1/0", deadline: soon())
            }

            #expect(error.kind == .server(sqlstate: "22012"))
            let rows = try await connection.query(
                Statement("c_half", "select to_regclass('c_half') is null"), deadline: soon()
            )
            #expect(try rows[0].value(Bool.self, at: 0))
        }

        @Test("connecting to a missing server fails at once with unavailable")
        func noServer() async throws {
            let configuration = ConnectionConfiguration(socketFolder: "/tmp/nowhere", user: "u", database: "d")

            let error = try await failure { () throws(PostgresError) in
                try await PostgresConnection.connect(configuration, deadline: soon())
            }

            #expect(error.kind == .unavailable && error.isTransient)
            #expect(!"\(error)".contains("nowhere"))
        }

        @Test("threads end with their connections")
        func threads() async throws {
            func threadCount() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count {
                    (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "postgres\n"
                }
            }
            let before = try threadCount()
            for _ in 0..<50 {
                let connection = try await TestServer.connect()
                _ = try await connection.query(Self.one, deadline: soon())
            }

            // Other tests run at the same time and have threads of their own, but fewer than fifty.
            try await eventually { try threadCount() < before + 40 }
        }
    }
}
