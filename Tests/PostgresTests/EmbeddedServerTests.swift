import Foundation
import Testing

@testable import Postgres

/// The tests run in order on one folder, which the first creates and which is removed at the end.
@Suite("the embedded server", .serialized, .ownFolder)
struct EmbeddedServerTests {
    static let one = Statement("e_one", "select 1")

    @Test("data survives a restart, and a start takes less than three seconds")
    func keepsData() async throws {
        let first = try await start()
        try await first.createDatabase("odd \"name\"")
        try await first.createDatabase("odd \"name\"")
        try await run("create table kept as select 42 as v", on: first, database: "odd \"name\"")
        try await first.createDatabase("copy", template: "odd \"name\"")
        await first.stop()
        #expect(await first.postmasterPID == nil)

        let begin = ContinuousClock.now
        let second = try await start()
        let time = begin.duration(to: .now)

        let connection = try await PostgresConnection.connect(second.configuration(database: "copy"), deadline: soon())
        let rows = try await connection.query(Statement("e_kept", "select v from kept"), deadline: soon())
        #expect(try rows[0].value(Int32.self, at: 0) == 42)
        // Two hundred milliseconds on an idle machine; the test machine may be busy.
        #expect(time < .seconds(3))
        print("embedded server ready after \(time)")
        await second.stop()
    }

    @Test("a second server on a folder fails with the process id of the first")
    func refusesSecond() async throws {
        let server = try await start()

        let error = await #expect(throws: EmbeddedServerError.self) { try await start() }

        #expect("\(try #require(error))".contains("in use by process \(getpid())"))
        await server.stop()
    }

    @Test("a killed server is restarted, and a pool reconnects")
    func supervises() async throws {
        let server = try await start()
        let pool = PostgresPool(server.configuration(database: "postgres"), limit: 4, logger: .quiet)
        _ = try await pool.query(Self.one, deadline: soon())
        let before = try #require(await server.postmasterPID)
        let supervisor = Task { await server.supervise() }

        kill(before, SIGKILL)

        try await eventually(within: .seconds(30)) { (try? await pool.query(Self.one, deadline: soon())) != nil }
        try await eventually { await server.postmasterPID.map { $0 != before } ?? false }
        supervisor.cancel()
        await supervisor.value
        await pool.close()
        await server.stop()
    }

    @Test("a pool fails at once while the server is down, and recovers")
    func failsFast() async throws {
        let server = try await start()
        let pool = PostgresPool(
            server.configuration(database: "postgres"), limit: 4, logger: .quiet, jitter: { 0 }
        )
        _ = try await pool.query(Self.one, deadline: soon())
        await server.stop()

        // The first calls find the idle connection broken and the server unreachable. By then the back-off is about a
        // second.
        try await eventually {
            let error = try await failure { () throws(PostgresError) in
                try await pool.query(Self.one, deadline: soon())
            }
            #expect(error.kind == .unavailable)
            return await pool.backOff.failures == 6
        }
        let begin = ContinuousClock.now
        for _ in 0..<100 {
            let error = try await failure { () throws(PostgresError) in
                try await pool.query(Self.one, deadline: soon())
            }
            #expect(error.kind == .unavailable && error.isTransient)
        }
        // If each waited for its turn to connect, it would take more than a minute and a half.
        #expect(begin.duration(to: .now) < .seconds(20))
        #expect(await pool.backOff.failures <= 10)

        let again = try await start()
        try await eventually { (try? await pool.query(Self.one, deadline: soon())) != nil }
        #expect(await pool.backOff.failures == 0)
        await pool.close()
        await again.stop()
    }

    @Test("a server whose owner has exited is taken over")
    func takesOver() async throws {
        let orphan = try await startAndForget()
        #expect(kill(orphan, 0) == 0)

        let server = try await start()

        #expect(await server.postmasterPID != orphan)
        // It was shut down; its parent is this process, which must reap it.
        #expect(ChildProcess(pid: orphan).collect() == 0)
        await server.stop()
    }

    @Test("a pid file that names another living process does not keep the server from starting")
    func stalePIDFile() async throws {
        let folder = try ServerFolder(path: #require(OwnFolderTrait.folder), account: ServerAccount.ifRoot())
        let sleeper = try ChildProcess.start(folder.command(["/bin/sleep", "60"]), output: "/dev/null")
        try "\(sleeper.pid)\n\(folder.cluster)\n1\n5432\n\n\n1 1\n".write(
            toFile: folder.pidFile, atomically: false, encoding: .utf8
        )

        let server = try await start()

        #expect(sleeper.collect() == nil)
        await server.stop()
        sleeper.signal(SIGKILL)
        _ = await sleeper.wait()
    }

    @Test("an invalid setting fails with the server's message")
    func badSetting() async throws {
        let error = await #expect(throws: EmbeddedServerError.self) {
            try await start(settings: ["max_connections": "many"])
        }

        #expect("\(try #require(error))".contains("max_connections"))
    }

    @Test("a folder path too long for a socket is rejected")
    func longPath() async throws {
        let folder = try #require(OwnFolderTrait.folder) + "/" + String(repeating: "x", count: 80)

        let error = await #expect(throws: EmbeddedServerError.self) {
            try await EmbeddedServer.start(folder: folder, logger: .quiet)
        }

        #expect("\(try #require(error))".contains("too long for a unix socket"))
    }

    @Test(
        "a folder inside one that is closed to the server's account is rejected, permissions unchanged",
        .enabled(if: geteuid() == 0))
    func closedFolder() async throws {
        let folder = try #require(OwnFolderTrait.folder) + "/closed"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700]
        )

        let error = await #expect(throws: EmbeddedServerError.self) {
            try await EmbeddedServer.start(folder: folder + "/data", logger: .quiet)
        }

        #expect("\(try #require(error))".contains("chmod o+x \(folder)"))
        let attributes = try FileManager.default.attributesOfItem(atPath: folder)
        #expect(attributes[.posixPermissions] as? Int == 0o700)
    }

    @Test("a folder with other contents is not touched")
    func foreignFolder() async throws {
        let folder = try #require(OwnFolderTrait.folder) + "/x"
        try FileManager.default.createDirectory(atPath: folder + "/postgres", withIntermediateDirectories: true)

        let error = await #expect(throws: EmbeddedServerError.self) {
            try await EmbeddedServer.start(folder: folder, logger: .quiet)
        }

        #expect("\(try #require(error))".contains("is not a PostgreSQL cluster"))
    }

    private func start(settings: [String: String] = [:]) async throws(EmbeddedServerError) -> EmbeddedServer {
        guard let folder = OwnFolderTrait.folder else { throw EmbeddedServerError("no folder") }
        return try await EmbeddedServer.start(folder: folder, settings: settings, logger: .quiet)
    }

    /// Releases the lock without stopping the server, as a killed owner does.
    private func startAndForget() async throws -> Int32 {
        try #require(await start().postmasterPID)
    }

    private func run(_ sql: String, on server: EmbeddedServer, database: String) async throws {
        let connection = try await PostgresConnection.connect(
            server.configuration(database: database), deadline: soon()
        )
        try await connection.script(sql, deadline: soon())
        await connection.close()
    }
}

struct OwnFolderTrait: SuiteTrait, TestScoping {
    @TaskLocal static var folder: String?

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let folder = temporaryFolder()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await Self.$folder.withValue(folder, operation: function)
    }
}

extension Trait where Self == OwnFolderTrait {
    static var ownFolder: OwnFolderTrait { OwnFolderTrait() }
}
