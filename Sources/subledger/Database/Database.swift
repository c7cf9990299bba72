import EventLog
import Logging
import Postgres
import Projector

/// The database that the settings name, up to date and ready for work.
struct Database {
    /// Connects as the owner of the schema; roles are taken on from there.
    let owner: ConnectionConfiguration
    /// Nil with a database URL.
    let embedded: EmbeddedServer?
    let outcome: Schema.Outcome
    let durability: Durability.Settings

    private static let embeddedName = "subledger"

    /// Starts the private server if there is no URL, and brings the schema up to date.
    static func open(_ settings: Settings, logger: Logger) async throws -> Database {
        if let owner = try named(settings) { return try await prepare(owner, embedded: nil) }
        let server = try await startServer(folder: settings.dataFolder, logger: logger)
        do {
            try await server.createDatabase(embeddedName)
            return try await prepare(server.configuration(database: embeddedName), embedded: server)
        } catch {
            await server.stop()
            throw error
        }
    }

    private static func startServer(folder: String, logger: Logger) async throws -> EmbeddedServer {
        try await EmbeddedServer.start(
            folder: folder, logins: ReaderLimits.logins, settings: ReaderLimits.serverSettings, logger: logger)
    }

    /// What a database URL names; nil without one.
    private static func named(_ settings: Settings) throws -> ConnectionConfiguration? {
        guard let url = settings.databaseURL else { return nil }
        let owner = ConnectionConfiguration(url: url)
        guard owner.isValid else {
            throw SettingError(
                description: "the database URL is not of the form postgres://user:password@host:port/database")
        }
        return owner
    }

    /// Runs a command on a database that is there and up to date, beside a server that may be running on it: a private
    /// server that runs is used, one that does not is started for the command alone.
    static func withExisting<Value>(
        _ settings: Settings, logger: Logger, _ command: (Database) async throws -> Value
    ) async throws -> Value {
        if let owner = try named(settings) {
            return try await command(try await existing(owner, embedded: nil))
        }
        let folder = settings.dataFolder
        if let owner = await EmbeddedServer.running(folder: folder, database: embeddedName) {
            return try await command(try await existing(owner, embedded: nil))
        }
        guard EmbeddedServer.hasCluster(folder: folder) else {
            throw SettingError(
                description: "there is no database in \(folder): name its folder, or give a database URL")
        }
        let server = try await startServer(folder: folder, logger: logger)
        do {
            let owner = server.configuration(database: embeddedName)
            let value = try await command(try await existing(owner, embedded: server))
            await server.stop()
            return value
        } catch {
            await server.stop()
            throw error
        }
    }

    private static func existing(
        _ owner: ConnectionConfiguration, embedded: EmbeddedServer?
    ) async throws -> Database {
        let connection = try await PostgresConnection.connect(owner, deadline: .now + Limits.connectWaitMax)
        do {
            let durability = try await Durability.check(connection)
            try await Schema.check(connection)
            await connection.close()
            return Database(owner: owner, embedded: embedded, outcome: .upToDate, durability: durability)
        } catch {
            await connection.close()
            throw error
        }
    }

    private static func prepare(
        _ owner: ConnectionConfiguration, embedded: EmbeddedServer?
    ) async throws -> Database {
        let connection = try await PostgresConnection.connect(owner, deadline: .now + Limits.connectWaitMax)
        do {
            let durability = try await Durability.check(connection)
            let outcome = try await Schema.migrate(connection)
            if embedded != nil {
                try await connection.script(ReaderLimits.script, deadline: .now + Limits.connectWaitMax)
            }
            await connection.close()
            return Database(owner: owner, embedded: embedded, outcome: outcome, durability: durability)
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Takes on each of the roles once, so that a missing grant is reported at start and not by every request.
    func check(_ roles: some Sequence<Role>) async throws {
        for role in roles {
            let connection = try await PostgresConnection.connect(
                configuration(role), deadline: .now + Limits.connectWaitMax)
            await connection.close()
        }
    }

    /// Does what must succeed before there are services; the private server does not outlive its failure.
    func stoppingOnError<Value>(_ start: () async throws -> Value) async throws -> Value {
        do {
            return try await start()
        } catch {
            await embedded?.stop()
            throw error
        }
    }

    /// A pool that may do what the role may do.
    func pool(_ role: Role, limit: Int, logger: Logger) -> PostgresPool {
        PostgresPool(configuration(role), limit: limit, logger: logger)
    }

    /// Lends a connection that may do what the role may do.
    func withConnection<Value>(
        _ role: Role, _ command: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let connection = try await PostgresConnection.connect(
            configuration(role), deadline: .now + Limits.connectWaitMax)
        do {
            let value = try await command(connection)
            await connection.close()
            return value
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Whether sessions of a reader's user may take on the receiver's role, in a database that can be written.
    func readerMayAppend() async throws -> Bool {
        try await withConnection(.reader) { connection in
            let rows = try await connection.query(
                Statement(
                    "reader_may_append",
                    "select pg_has_role(session_user, 'subledger_receiver', 'member') and not pg_is_in_recovery()"),
                deadline: .now + Limits.connectWaitMax)
            return try rows[0].value(at: 0)
        }
    }

    func configuration(_ role: Role) -> ConnectionConfiguration {
        var configuration = owner.with(role: "subledger_\(role.rawValue)")
        configuration.applicationName = "subledger \(role.rawValue)"
        // Everything is looked up by key. Plans are kept, and one made while a table was small must not read it all
        // when it has grown.
        configuration.sessionSettings["enable_seqscan"] = "off"
        if role == .receiver { configuration.sessionSettings.merge(EventLogWriter.planSettings) { $1 } }
        if role == .projector { configuration.sessionSettings.merge(Projector.planSettings) { $1 } }
        if durability.synchronousCommitIsOff { configuration.sessionSettings["synchronous_commit"] = "on" }
        return configuration
    }

    enum Role: String, CaseIterable {
        case receiver, projector, reader, products, authenticator
    }

    enum Limits {
        /// Longest wait for the first connection.
        static let connectWaitMax = Duration.seconds(30)
    }
}
