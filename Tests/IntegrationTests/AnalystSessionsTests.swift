import Foundation
import Postgres
import TestSupport
import Testing

@Suite("What analysts ask a private server runs when nobody else wants the processor")
struct AnalystSessionsTests {
    @Test("an analyst's process, but no reader's")
    func classes() async throws {
        let folder = "/tmp/subledger-analysts-\(UUID().uuidString.prefix(8))"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        _ = try await server.ports()
        func connect(_ user: String) async throws -> PostgresConnection {
            try await PostgresConnection.connect(
                ConnectionConfiguration(socketFolder: folder + "/run", user: user, database: "subledger"),
                deadline: .now + .seconds(20))
        }
        let (analyst, reader) = (try await connect("subledger_analyst"), try await connect("subledger_reader"))
        let (analystPid, readerPid) = (try await Self.pid(analyst), try await Self.pid(reader))

        try await eventually("it is set back") { Self.isIdleClass(analystPid) ? () : nil }

        #expect(!Self.isIdleClass(readerPid))
        await analyst.close()
        await reader.close()
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    private static func pid(_ connection: PostgresConnection) async throws -> Int32 {
        let rows = try await connection.query(
            Statement("own_pid", "select pg_backend_pid()"), deadline: .now + .seconds(20))
        return try rows[0].value(at: 0)
    }

    /// `SCHED_IDLE`
    private static func isIdleClass(_ pid: Int32) -> Bool { sched_getscheduler(pid) == 5 }
}
