import EventLog
import Logging
import Postgres
import Projector

/// The configured database, with an up-to-date schema.
package struct Database {
    /// Connects as the owner of the schema; ``configuration(_:)`` derives the configurations of the other roles from
    /// it.
    package let owner: ConnectionConfiguration
    /// The private PostgreSQL; nil with a database URL.
    package let embedded: EmbeddedServer?
    package let outcome: Schema.Outcome
    package let durability: Durability.Settings
    /// Whether the tables are distributed over several nodes, see ``Distribution``.
    package let isDistributed: Bool
    /// Where the bodies of past months are.
    package let archive: BodyArchive
    /// See ``pool(for:logger:)``.
    let pools = SharedPools()

    package static let embeddedName = "subledger"

    /// Starts the private PostgreSQL if there is no URL, and migrates the schema.
    ///
    /// - Parameter report: Called with each step of a migration; nil logs them.
    package static func open(
        _ settings: Settings, logger: Logger, report: (@Sendable (MigrationProgress) -> Void)? = nil
    ) async throws -> Database {
        let report =
            report ?? { logger.notice("schema migration", metadata: ["schema.progress": "\($0)"]) }
        let basis = try settings.durabilityBasis()
        if let owner = try named(settings) {
            return try await prepare(owner, basis, embedded: nil, settings.archive, report)
        }
        let server = try await startServer(folder: settings.dataFolder, logger: logger)
        do {
            try await server.createDatabase(embeddedName)
            return try await prepare(
                server.configuration(database: embeddedName), basis, embedded: server, settings.archive, report)
        } catch {
            await server.stop()
            throw error
        }
    }

    package static func startServer(folder: String, logger: Logger) async throws -> EmbeddedServer {
        try await EmbeddedServer.start(
            folder: folder, logins: ReaderLimits.logins, settings: ReaderLimits.serverSettings, logger: logger)
    }

    /// The database of the configured URL; nil without one.
    private static func named(_ settings: Settings) throws -> ConnectionConfiguration? {
        guard let url = try settings.databaseURL() else { return nil }
        let owner = ConnectionConfiguration(url: url)
        guard owner.isValid else {
            throw SettingError(
                description: "the database URL is not of the form postgres://user:password@host:port/database")
        }
        return owner
    }

    /// Runs a command on an existing, up-to-date database, which a server may be using. A private PostgreSQL is used if
    /// it is running, and is otherwise started for this command.
    package static func withExisting<Value>(
        _ settings: Settings, logger: Logger, _ command: (Database) async throws -> Value
    ) async throws -> Value {
        let basis = try settings.durabilityBasis()
        if let owner = try named(settings) {
            return try await command(try await existing(owner, basis, embedded: nil, settings.archive))
        }
        let folder = settings.dataFolder
        if let owner = await EmbeddedServer.running(folder: folder, database: embeddedName) {
            return try await command(try await existing(owner, basis, embedded: nil, settings.archive))
        }
        guard EmbeddedServer.hasCluster(folder: folder) else {
            throw SettingError(
                description: "no database in \(folder): set its data folder or a database URL")
        }
        let server = try await startServer(folder: folder, logger: logger)
        do {
            let owner = server.configuration(database: embeddedName)
            let value = try await command(try await existing(owner, basis, embedded: server, settings.archive))
            await server.stop()
            return value
        } catch {
            await server.stop()
            throw error
        }
    }

    /// What a migration would do. Changes nothing; a private PostgreSQL that does not run is started for it.
    package static func plan(_ settings: Settings, logger: Logger) async throws -> MigrationPlan {
        if let owner = try named(settings) { return try await plan(owner) }
        let folder = settings.dataFolder
        if let owner = await EmbeddedServer.running(folder: folder, database: embeddedName) {
            return try await plan(owner)
        }
        guard EmbeddedServer.hasCluster(folder: folder) else { return .new }
        let server = try await startServer(folder: folder, logger: logger)
        do {
            let plan = try await plan(server.configuration(database: embeddedName))
            await server.stop()
            return plan
        } catch {
            await server.stop()
            throw error
        }
    }

    private static func plan(_ owner: ConnectionConfiguration) async throws -> MigrationPlan {
        try await withConnection(owner) { try await Schema.plan($0) }
    }

    private static func existing(
        _ owner: ConnectionConfiguration, _ basis: Durability.Basis, embedded: EmbeddedServer?, _ archive: BodyArchive
    ) async throws -> Database {
        try await withConnection(owner) { connection in
            let durability = try await Durability.check(connection, basis)
            try await Schema.check(connection)
            return Database(
                owner: owner, embedded: embedded, outcome: .upToDate, durability: durability,
                isDistributed: try await Distribution.isInUse(connection), archive: archive)
        }
    }

    private static func prepare(
        _ owner: ConnectionConfiguration, _ basis: Durability.Basis, embedded: EmbeddedServer?, _ archive: BodyArchive,
        _ report: @escaping @Sendable (MigrationProgress) -> Void
    ) async throws -> Database {
        try await withConnection(owner) { connection in
            let durability = try await Durability.check(connection, basis)
            let watch = MigrationWatch(configuration: owner, backendPID: connection.backendPID)
            let outcome = try await watch.during(report) { () async throws(MigrationError) in
                try await Schema.migrate(connection, report: report)
            }
            if embedded != nil {
                try await connection.script(ReaderLimits.script, deadline: .now + Limits.connectWaitMax)
            }
            return Database(
                owner: owner, embedded: embedded, outcome: outcome, durability: durability,
                isDistributed: try await Distribution.isInUse(connection), archive: archive)
        }
    }

    /// Connects once with each of the roles, so that a missing grant is reported at start and not by every request.
    package func check(_ roles: some Sequence<Role>) async throws {
        for role in roles { try await withConnection(role) { _ in } }
    }

    /// Runs a step of the startup and stops the private PostgreSQL if it fails.
    package func stoppingOnError<Value>(_ start: () async throws -> Value) async throws -> Value {
        do {
            return try await start()
        } catch {
            await embedded?.stop()
            throw error
        }
    }

    /// Returns a pool whose connections have the role's privileges.
    package func pool(_ role: Role, limit: Int, logger: Logger) -> PostgresPool {
        PostgresPool(configuration(role), limit: limit, logger: logger)
    }

    /// Runs a command on a connection that has the role's privileges.
    package func withConnection<Value>(
        _ role: Role, _ command: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await Self.withConnection(configuration(role), command)
    }

    /// Runs a command on several connections that have the role's privileges.
    package func withConnections<Value>(
        _ role: Role, count: Int, _ command: ([PostgresConnection]) async throws -> Value
    ) async throws -> Value {
        var connections: [PostgresConnection] = []
        let outcome: Result<Value, any Error>
        do {
            for _ in 0..<count {
                connections.append(
                    try await PostgresConnection.connect(
                        configuration(role), deadline: .now + Limits.connectWaitMax))
            }
            outcome = .success(try await command(connections))
        } catch {
            outcome = .failure(error)
        }
        for connection in connections { await connection.close() }
        return try outcome.get()
    }

    /// Runs a command on a connection of the owner of the schema, who may change what no role may.
    package func withOwner<Value>(_ command: (PostgresConnection) async throws -> Value) async throws -> Value {
        try await Self.withConnection(owner, command)
    }

    /// Runs the body with a connection for figures over the whole log, which may take minutes.
    package func withFigures<Value>(
        _ command: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        var configuration = figures
        configuration.sessionSettings["statement_timeout"] = "0"
        return try await Self.withConnection(configuration, command)
    }

    private static func withConnection<Value>(
        _ configuration: ConnectionConfiguration, _ command: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let connection = try await PostgresConnection.connect(
            configuration, deadline: .now + Limits.connectWaitMax)
        do {
            let value = try await command(connection)
            await connection.close()
            return value
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Whether the reader's database user is a member of the receiver role and the database is writable.
    package func readerMayAppend() async throws -> Bool {
        try await withConnection(.reader) { connection in
            let rows = try await connection.query(
                Statement(
                    "reader_may_append",
                    "select pg_has_role(session_user, 'subledger_receiver', 'member') and not pg_is_in_recovery()"),
                deadline: .now + Limits.connectWaitMax)
            return try rows[0].value(at: 0)
        }
    }

    package func configuration(_ role: Role) -> ConnectionConfiguration {
        var configuration = owner.with(role: "subledger_\(role.rawValue)")
        configuration.applicationName = "subledger \(role.rawValue)"
        // Queries look rows up by key. Plans are cached, and a plan made for a small table must not scan the whole
        // table after it has grown.
        configuration.sessionSettings["enable_seqscan"] = "off"
        // Lookups take less time than compiling them does, which the planner cannot know without the costs of scans.
        if role == .reader { configuration.sessionSettings["jit"] = "off" }
        if role == .receiver { configuration.sessionSettings.merge(EventLogWriter.planSettings) { $1 } }
        if role == .projector { configuration.sessionSettings.merge(Projector.planSettings) { $1 } }
        // The node of a statement depends on the values of its parameters.
        if isDistributed { configuration.sessionSettings["plan_cache_mode"] = "force_custom_plan" }
        if durability.synchronousCommitIsOff { configuration.sessionSettings["synchronous_commit"] = "on" }
        return configuration
    }

    /// Reads figures as an analyst does, within a limit. A reader may read the same views, so no further grant is needed.
    package var figures: ConnectionConfiguration {
        var configuration = configuration(.reader)
        configuration.applicationName = "subledger figures"
        configuration.sessionSettings.merge(Self.figureSettings) { $1 }
        return configuration
    }

    /// Those of role `subledger_analyst`, which apply only to its own logins, with a shorter limit: see
    /// ``Readers/FigureReader``.
    private static let figureSettings = [
        "default_transaction_read_only": "on", "enable_seqscan": "on", "jit": "off", "statement_timeout": "5s",
        "work_mem": "64MB",
    ]

    package enum Role: String, CaseIterable {
        case receiver, projector, reader, products, authenticator, poller
    }

    package enum Limits {
        /// Longest wait for a connection and its first statements.
        package static let connectWaitMax = Duration.seconds(30)
    }
}

extension DatabaseFlags {
    /// Runs a command on a connection of its own to an existing database.
    package func withConnection<Value>(
        _ role: Database.Role, _ command: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let settings = Settings(flags: values)
        return try await Database.withExisting(settings, logger: try settings.logger()) { database in
            try await database.withConnection(role, command)
        }
    }
}
