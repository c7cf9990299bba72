import EventLog
import Foundation
import Logging
import Postgres

/// One PostgreSQL server for the whole test run, with a new database for each test. With `SUBLEDGER_TEST_CITUS=1`, the
/// databases are on the nodes of ``CitusCluster``.
package enum TestCluster {
    private static let started = Task { () async throws -> EmbeddedServer in
        let folder = TestFolder.path("tests")
        // Autovacuum would start a process for each database that tests leave, again and again.
        let server = try await EmbeddedServer.start(
            folder: folder,
            settings: ["max_connections": "300", "synchronous_commit": "on", "jit": "off", "autovacuum": "off"],
            logger: Logger(label: "test-cluster", factory: { _ in SwiftLogNoOpLogHandler() }))
        endWithProcess(server: await server.postmasterPID, folder: folder)
        try await server.createDatabase("template_subledger")
        try await migrate(server.configuration(database: "template_subledger"))
        return server
    }

    package static func server() async throws -> EmbeddedServer {
        try await started.value
    }

    /// Clones a database with the schema from a template, and returns the owner's configuration.
    ///
    /// - Parameter template: A template database without connections.
    package static func freshDatabase(
        from template: String = "template_subledger"
    ) async throws -> ConnectionConfiguration {
        if CitusCluster.isWanted { return try await CitusCluster.freshDatabase(from: template) }
        let server = try await started.value
        let name = databaseName()
        try await server.createDatabase(name, template: template)
        return server.configuration(database: name)
    }

    /// Runs the test with a clone of its own, and drops it afterwards.
    ///
    /// - Parameter template: A template database without connections.
    package static func withDatabase<Value>(
        from template: String = "template_subledger", _ test: (ConnectionConfiguration) async throws -> Value
    ) async throws -> Value {
        let database = try await freshDatabase(from: template)
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await test(database))
        } catch {
            outcome = .failure(error)
        }
        // A clone that stays does no harm: the whole cluster is removed at the end.
        try? await drop(database)
        return try outcome.get()
    }

    private static func drop(_ database: ConnectionConfiguration) async throws {
        if CitusCluster.isWanted { return }
        let connection = try await connect(database.with(database: "postgres"))
        // The sessions of closed pools take a moment to end.
        try await connection.script(
            "drop database if exists \(database.database ?? "") with (force)", deadline: .now + .seconds(60))
        await connection.close()
    }

    /// Creates a database with the schema for use as a template.
    package static func makeTemplate(_ name: String) async throws -> ConnectionConfiguration {
        if CitusCluster.isWanted { return try await CitusCluster.makeTemplate(name) }
        let server = try await started.value
        try await server.createDatabase(name, template: "template_subledger")
        return server.configuration(database: name)
    }

    /// Creates a database without the schema.
    package static func emptyDatabase() async throws -> ConnectionConfiguration {
        if CitusCluster.isWanted { return try await CitusCluster.emptyDatabase() }
        let server = try await started.value
        let name = databaseName()
        try await server.createDatabase(name)
        return server.configuration(database: name)
    }

    package static func connect(_ configuration: ConnectionConfiguration) async throws -> PostgresConnection {
        try await PostgresConnection.connect(configuration, deadline: .now + .seconds(30))
    }

    package static func migrate(_ database: ConnectionConfiguration) async throws {
        let owner = try await connect(database)
        _ = try await Schema.migrate(owner)
        await owner.close()
    }

    private static func databaseName() -> String {
        "test_" + UUID().uuidString.lowercased().replacingOccurrences(of: "-", with: "")
    }
}

/// The cluster that `endWithProcess` ends. Written once, before the handler that reads it is installed.
nonisolated(unsafe) private var clusterToEnd: (postmaster: Int32, folder: String)?

/// Ends the cluster in `atexit`, because test runners have no hook for the end of a run.
private func endWithProcess(server: Int32?, folder: String) {
    guard let server else { return }
    clusterToEnd = (server, folder)
    atexit {
        guard let cluster = clusterToEnd else { return }
        kill(cluster.postmaster, SIGQUIT)
        var status: Int32 = 0
        waitpid(cluster.postmaster, &status, 0)
        try? FileManager.default.removeItem(atPath: cluster.folder)
    }
}
