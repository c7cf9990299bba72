import AppStore
import ArgumentParser
import EventLog
import Logging
import Postgres
import Server
import StoreClient

/// The flags of a command that works with the configured apps and their stores.
struct StoreFlags: ParsableArguments {
    @Option(
        help: ArgumentHelp("JSON file with the apps, as for `serve`. [SUBLEDGER_APPS_FILE]", valueName: "file"))
    var appsFile: String?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust in addition to Apple's, as for `serve`. Repeatable. \
            [SUBLEDGER_ROOT_FILES, comma-separated]
            """, valueName: "file"))
    var root: [String] = []

    @OptionGroup var database: DatabaseFlags

    var merged: Settings {
        let own = settings([
            (["apps", "file"], appsFile), (["root", "files"], root.isEmpty ? nil : root.joined(separator: ",")),
        ])
        return Settings(flags: database.values.merging(own) { first, _ in first })
    }
}

/// The flags of a command that asks the App Store Server API about an app.
struct StoreSessionFlags: ParsableArguments {
    @Option(help: ArgumentHelp("The app.", valueName: "bundle-id"))
    var app: String

    @OptionGroup var store: StoreFlags
}

/// What a command has that asks the App Store about an app and appends what it answers.
struct StoreSession {
    let app: App
    let store: StoreServices
    let verifier: NotificationVerifier
    /// With the rights of `subledger_poller`.
    let poller: PostgresPool
    /// Where the bodies of past months are.
    let archive: BodyArchive
    let appender: Appender
    let logger: Logger

    /// Runs the body with the database of a server, which may keep running.
    static func with<Value: Sendable>(
        _ flags: StoreSessionFlags, _ body: (StoreSession) async throws -> Value
    ) async throws -> Value {
        let settings = flags.store.merged
        let app = try settings.app(flags.app)
        guard app.serverAPIKey != nil else {
            throw SettingError(description: "app \(app.bundleId) has no serverAPI key in the apps file")
        }
        return try await with(app, settings, body)
    }

    /// The same for an app that may have no key.
    static func with<Value: Sendable>(
        _ app: App, _ settings: Settings, _ body: (StoreSession) async throws -> Value
    ) async throws -> Value {
        let logger = try settings.logger()
        let roots = try settings.roots()
        let store = StoreServices(
            addresses: try settings.receiptAddresses(), apiAddresses: try settings.serverAPIAddresses(),
            now: SystemClock.now, logger: logger)
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await Database.withExisting(settings, logger: logger) { database in
                    try await run(app, store, roots, database, logger, body)
                })
        } catch {
            result = .failure(error)
        }
        // Also after an error: the client must not be released with open connections.
        await store.service.transport.shutDown()
        return try result.get()
    }

    private static func run<Value: Sendable>(
        _ app: App, _ store: StoreServices, _ roots: RootCertificates, _ database: Database, _ logger: Logger,
        _ body: (StoreSession) async throws -> Value
    ) async throws -> Value {
        try await database.check([.poller, .receiver])
        let poller = database.pool(.poller, limit: 4, logger: logger)
        let result: Result<Value, any Error>
        do {
            result = .success(
                try await database.withAppender(logger: logger) { appender in
                    try await body(
                        StoreSession(
                            app: app, store: store,
                            verifier: NotificationVerifier(
                                apps: Apps([app]), signatures: SignatureVerifier(roots: roots)),
                            poller: poller, archive: database.archive, appender: appender, logger: logger))
                })
        } catch {
            result = .failure(error)
        }
        await poller.close()
        return try result.get()
    }

    static func reportRejectedKey() throws -> Never {
        printError("subledger: the App Store rejects the key of the app")
        throw ExitCode.configurationError
    }
}

extension Settings {
    /// The configured app.
    func app(_ bundleId: String) throws -> App {
        guard let app = try apps().first(where: { $0.bundleId == bundleId }) else {
            throw SettingError(description: "app \(bundleId) is not configured")
        }
        return app
    }
}
