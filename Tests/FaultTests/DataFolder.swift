import Foundation
import Postgres
import TestSupport

/// The data folder of a server with a private PostgreSQL.
struct DataFolder: Sendable {
    let path: String

    /// Runs the test with a folder that does not exist yet, and removes it afterwards.
    static func with(_ test: (DataFolder) async throws -> Void) async throws {
        let folder = DataFolder(path: TestFolder.path("kill"))
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        try await test(folder)
    }

    /// The process id of PostgreSQL; nil while it is down.
    var postmaster: Int32? {
        let text = try? String(contentsOfFile: path + "/postgres/postmaster.pid", encoding: .utf8)
        return text?.split(separator: "\n").first.flatMap { Int32($0) }
    }

    /// The first column of a query.
    func lines(_ sql: StaticString) async throws -> [String] {
        let connection = try await PostgresConnection.connect(
            ConnectionConfiguration(socketFolder: path + "/run", user: "subledger", database: "subledger"),
            deadline: .now + .seconds(20))
        let rows = try await connection.query(
            Statement("lines", SQL(stringLiteral: sql)), deadline: .now + .seconds(20))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }
}
