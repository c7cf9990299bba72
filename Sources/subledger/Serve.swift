import AppStore
import ArgumentParser
import EventLog
import HTTPServer
import Logging
import Metrics
import Postgres
import Projector
import ServiceLifecycle
import Synchronization
import UnixSignals

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Take notifications, fold them, and answer readers.",
        discussion: """
            Flags come before environment variables. Apps are named by SUBLEDGER_APPS_FILE, or a single one by \
            SUBLEDGER_APP_BUNDLE_ID, with SUBLEDGER_APP_APPLE_ID, SUBLEDGER_APP_SHARED_SECRET (version 1) and \
            SUBLEDGER_APP_ENVIRONMENTS (Production,Sandbox) as needed. SIGTERM and Ctrl-C end the server once the \
            requests in flight are answered.
            """)

    @OptionGroup var database: DatabaseFlags

    @Option(
        help: ArgumentHelp(
            "JSON file with [{\"bundleId\": …, \"appAppleId\": …, \"sharedSecrets\": [\"…\"]}]. [SUBLEDGER_APPS_FILE]",
            valueName: "file"))
    var appsFile: String?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust beside Apple's own, DER or PEM; for tests. May be repeated. \
            [SUBLEDGER_ROOT_FILES, with commas]
            """, valueName: "file"))
    var root: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            Whether to ask if certificates of signed notifications were revoked: off; background, which never delays \
            a notification; or required, which refuses (503) while nobody answers. [SUBLEDGER_OCSP; background]
            """, valueName: "mode"))
    var ocsp: String?

    @Option(help: "Address for Apple's notifications. [SUBLEDGER_PUBLIC_HOST; 0.0.0.0]")
    var publicHost: String?

    @Option(help: "Its port; 0 takes a free one. [SUBLEDGER_PUBLIC_PORT; 8080]")
    var publicPort: String?

    @Option(help: "Address for backends and operators. [SUBLEDGER_PRIVATE_HOST; 127.0.0.1]")
    var privateHost: String?

    @Option(help: "Its port; 0 takes a free one. [SUBLEDGER_PRIVATE_PORT; 8081]")
    var privatePort: String?

    func run() async throws {
        try await reportingFailures {
            let flags = database.values.merging(
                settings([
                    (["apps", "file"], appsFile),
                    (["ocsp"], ocsp),
                    (["root", "files"], root.isEmpty ? nil : root.joined(separator: ",")),
                    (["public", "host"], publicHost), (["public", "port"], publicPort),
                    (["private", "host"], privateHost), (["private", "port"], privatePort),
                ]), uniquingKeysWith: { first, _ in first })
            try await serve(Settings(flags: flags))
        }
    }

    private func serve(_ settings: Settings) async throws {
        let logger = try settings.logger()
        let configured = try settings.apps()
        let publicAddress = try settings.publicAddress()
        let privateAddress = try settings.privateAddress()
        let roots = try settings.roots()
        let revocationMode = try settings.revocationMode()
        for file in settings.rootFiles {
            logger.warning(
                "a root certificate beside Apple's is trusted: whoever has its key can make up notifications",
                metadata: ["file": "\(file)"])
        }
        for app in configured where app.environments.contains(where: \.isLocal) {
            logger.warning(
                "notifications of Xcode or local tests are taken, which nobody signs: anybody can make them up",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        for app in configured where app.appAppleId == nil && app.environments.contains(.production) {
            logger.notice(
                "no appAppleId is configured, so signed notifications are told by their bundle id alone",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        if configured.isEmpty {
            logger.warning("no app is configured: every notification will be answered 503")
        }
        for app in configured where app.acceptsWithoutSecret {
            logger.warning(
                "notifications without a secret are taken: whoever knows the URL can make them up",
                metadata: ["stream.app": "\(app.bundleId)"])
        }
        let metrics = MetricsRegistry()
        MetricsSystem.bootstrap(metrics)
        Gauge(label: "subledger_build_info", dimensions: [("version", Subledger.configuration.version)]).record(1)

        guard let database = try await openUnlessStopped(settings, logger: logger) else { return }
        if database.durability.synchronousCommitIsOff {
            logger.warning("the database's synchronous_commit is off; it is switched on for our own sessions")
        }
        let receiverPool = database.pool(.receiver, limit: 2, logger: logger)
        let projectorPool = database.pool(.projector, limit: Projector.connectionsMax, logger: logger)
        let readerPool = database.pool(.reader, limit: 8, logger: logger)
        let productPool = database.pool(.products, limit: 1, logger: logger)
        // Anybody may ask for the public health check, and must not take a connection from the appender.
        let healthPool = database.pool(.receiver, limit: 1, logger: logger)
        let appender = Appender(pool: receiverPool, logger: logger)
        let log = LogReader(pool: readerPool)

        let verdicts = VerdictLog(pool: healthPool)
        let revocation = RevocationService(
            mode: revocationMode, revoked: try await database.stoppingOnError { try await verdicts.revoked() },
            verdicts: verdicts, logger: logger)

        // In the order of their start; they end in the opposite order, each when it has finished its work.
        let services: [any Service] = [
            DatabaseService(
                embedded: database.embedded,
                pools: [receiverPool, projectorPool, readerPool, productPool, healthPool]),
            ProjectorService(
                projector: Projector(
                    pool: projectorPool, listener: database.configuration(.projector), logger: logger)),
            Listener.private(
                at: privateAddress, log: log, subscriptions: SubscriptionReader(pool: readerPool),
                products: ProductStore(pool: productPool), metrics: metrics, now: Clock.now, logger: logger,
                onListening: { port in
                    logger.info("private listener is up", metadata: ["http.address": "\(privateAddress.on(port))"])
                }),
            AppenderService(appender: appender),
            revocation,
            Listener.public(
                at: publicAddress,
                verifier: NotificationVerifier(
                    apps: Apps(configured), signatures: SignatureVerifier(roots: roots),
                    revocation: revocation.checker),
                appender: appender,
                log: LogReader(pool: healthPool), now: Clock.now, logger: logger,
                onListening: { port in
                    logger.info("public listener is up", metadata: ["http.address": "\(publicAddress.on(port))"])
                }),
        ]
        var group = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger.atLeast(.warning))
        // Longer than any answer takes (15 s for a body, 10 s for its commit): who is still connected then is not
        // waiting for one.
        group.maximumGracefulShutdownDuration = .seconds(30)
        try await ServiceGroup(configuration: group).run()
        logger.info("stopped")
    }

    /// Nil if a signal came meanwhile; what had been started is stopped again.
    private func openUnlessStopped(_ settings: Settings, logger: Logger) async throws -> Database? {
        // With somebody else's database there is nothing to stop yet, and a signal may end the process as usual.
        let trapped: [UnixSignal] = settings.databaseURL == nil ? [.sigterm, .sigint] : []
        let early = EarlySignal()
        let watcher = Task { [signals = await UnixSignalsSequence(trapping: trapped)] in
            for await _ in signals { early.hasCome.store(true, ordering: .relaxed) }
        }
        defer { watcher.cancel() }
        let database = try await Database.open(settings, logger: logger)
        try await database.stoppingOnError { try await database.checkRoles() }
        guard !early.hasCome.load(ordering: .relaxed) else {
            await database.embedded?.stop()
            logger.info("stopped")
            return nil
        }
        return database
    }
}

/// A signal that came before there were services to stop.
private final class EarlySignal: Sendable {
    let hasCome = Atomic(false)
}

extension ListenAddress {
    fileprivate func on(_ port: Int) -> ListenAddress { ListenAddress(host: host, port: port) }
}

extension Logger {
    /// For libraries whose own progress an operator need not read.
    fileprivate func atLeast(_ level: Logger.Level) -> Logger {
        var logger = self
        logger.logLevel = max(logLevel, level)
        return logger
    }
}
