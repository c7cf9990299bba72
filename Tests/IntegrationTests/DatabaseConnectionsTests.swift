import Foundation
import TestSupport
import Testing

@testable import subledger

@Suite("Connections to the database")
struct DatabaseConnectionsTests {
    private static let article = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Sources/subledger/Documentation.docc/Operating.md")

    @Test("a process with all roles has at most 30, as the article says, also while many requests wait")
    func count() async throws {
        let apps = TestFolder.path("connections") + ".json"
        defer { try? FileManager.default.removeItem(atPath: apps) }
        try """
        [{"bundleId":"\(V1Body.app)","sharedSecrets":["0123456789abcdef0123456789abcdef"]},
        {"packageName":"com.example.play","push":{"authentication":"none"}}]
        """.write(toFile: apps, atomically: true, encoding: .utf8)
        let database = try await SharedDatabase.make()
        let server = try database.server(
            "receiver,projector,reader,poller",
            more: ["SUBLEDGER_APPS_FILE": apps, "SUBLEDGER_APP_BUNDLE_ID": "", "SUBLEDGER_APP_SHARED_SECRET": ""])
        let ports = try await server.ports()
        let backend = HTTPClient(port: ports.private, token: try await database.token(.link))

        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<80 {
                group.addTask {
                    _ = try await backend.get("/subscriptions/\(number)?app=\(V1Body.app)")
                    _ = try await backend.get("/customers/\(number)/entitlements?app=\(V1Body.app)")
                }
            }
            try await group.waitForAll()
        }
        let open = try await database.lines(
            """
            select count(*)::text
            from pg_stat_activity
            where datname = current_database()
              and application_name like 'subledger %'
            """)
        let metrics = try await backend.get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        let limits = metrics.split(separator: "\n").filter { $0.hasPrefix("subledger_database_connections_max{") }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
        #expect(Int(limits.reduce(0, +)) + Database.sessionsMax == Database.connectionsMax)
        #expect(Database.connectionsMax <= 30)
        #expect(try #require(open.first.flatMap { Int($0) }) <= Database.connectionsMax)
        let text = try String(contentsOf: Self.article, encoding: .utf8)
        #expect(text.contains("has at most \(Database.connectionsMax) connections to the database"))
    }
}
