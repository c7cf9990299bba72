import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("A server whose settings could lose what was acknowledged is refused or told")
struct DurabilityTests {
    /// Starts a server of its own with the settings and returns what the check says.
    private static func check(_ settings: [String: String]) async throws -> Result<Durability.Settings, any Error> {
        let folder = "/tmp/subledger-durability-\(UUID().uuidString.prefix(8))"
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

    @Test("fsync and full_page_writes must be on", arguments: ["fsync", "full_page_writes"])
    func unsafe(_ setting: String) async throws {
        let result = try await Self.check([setting: "off"])

        let error = #expect(throws: DurabilityError.self) { _ = try result.get() }
        #expect(
            error?.description == """
                the database runs with \(setting) = off, so a crash could lose what was acknowledged: switch it on
                """)
    }

    @Test("synchronous_commit may be off: it is told, since our own sessions ask for more")
    func asynchronous() async throws {
        #expect(try await Self.check(["synchronous_commit": "off"]).get().synchronousCommitIsOff)
        #expect(try await Self.check([:]).get().synchronousCommitIsOff == false)
    }
}
