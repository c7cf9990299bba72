import EventLog
import Foundation
import Logging
import Postgres
import TestSupport

/// The PostgreSQL server of a storm. The servers under test connect through proxies, with a password.
struct StormDatabase: Sendable {
    static let name = "storm"
    let server: EmbeddedServer
    let folder: String

    static func start(folder: String) async throws -> StormDatabase {
        let server = try await EmbeddedServer.start(
            folder: folder,
            settings: [
                // Small enough for a disk of a few hundred megabytes, which can also be filled quickly.
                "max_wal_size": "64MB", "min_wal_size": "32MB",
                // Two servers with all roles have up to 30 each, beside the storm's own and those of hostile readers.
                "max_connections": "100",
            ],
            logger: Logger(label: "storm", factory: { _ in SwiftLogNoOpLogHandler() }))
        try await server.createDatabase(name)
        let database = StormDatabase(server: server, folder: folder)
        try await database.makeOwner()
        return database
    }

    /// Creates the database's owner, which is not a superuser. It must log in with its password, like every login except the
    /// private server's own.
    private func makeOwner() async throws {
        try await script(
            """
            create role storm login createrole password '\(Canary.password)';
            alter database \(Self.name) owner to storm;
            """)
    }

    var socket: String { server.socketFolder + "/.s.PGSQL.5432" }

    /// PostgreSQL's own log.
    var log: String { (try? String(contentsOfFile: folder + "/postgres.log", encoding: .utf8)) ?? "" }

    /// Keeps ``Started`` up to date with the server's process over restarts.
    func trackProcess() async {
        var noted: Int32?
        while !Task.isCancelled {
            let current = await server.postmasterPID
            if current != noted {
                if let noted { Started.remove(noted) }
                if let current { Started.add(current) }
                noted = current
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    /// A superuser connection that bypasses the proxies.
    func connect(_ name: String = Self.name) async throws -> PostgresConnection {
        try await PostgresConnection.connect(server.configuration(database: name), deadline: .now + .seconds(10))
    }

    func script(_ sql: String) async throws {
        let connection = try await connect()
        do {
            try await connection.script(sql, deadline: .now + .seconds(30))
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
    }

    func rows(
        _ statement: Statement, _ parameters: [Parameter] = [], in name: String = Self.name
    ) async throws -> RowSet {
        let connection = try await connect(name)
        do {
            let rows = try await connection.query(statement, parameters, deadline: .now + .seconds(60))
            await connection.close()
            return rows
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Creates a token for the private listeners.
    func token(_ scope: TokenScope = .link) async throws -> String {
        var random = SystemRandomNumberGenerator()
        let token = AccessToken(using: &random)
        let owner = try await connect()
        try await TokenStore(connection: owner).record(token, scope: scope, name: "storm")
        await owner.close()
        return token.text
    }

    /// The backend processes of the servers' connections.
    func backends() async throws -> [Int32] {
        let rows = try await self.rows(
            Statement(
                "storm_backends",
                """
                select pid
                from pg_stat_activity
                where usename = 'storm'
                order by pid
                """))
        return try rows.map { try $0.value(at: 0) }
    }
}

/// Texts that must stay out of logs, metrics and answers.
enum Canary {
    /// Contained in all canaries except the account tokens, which the simulator generates.
    static let mark = "canary-"
    static let secret = mark + "shared-secret-7f3a9c51"
    static let password = mark + "database-password-51d2e8"
    static let garbage = mark + "body"
}
