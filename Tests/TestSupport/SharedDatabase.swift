import EventLog
import Foundation
import Postgres

/// A database of the test cluster that several server processes share.
package struct SharedDatabase: Sendable {
    package let configuration: ConnectionConfiguration
    package let name: String
    package let socketFolder: String

    package static func make() async throws -> SharedDatabase {
        if CitusCluster.isWanted { return try await distributed() }
        return try await clone(of: "template_subledger")
    }

    /// A database of the test cluster with the same rows.
    package func clone() async throws -> SharedDatabase {
        try await Self.clone(of: name)
    }

    private static func clone(of template: String) async throws -> SharedDatabase {
        let server = try await TestCluster.server()
        let name = "shared_" + UUID().uuidString.lowercased().prefix(8)
        try await server.createDatabase(name, template: template)
        return SharedDatabase(
            configuration: server.configuration(database: name), name: name, socketFolder: server.socketFolder)
    }

    /// A database of a server that the test can kill.
    package static func make(on server: EmbeddedServer) async throws -> SharedDatabase {
        let name = "shared"
        try await server.createDatabase(name)
        try await TestCluster.migrate(server.configuration(database: name))
        return SharedDatabase(
            configuration: server.configuration(database: name), name: name, socketFolder: server.socketFolder)
    }

    /// A database on the nodes of ``CitusCluster``.
    package static func distributed() async throws -> SharedDatabase {
        let configuration = try await CitusCluster.freshDatabase()
        return SharedDatabase(
            configuration: configuration, name: configuration.database ?? "",
            socketFolder: CitusCluster.socketFolder("coordinator"))
    }

    /// The environment that selects this database for a command.
    package func environment(user: String = "subledger") -> [String: String] {
        ["SUBLEDGER_DATABASE_URL": "postgres:///\(name)?host=\(socketFolder)&user=\(user)"]
    }

    /// Starts `subledger serve` with these roles.
    package func server(
        _ roles: String, user: String = "subledger", more: [String: String] = [:], publicPort: Int = 0,
        logFile: String? = nil
    ) throws -> ServerProcess {
        try ServerProcess(
            dataFolder: TestFolder.root + "/subledger-shared-none",
            environment: environment(user: user).merging(["SUBLEDGER_ROLES": roles, "SUBLEDGER_OCSP": "off"]) { $1 }
                .merging(more) { $1 },
            publicPort: publicPort, logFile: logFile)
    }

    /// Drops the database and ends its connections. PostgreSQL writes and syncs all files of the cluster before, which
    /// takes more than a minute on a disk that is busy with builds.
    package func drop() async throws {
        let connection = try await TestCluster.connect(configuration.with(database: "postgres"))
        try await connection.script("drop database \(name) with (force)", deadline: .now + .seconds(240))
        await connection.close()
    }

    /// Creates a token for the private listeners of its servers.
    package func token(_ scope: TokenScope = .read) async throws -> String {
        var random = SystemRandomNumberGenerator()
        let token = AccessToken(using: &random)
        let owner = try await TestCluster.connect(configuration)
        try await TokenStore(connection: owner).record(token, scope: scope, name: "test")
        await owner.close()
        return token.text
    }

    /// Runs SQL as the owner of the database.
    package func script(_ sql: String) async throws {
        let connection = try await TestCluster.connect(configuration)
        try await connection.script(sql, deadline: .now + .seconds(20))
        await connection.close()
    }

    /// The first column of a query, as text.
    package func lines(_ sql: StaticString) async throws -> [String] {
        let connection = try await TestCluster.connect(configuration)
        let rows = try await connection.query(
            Statement("lines", SQL(stringLiteral: sql)), deadline: .now + .seconds(20))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }
}
