import AppStore
import Foundation
import HTTPServer
import Postgres
import TestSupport
import Testing

@testable import EventLog
@testable import Server

@Suite("Database settings that could lose acknowledged notifications")
struct DurabilityTests {
    /// Starts a separate server with the settings and returns the result of the check.
    private static func check(
        _ settings: [String: String], _ basis: Durability.Basis = .settings
    ) async throws -> Result<Durability.Settings, any Error> {
        let folder = TestFolder.path("durability")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try await EmbeddedServer.start(folder: folder, settings: settings, logger: LogRecorder().logger)
        let connection = try await TestCluster.connect(server.configuration(database: "postgres"))
        let result: Result<Durability.Settings, any Error>
        do {
            result = .success(try await Durability.check(connection, basis))
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

    @Test("on a provider's word, only synchronous_commit is checked, at start and while the server runs")
    func provider() async throws {
        let folder = TestFolder.path("durability")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let logs = LogRecorder()
        let server = try await EmbeddedServer.start(
            folder: folder, settings: ["fsync": "off", "full_page_writes": "off"], logger: LogRecorder().logger)
        let database = server.configuration(database: "postgres")
        try await Self.set("synchronous_commit", "off", database)
        let connection = try await TestCluster.connect(database)
        let pool = PostgresPool(database, limit: 1, logger: logs.logger)
        let watch = DurabilityWatch(pool: pool, basis: .provider, logger: logs.logger)

        let settings = try await eventually("it is asynchronous") {
            let settings = try await Durability.check(connection, .provider)
            return settings.synchronousCommitIsOff ? settings : nil
        }
        await watch.look()
        let asynchronous = watch.condition
        try await Self.set("synchronous_commit", "on", database)
        _ = try await eventually("it heals") {
            await watch.look()
            return watch.condition == .safe ? true : nil
        }

        #expect(settings.basis == .provider)
        #expect(asynchronous == .unsafe(setting: "synchronous_commit"))
        await connection.close()
        await pool.close()
        await server.stop()
    }

    @Test("a rented database, whose owner is no superuser, is refused until its provider is trusted, which health says")
    func rented() async throws {
        let folder = TestFolder.path("durability")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let rented = try await EmbeddedServer.start(
            folder: folder, settings: ["fsync": "off", "full_page_writes": "off"], logger: LogRecorder().logger)
        try await rented.createDatabase("rented")
        let superuser = try await TestCluster.connect(rented.configuration(database: "rented"))
        try await superuser.script(
            "create role tenant login createrole password 'test'; alter database rented owner to tenant;",
            deadline: .now + .seconds(20))
        let environment = [
            "SUBLEDGER_DATABASE_URL": "postgres:///rented?host=\(rented.socketFolder)&user=tenant",
            "PGPASSWORD": "test", "SUBLEDGER_OCSP": "off",
        ]
        let trusting = environment.merging(["SUBLEDGER_DATABASE_DURABILITY": "provider"]) { $1 }

        let refused = try ServerProcess.run(["migrate"], environment: environment)
        let migrated = try ServerProcess.run(["migrate"], environment: trusting)
        let server = try ServerProcess(dataFolder: TestFolder.root + "/subledger-rented-none", environment: trusting)
        let answer = try await HTTPClient(port: try await server.ports().public).post(try V1Body(number: 1).bytes)
        let health = try await HTTPClient(port: try await server.privatePort()).get("/health")
        let roles = try await superuser.query(
            Statement(
                "roles",
                "select count(*) from pg_roles where rolname like 'subledger\\_%' and not rolsuper and not rolcanlogin"),
            deadline: .now + .seconds(20))

        #expect(refused.status != 0)
        #expect(refused.error.contains("= off, so a crash could lose what was acknowledged"), "\(refused.error)")
        #expect(migrated.status == 0, "\(migrated.error)")
        #expect(try roles[0].value(Int64.self, at: 0) == 8)
        #expect(answer.status == 200, "\(answer.body)")
        let condition = #"{"name":"durability","state":"ok","detail":"the provider keeps commits; "#
        #expect(health.body.contains(condition + #"only synchronous_commit is checked"}"#), "\(health.body)")
        let line = "database settings fsync and full_page_writes are not checked; the provider keeps commits"
        #expect(server.log.contains(line))
        server.signal(SIGTERM)
        try await server.hasEnded()
        await superuser.close()
        await rented.stop()
    }

    @Test("notifications that a session keeps unread are a condition and one line, until they are read")
    func notificationQueue() async throws {
        let recorder = LogRecorder()
        // Nothing is asked of it.
        let pool = PostgresPool(
            ConnectionConfiguration(socketFolder: "/tmp/nowhere", user: "u", database: "d"), limit: 1,
            logger: recorder.logger)
        let watch = DurabilityWatch(pool: pool, logger: recorder.logger)
        let check = HealthCheck.notificationQueue(watch)
        var states: [HealthState] = []
        for usage in [0, 0.1, 0.25, 0.5, 0.01] {
            watch.note(queueUsage: usage)
            states.append(await check.check())
        }
        await pool.close()

        let unread = "a session keeps notifications of the database unread: "
        #expect(
            states == [
                .ok, .ok, .degraded(unread + "25 percent of the queue is in use"),
                .degraded(unread + "50 percent of the queue is in use"), .ok,
            ])
        let lines = recorder.text.split(separator: "\n")
        #expect(lines.count == 2, "\(lines)")
        #expect(lines.first?.contains("warning a session keeps notifications of the database unread") == true)
        #expect(lines.last?.contains("notice notifications of the database are read again") == true)
    }

    @Test("an unknown word, or a provider of the private server, is an error that names what is expected")
    func basis() throws {
        for (environment, problem) in [
            (
                ["SUBLEDGER_DATABASE_DURABILITY": "yes"],
                "database durability \"yes\": expected settings or provider"
            ),
            (
                ["SUBLEDGER_DATABASE_DURABILITY": "provider"],
                "database durability \"provider\": expected a database URL, because the private server has none"
            ),
        ] {
            let result = try ServerProcess.run(
                ["migrate", "--data-folder", TestFolder.path("durability")], environment: environment)

            #expect(result.status == 78)
            #expect(result.error.hasSuffix("\(problem)\n"), "\(result.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: TestFolder.path("durability")))
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
