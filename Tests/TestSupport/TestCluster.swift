import EventLog
import Foundation
import Logging
import Postgres

/// One PostgreSQL server for the whole test run, with a new database for each test. With `SUBLEDGER_TEST_CITUS=1`, the
/// databases are on the nodes of ``CitusCluster``.
package enum TestCluster {
    private static let started = Task { () async throws -> EmbeddedServer in
        let folder = "/tmp/subledger-tests-\(getpid())"
        let server = try await EmbeddedServer.start(
            folder: folder, settings: ["max_connections": "300", "synchronous_commit": "on"],
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
