import Foundation
import Postgres
import TestSupport

/// Databases of the release of 26 November 2026, with the events, questions and receipts of simulated stores. The file
/// `Fixtures/README.md` says how the dump was made.
enum ReleaseDump {
    private static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Fixtures/release-2026-11-26.dump")

    /// Such a database, for the test alone.
    static func withDatabase<Value>(
        _ test: (ConnectionConfiguration) async throws -> Value
    ) async throws -> Value {
        try await TestCluster.withDatabase(from: try await template.value, test)
    }

    private static let template = Task {
        let name = "template_release"
        try await TestCluster.server().createDatabase(name)
        try await restore(into: name)
        return name
    }

    /// Appends the log to a new database, and sets what the log is folded with.
    static func restoreLog(into database: ConnectionConfiguration) async throws {
        let tables = [
            "stream", "stream_head", "jws_header", "event", "event_conflict", "subscription_head",
            "certificate_verdict", "ocsp_response", "product", "product_entitlement", "app_ownership",
            "app_join", "app_checks",
        ]
        let owner = try await TestCluster.connect(database)
        // That release had the bodies beside their events.
        try await owner.script("alter table subledger.event add column body bytea", deadline: .now + .seconds(20))
        try await restore(into: database.database ?? "", ["--data-only"] + tables.map { "--table=\($0)" })
        try await owner.script(
            """
            select subledger.make_body_partitions(received_at, 0) from subledger.event;
            insert into subledger.event_body (stream_id, position, received_at, body)
            select stream_id, position, received_at, body from subledger.event;
            alter table subledger.event drop column body
            """, deadline: .now + .seconds(60))
        await owner.close()
    }

    private static func restore(into name: String, _ choice: [String] = []) async throws {
        let restored = try Process.run(
            command: [
                "pg_restore", "--exit-on-error", "-h", try await TestCluster.server().socketFolder, "-U", "subledger",
                "-d", name,
            ] + choice + [file.path], limit: 120)
        guard restored.status == 0 else { throw Unreadable(status: restored.status, error: restored.errorText) }
    }

    /// For a command that connects to the database.
    static func url(_ database: ConnectionConfiguration) async throws -> String {
        "postgres:///\(database.database ?? "")?host=\(try await TestCluster.server().socketFolder)&user=subledger"
    }

    struct Unreadable: Error {
        let status: Int32
        let error: String
    }
}
