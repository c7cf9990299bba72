import ArgumentParser
import HTTPServer
import Logging
import Metrics
import ServiceLifecycle

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

    @Option(
        help: ArgumentHelp(
            """
            The parts of the server that this process runs, with commas: receiver takes notifications, projector folds \
            them, reader answers backends. [SUBLEDGER_ROLES; all of them]
            """, valueName: "names"))
    var roles: String?

    @Option(help: "Address for Apple's notifications. [SUBLEDGER_PUBLIC_HOST; 0.0.0.0]")
    var publicHost: String?

    @Option(help: "Its port; 0 takes a free one. [SUBLEDGER_PUBLIC_PORT; 8080]")
    var publicPort: String?

    @Option(
        help: ArgumentHelp(
            """
            Its certificate chain, PEM, for HTTPS; read anew when it changes, and on SIGHUP. \
            [SUBLEDGER_PUBLIC_TLS_CERTIFICATE]
            """, valueName: "file"))
    var publicTlsCertificate: String?

    @Option(help: ArgumentHelp("The key of that, PEM. [SUBLEDGER_PUBLIC_TLS_KEY]", valueName: "file"))
    var publicTlsKey: String?

    @Option(
        help: ArgumentHelp(
            """
            Connections of one address beyond which its own idle ones are closed; raise it behind a proxy. \
            [SUBLEDGER_PUBLIC_CONNECTIONS_PER_ADDRESS; \(Limits.publicConnectionsPerAddress)]
            """, valueName: "number"))
    var publicConnectionsPerAddress: String?

    @Option(help: "Address for backends and operators. [SUBLEDGER_PRIVATE_HOST; 127.0.0.1]")
    var privateHost: String?

    @Option(help: "Its port; 0 takes a free one. [SUBLEDGER_PRIVATE_PORT; 8081]")
    var privatePort: String?

    @Option(
        help: ArgumentHelp("As --public-tls-certificate. [SUBLEDGER_PRIVATE_TLS_CERTIFICATE]", valueName: "file"))
    var privateTlsCertificate: String?

    @Option(help: ArgumentHelp("The key of that, PEM. [SUBLEDGER_PRIVATE_TLS_KEY]", valueName: "file"))
    var privateTlsKey: String?

    @Option(
        help: ArgumentHelp(
            """
            As --public-connections-per-address. \
            [SUBLEDGER_PRIVATE_CONNECTIONS_PER_ADDRESS; \(Limits.privateConnectionsPerAddress)]
            """, valueName: "number"))
    var privateConnectionsPerAddress: String?

    func run() async throws {
        try await reportingFailures {
            let flags = database.values.merging(
                settings([
                    (["apps", "file"], appsFile),
                    (["ocsp"], ocsp), (["roles"], roles),
                    (["root", "files"], root.isEmpty ? nil : root.joined(separator: ",")),
                    (["public", "host"], publicHost), (["public", "port"], publicPort),
                    (["public", "tls", "certificate"], publicTlsCertificate),
                    (["public", "tls", "key"], publicTlsKey),
                    (["public", "connections", "per", "address"], publicConnectionsPerAddress),
                    (["private", "connections", "per", "address"], privateConnectionsPerAddress),
                    (["private", "host"], privateHost), (["private", "port"], privatePort),
                    (["private", "tls", "certificate"], privateTlsCertificate),
                    (["private", "tls", "key"], privateTlsKey),
                ]), uniquingKeysWith: { first, _ in first })
            try await serve(Settings(flags: flags))
        }
    }

    private func serve(_ settings: Settings) async throws {
        let logger = try settings.logger()
        try settings.checkFilesAreReadable()
        let roles = try settings.roles()
        let configured = try settings.apps()
        let receiving = ReceiverServices.Settings(
            apps: configured, address: try settings.publicAddress(), roots: try settings.roots(),
            revocationMode: try settings.revocationMode(),
            identity: try settings.publicTLS().map { try TLSIdentity(files: $0, logger: logger) },
            connectionsPerAddress: try settings.publicConnectionsPerAddress())
        let privateIdentity = try settings.privateTLS().map { try TLSIdentity(files: $0, logger: logger) }
        let privateAddress = try settings.privateAddress()
        let privatePerAddress = try settings.privateConnectionsPerAddress()
        try settings.leaveRoot(logger: logger)
        if roles.contains(.receiver) {
            ReceiverServices.warn(about: configured, rootFiles: settings.rootFiles, logger: logger)
        }
        let metrics = MetricsRegistry()
        MetricsSystem.bootstrap(metrics)
        Gauge(label: "subledger_build_info", dimensions: [("version", Subledger.configuration.version)]).record(1)

        let opened = try await Database.openInterruptibly(
            settings, checking: roles.flatMap(\.databaseRoles), logger: logger)
        guard let database = opened else { return }
        if database.durability.synchronousCommitIsOff {
            logger.warning("the database's synchronous_commit is off; it is switched on for our own sessions")
        }
        let appending = try await AppenderServices.make(
            roles, apps: configured, database: database, logger: logger)
        var receiver: ReceiverServices?
        if roles.contains(.receiver), let appending {
            receiver = try await ReceiverServices(
                receiving, appender: appending.appender, health: appending.health, database: database, logger: logger)
        }
        let projector =
            roles.contains(.projector)
            ? ProjectorServices(database: database, logger: logger) : nil
        let backends = PrivateServices(
            at: privateAddress, connectionsPerAddress: privatePerAddress, identity: privateIdentity, roles: roles,
            database: database, appender: appending?.appender,
            health: (appending?.health ?? []) + [projector.map { .projection($0.projector) }].compactMap(\.self),
            apps: Set(configured.map(\.bundleId)), metrics: metrics, logger: logger)
        let readerWatch = database.embedded.map { _ in ReaderWatch(owner: database.owner, logger: logger) }
        let pools =
            [appending?.pool, receiver?.healthPool, readerWatch?.pool].compactMap(\.self) + (projector?.pools ?? [])
            + backends.pools

        // In the order of their start; they end in the opposite order, each when it has finished its work. A process
        // that does not have all roles has not all of them.
        let services: [(any Service)?] = [
            DatabaseService(embedded: database.embedded, pools: pools),
            CertificateService(
                identities: [roles.contains(.receiver) ? receiving.identity : nil, privateIdentity].compactMap(\.self)),
            readerWatch,
            appending?.durability,
            projector?.service,
            appending?.service,
            backends.listener,
            backends.changes,
            receiver?.revocation,
            receiver?.listener,
        ]
        var group = ServiceGroupConfiguration(
            services: services.compactMap(\.self), gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger.atLeast(.warning))
        // Longer than any answer takes (a second for a body that is on its way, 10 s for its commit): who is still
        // connected then is not waiting for one.
        group.maximumGracefulShutdownDuration = .seconds(30)
        try await ServiceGroup(configuration: group).run()
        logger.info("stopped")
    }
}

extension ListenAddress {
    /// The same address with the port that was really taken.
    func on(_ port: Int) -> ListenAddress { ListenAddress(host: host, port: port) }
}

extension Logger {
    /// For libraries whose own progress an operator need not read.
    fileprivate func atLeast(_ level: Logger.Level) -> Logger {
        var logger = self
        logger.logLevel = max(logLevel, level)
        return logger
    }
}
