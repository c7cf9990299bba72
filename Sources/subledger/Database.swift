import EventLog
import Logging
import Postgres

/// The database that the settings name, up to date and ready for work.
struct Database {
    /// Connects as the owner of the schema; roles are taken on from there.
    let owner: ConnectionConfiguration
    /// Nil with a database URL.
    let embedded: EmbeddedServer?
    let outcome: Schema.Outcome

    private static let embeddedName = "subledger"

    /// Starts the private server if there is no URL, and brings the schema up to date.
    static func open(_ settings: Settings, logger: Logger) async throws -> Database {
        if let url = settings.databaseURL {
            let owner = ConnectionConfiguration(url: url)
            guard owner.isValid else {
                throw SettingError(
                    description: "the database URL is not of the form postgres://user:password@host:port/database")
            }
            return Database(owner: owner, embedded: nil, outcome: try await migrate(owner))
        }
        let server = try await EmbeddedServer.start(folder: settings.dataFolder, logger: logger)
        do {
            try await server.createDatabase(embeddedName)
            let owner = server.configuration(database: embeddedName)
            let outcome = try await migrate(owner)
            try await letRolesLogIn(owner)
            return Database(owner: owner, embedded: server, outcome: outcome)
        } catch {
            await server.stop()
            throw error
        }
    }

    private static func migrate(_ owner: ConnectionConfiguration) async throws -> Schema.Outcome {
        let connection = try await PostgresConnection.connect(owner, deadline: .now + Limits.connectWaitMax)
        do {
            let outcome = try await Schema.migrate(connection)
            await connection.close()
            return outcome
        } catch {
            await connection.close()
            throw error
        }
    }

    /// On the private server whoever can reach the socket is the operator, so `psql -U subledger_reader` should do.
    private static func letRolesLogIn(_ owner: ConnectionConfiguration) async throws {
        let connection = try await PostgresConnection.connect(owner, deadline: .now + Limits.connectWaitMax)
        try await connection.script(
            "alter role subledger_reader login; alter role subledger_receiver login; alter role subledger_projector login;",
            deadline: .now + Limits.connectWaitMax)
        await connection.close()
    }

    /// A pool that may do what the role may do.
    func pool(_ role: Role, limit: Int, logger: Logger) -> PostgresPool {
        PostgresPool(configuration(role), limit: limit, logger: logger)
    }

    func configuration(_ role: Role) -> ConnectionConfiguration {
        var configuration = owner.with(role: "subledger_\(role.rawValue)")
        configuration.applicationName = "subledger \(role.rawValue)"
        // Everything is looked up by key. Plans are kept, and one made while a table was small must not read it all
        // when it has grown.
        configuration.sessionSettings["enable_seqscan"] = "off"
        return configuration
    }

    enum Role: String {
        case receiver, projector, reader
    }

    enum Limits {
        /// Longest wait for the first connection.
        static let connectWaitMax = Duration.seconds(30)
    }
}
