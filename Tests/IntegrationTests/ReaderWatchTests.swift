import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@testable import Server

@Suite("Session limits of readers and analysts on a private server")
struct ReaderWatchTests {
    /// A private server, as started by `serve`.
    private struct Bundle {
        let server: EmbeddedServer
        let owner: ConnectionConfiguration

        func connect(_ user: String) async throws -> PostgresConnection {
            try await PostgresConnection.connect(
                ConnectionConfiguration(socketFolder: server.socketFolder, user: user, database: "subledger"),
                deadline: .now + .seconds(20))
        }

        func script(_ sql: String) async throws {
            let connection = try await TestCluster.connect(owner)
            try await connection.script(sql, deadline: .now + .seconds(20))
            await connection.close()
        }
    }

    private static func withServer(_ test: (Bundle) async throws -> Void) async throws {
        let folder = TestFolder.path("readers")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let database = try await Database.open(
            Settings(flags: settings([(["data", "folder"], folder)])), logger: LogRecorder().logger)
        let server = try #require(database.embedded)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(Bundle(server: server, owner: database.owner)))
        } catch {
            outcome = .failure(error)
        }
        await server.stop()
        try outcome.get()
    }

    /// Whether the session still responds.
    private static func lives(_ connection: PostgresConnection) async -> Bool {
        (try? await connection.script("select 1", deadline: .now + .seconds(20))) != nil
    }

    private static func count(_ line: String, _ logs: LogRecorder) -> Int { logs.text.ranges(of: line).count }

    private static let lifting = """
        set statement_timeout = 0;
        set idle_in_transaction_session_timeout = 0;
        set idle_session_timeout = 0;
        set default_transaction_read_only = off;
        """

    @Test("sessions are terminated for long statements and idle transactions, even if they lift their timeouts")
    func times() async throws {
        try await Self.withServer { bundle in
            let logs = LogRecorder()
            let times = ReaderLimits.Times(
                statement: .seconds(2), idleInTransaction: .seconds(2), transaction: .seconds(60), idle: .seconds(60),
                grace: .zero)
            let watch = ReaderWatch(owner: bundle.owner, times: times, logger: logs.logger)
            let (slow, open, brief) = (
                try await bundle.connect("subledger_analyst"), try await bundle.connect("subledger_reader"),
                try await bundle.connect("subledger_analyst")
            )
            let own = try await TestCluster.connect(bundle.owner.with(role: "subledger_reader"))
            for session in [slow, open, brief] {
                try await session.script(Self.lifting, deadline: .now + .seconds(20))
            }
            try await brief.script(
                "alter role subledger_analyst set statement_timeout = 0", deadline: .now + .seconds(20))
            let sleeping = Task { try await slow.script("select pg_sleep(60)", deadline: .now + .seconds(70)) }
            for session in [open, own] {
                try await session.script("listen x; begin; select 1", deadline: .now + .seconds(20))
            }

            let running = Task { try await watch.run() }
            let start = ContinuousClock.now
            let error = await #expect(throws: PostgresError.self) { try await sleeping.value }
            _ = try await eventually("the open transaction is ended") {
                logs.text.contains("idle in transaction") ? true : nil
            }

            #expect(error?.sqlstate == "57P01" || error?.kind == .unavailable)
            #expect(ContinuousClock.now - start < .seconds(20))
            #expect(await !Self.lives(open))
            #expect(await Self.lives(brief))
            #expect(await Self.lives(own))
            #expect(Self.count("reader session ended", logs) == 2)
            running.cancel()
            _ = await running.result
            await watch.pool.close()
            for session in [slow, open, brief, own] { await session.close() }
        }
    }

    @Test("sessions of members of the analyst role are terminated too, even between statements of a long transaction")
    func members() async throws {
        try await Self.withServer { bundle in
            let logs = LogRecorder()
            let times = ReaderLimits.Times(transaction: .seconds(1), idle: .seconds(1), grace: .zero)
            let watch = ReaderWatch(owner: bundle.owner, times: times, logger: logs.logger)
            try await bundle.script(
                """
                create role reporting login password 'test' in role subledger_analyst;
                create role service login password 'test' in role subledger_reader, subledger_receiver;
                """)
            func connect(_ user: String) async throws -> PostgresConnection {
                try await TestCluster.connect(
                    ConnectionConfiguration(
                        url: "postgres:///subledger?host=\(bundle.server.socketFolder)&user=\(user)&password=test"))
            }
            let (busy, idle) = (try await connect("reporting"), try await connect("reporting"))
            let service = try await connect("service")
            try await busy.script("begin", deadline: .now + .seconds(20))

            let running = Task { try await watch.run() }
            _ = try await eventually("the long transaction is ended") { await Self.lives(busy) ? nil : true }
            _ = try await eventually("the idle session is ended") {
                Self.count("reader session ended", logs) >= 2 ? true : nil
            }

            #expect(await !Self.lives(idle))
            #expect(await Self.lives(service))
            running.cancel()
            _ = await running.result
            await watch.pool.close()
            for session in [busy, idle, service] { await session.close() }
        }
    }

    @Test("temporary files are limited; temporary tables, large objects and other databases are rejected")
    func space() async throws {
        try await Self.withServer { bundle in
            let analyst = try await bundle.connect("subledger_analyst")
            try await analyst.script(Self.lifting, deadline: .now + .seconds(20))
            func refusal(_ sql: String) async -> String? {
                do throws(PostgresError) {
                    try await analyst.script(sql, deadline: .now + .seconds(20))
                    return nil
                } catch {
                    return error.sqlstate
                }
            }

            for sql in [
                "create temporary table t ()", "select lo_create(0)", "select lo_from_bytea(0, 'x')",
                "select pg_logical_emit_message(false, 'x', 'x')", "set temp_file_limit = -1",
                "alter role subledger_analyst set temp_file_limit = -1",
            ] {
                #expect(await refusal(sql) == "42501", "\(sql)")
            }
            await #expect(throws: PostgresError.self) {
                try await PostgresConnection.connect(
                    ConnectionConfiguration(
                        socketFolder: bundle.server.socketFolder, user: "subledger_analyst", database: "postgres"),
                    deadline: .now + .seconds(20))
            }
            let limits = try await TestCluster.connect(bundle.owner.with(role: "subledger_projector"))
            try await limits.script(
                "create temporary table t (); select 1 / (current_setting('temp_file_limit') = '-1')::integer",
                deadline: .now + .seconds(20))
            try await analyst.script(
                "select 1 / (current_setting('temp_file_limit') = '1GB')::integer", deadline: .now + .seconds(20))
            await analyst.close()
            await limits.close()
        }
    }

    @Test("analysts cannot use up all connections, and settings of their role are reset at the next start")
    func connections() async throws {
        try await Self.withServer { bundle in
            var sessions: [PostgresConnection] = []
            for _ in 0..<ReaderLimits.analystConnections {
                sessions.append(try await bundle.connect("subledger_analyst"))
            }
            let surplus = await #expect(throws: PostgresError.self) { try await bundle.connect("subledger_analyst") }
            #expect(surplus?.sqlstate == "53300" || surplus?.kind == .unavailable)
            try await sessions[0].script(Self.lifting, deadline: .now + .seconds(20))
            try await sessions[0].script(
                """
                alter role subledger_analyst set statement_timeout = 0;
                alter role subledger_analyst set default_transaction_read_only = off;
                alter role subledger_analyst password 'mine';
                """, deadline: .now + .seconds(20))
            for session in sessions { await session.close() }

            try await bundle.script(ReaderLimits.script)

            _ = try await eventually("a connection is free") { () async -> Bool? in
                guard let analyst = try? await bundle.connect("subledger_analyst") else { return nil }
                let rows = try? await analyst.query(
                    Statement(
                        "settings",
                        """
                        select current_setting('statement_timeout') = '1min'
                          and current_setting('idle_in_transaction_session_timeout') = '1min'
                          and current_setting('idle_session_timeout') = '1h'
                          and current_setting('default_transaction_read_only') = 'on'
                        """), deadline: .now + .seconds(20))
                await analyst.close()
                return (try? rows?[0].value(Bool.self, at: 0)) == true ? true : nil
            }
        }
    }
}
