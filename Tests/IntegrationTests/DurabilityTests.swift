import AppStore
import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Database settings that could lose acknowledged notifications")
struct DurabilityTests {
    /// Starts a separate server with the settings and returns the result of the check.
    private static func check(_ settings: [String: String]) async throws -> Result<Durability.Settings, any Error> {
        let folder = TestFolder.path("durability")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try await EmbeddedServer.start(folder: folder, settings: settings, logger: LogRecorder().logger)
        let connection = try await TestCluster.connect(server.configuration(database: "postgres"))
        let result: Result<Durability.Settings, any Error>
        do {
            result = .success(try await Durability.check(connection))
        } catch {
            result = .failure(error)
        }
        await connection.close()
        await server.stop()
        return result
    }

    @Test("a server with fsync or full_page_writes off is rejected", arguments: ["fsync", "full_page_writes"])
    func unsafe(_ setting: String) async throws {
        let result = try await Self.check([setting: "off"])

        let error = #expect(throws: DurabilityError.self) { _ = try result.get() }
        #expect(
            error?.description == """
                the database runs with \(setting) = off, so a crash could lose what was acknowledged: switch it on
                """)
    }

    @Test("synchronous_commit may be off and is reported, because the server's own sessions set it")
    func asynchronous() async throws {
        #expect(try await Self.check(["synchronous_commit": "off"]).get().synchronousCommitIsOff)
        #expect(try await Self.check([:]).get().synchronousCommitIsOff == false)
    }

    @Test(
        "an unsafe setting rejects events until it is on again, with one log line for each change",
        arguments: ["fsync", "full_page_writes", "synchronous_commit"])
    func changes(_ setting: String) async throws {
        let folder = TestFolder.path("durability")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let logs = LogRecorder()
        let server = try await EmbeddedServer.start(folder: folder, logger: LogRecorder().logger)
        let database = server.configuration(database: "postgres")
        try await TestCluster.migrate(database)
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logs.logger)
        let watch = DurabilityWatch(pool: pool, logger: logs.logger)
        let appender = Appender(pool: pool, durability: watch, logger: logs.logger)
        let running = Task { await appender.run() }
        await watch.look()
        #expect(watch.condition == .safe)

        try await Self.set(setting, "off", database)
        _ = try await eventually("the change is detected") {
            await watch.look()
            return watch.condition == .unsafe(setting: setting) ? true : nil
        }
        await watch.look()
        let refusal = await #expect(throws: AppendError.self) { try await Self.append(1, to: appender) }
        try await Self.set(setting, "on", database)
        _ = try await eventually("it heals") {
            await watch.look()
            return watch.condition == .safe ? true : nil
        }
        let place = try await Self.append(1, to: appender)

        #expect(refusal == .unavailable)
        #expect(place.isNew && place.position == 1)
        #expect(logs.text.ranges(of: "unsafe database setting; rejecting notifications until it is on").count == 1)
        #expect(logs.text.ranges(of: "database settings are safe again").count == 1)
        await appender.stop()
        await running.value
        await pool.close()
        await server.stop()
    }

    @Test("an unreachable database does not change the known settings")
    func unanswered() async throws {
        let pool = PostgresPool(
            ConnectionConfiguration(socketFolder: "/tmp/nowhere", user: "u", database: "d"), limit: 1,
            logger: LogRecorder().logger)
        let watch = DurabilityWatch(pool: pool, logger: LogRecorder().logger)

        await watch.look()

        #expect(watch.condition == .safe)
        await pool.close()
    }

    private static func set(_ setting: String, _ value: String, _ database: ConnectionConfiguration) async throws {
        let connection = try await TestCluster.connect(database)
        try await connection.script("alter system set \(setting) = \(value)", deadline: .now + .seconds(20))
        try await connection.script("select pg_reload_conf()", deadline: .now + .seconds(20))
        await connection.close()
    }

    private static func append(_ number: Int, to appender: Appender) async throws -> Appended {
        let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
        return try await appender.append(
            PreparedEvent(
                try apps.verify(try V1Body(number: number).bytes, receivedAt: TestBundle.now),
                receivedAt: TestBundle.now))
    }
}
