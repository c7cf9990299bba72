import ArgumentParser
import EventLog
import Foundation
import HTTPServer
import Logging
import Metrics
import Server
import ServiceLifecycle

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server: receive notifications, project them, check subscriptions, and serve readers.",
        discussion: """
            Flags take precedence over environment variables. Configure apps with SUBLEDGER_APPS_FILE, or a single one \
            with SUBLEDGER_APP_BUNDLE_ID and, as needed, SUBLEDGER_APP_APPLE_ID, SUBLEDGER_APP_SHARED_SECRET (version \
            1) and SUBLEDGER_APP_ENVIRONMENTS (Production,Sandbox). On SIGTERM or Ctrl-C, the server answers the \
            requests in flight and exits.
            """)

    @OptionGroup var database: DatabaseFlags
    @OptionGroup var headKey: HeadKeyFlags

    @Option(
        help: ArgumentHelp(
            "JSON file with [{\"bundleId\": …, \"appAppleId\": …, \"sharedSecrets\": [\"…\"]}, {\"packageName\": …, \"push\": …}]. [SUBLEDGER_APPS_FILE]",
            valueName: "file"))
    var appsFile: String?

    @Option(
        help: ArgumentHelp(
            """
            A root certificate to trust in addition to Apple's, DER or PEM; for tests. Repeatable. \
            [SUBLEDGER_ROOT_FILES, comma-separated]
            """, valueName: "file"))
    var root: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            Revocation checks of signing certificates: off; background, which never delays a notification; or \
            required, which rejects notifications with 503 while the status is unknown. [SUBLEDGER_OCSP; background]
            """, valueName: "mode"))
    var ocsp: String?

    @Option(
        help: ArgumentHelp(
            """
            The parts of the server that this process runs, comma-separated: receiver stores notifications, projector \
            folds them into projections, reader serves backends, poller asks the stores about subscriptions. \
            [SUBLEDGER_ROLES; all]
            """, valueName: "names"))
    var roles: String?

    @Option(help: "Address for the stores' notifications. [SUBLEDGER_PUBLIC_HOST; 0.0.0.0]")
    var publicHost: String?

    @Option(help: "Its port; 0 for any free one. [SUBLEDGER_PUBLIC_PORT; 8080]")
    var publicPort: String?

    @Option(
        help: ArgumentHelp(
            """
            Its certificate chain for HTTPS, PEM; reloaded when the file changes and on SIGHUP. \
            [SUBLEDGER_PUBLIC_TLS_CERTIFICATE]
            """, valueName: "file"))
    var publicTlsCertificate: String?

    @Option(help: ArgumentHelp("The certificate's private key, PEM. [SUBLEDGER_PUBLIC_TLS_KEY]", valueName: "file"))
    var publicTlsKey: String?

    @Option(
        help: ArgumentHelp(
            """
            The number of connections from one address beyond which its idle ones are closed; raise it behind a proxy. \
            [SUBLEDGER_PUBLIC_CONNECTIONS_PER_ADDRESS; \(Limits.publicConnectionsPerAddress)]
            """, valueName: "number"))
    var publicConnectionsPerAddress: String?

    @Option(
        help: ArgumentHelp(
            """
            Whether apps reach their routes here too, with a token of scope publishable: on or off. They hand in their \
            users' purchases and read what these entitle to; every other route stays private. \
            [SUBLEDGER_PUBLIC_APPS; off]
            """, valueName: "switch"))
    var publicApps: String?

    @Option(
        help: ArgumentHelp(
            """
            The most megabytes of signed notifications of apps that are not configured, which are kept until their app \
            is; the oldest are dropped first. \
            [SUBLEDGER_QUARANTINE_MEGABYTES; \(ReceiverServices.quarantineBounds.bytesMax >> 20)]
            """, valueName: "number"))
    var quarantineMegabytes: String?

    @Option(
        help: ArgumentHelp(
            """
            The most days for which they are kept. \
            [SUBLEDGER_QUARANTINE_DAYS; \(ReceiverServices.quarantineBounds.daysMax)]
            """, valueName: "number"))
    var quarantineDays: String?

    @Option(help: "Address for backends and operators. [SUBLEDGER_PRIVATE_HOST; 127.0.0.1]")
    var privateHost: String?

    @Option(help: "Its port; 0 for any free one. [SUBLEDGER_PRIVATE_PORT; 8081]")
    var privatePort: String?

    @Option(
        help: ArgumentHelp("See --public-tls-certificate. [SUBLEDGER_PRIVATE_TLS_CERTIFICATE]", valueName: "file"))
    var privateTlsCertificate: String?

    @Option(help: ArgumentHelp("The certificate's private key, PEM. [SUBLEDGER_PRIVATE_TLS_KEY]", valueName: "file"))
    var privateTlsKey: String?

    @Option(
        help: ArgumentHelp(
            """
            See --public-connections-per-address. \
            [SUBLEDGER_PRIVATE_CONNECTIONS_PER_ADDRESS; \(Limits.privateConnectionsPerAddress)]
            """, valueName: "number"))
    var privateConnectionsPerAddress: String?

    @Option(
        help: ArgumentHelp(
            """
            What stands in front of the private listener, so that the console accepts logins without a certificate here: \
            tls-proxy, a proxy that ends TLS and is alone in reaching it; or loopback, a port that is published on the \
            machine itself only. [SUBLEDGER_PRIVATE_FRONT]
            """, valueName: "kind"))
    var privateFront: String?

    @Option(
        help: ArgumentHelp(
            """
            Names by which the private listener is known, for the console and monitoring over plain HTTP, comma-separated. \
            Addresses and local names need not be among them. [SUBLEDGER_PRIVATE_NAMES]
            """, valueName: "names"))
    var privateNames: String?

    @Option(
        help: ArgumentHelp(
            """
            Whether people can act for customers in the console, such as give access by hand, with a token of scope operate: \
            on or off. [SUBLEDGER_CONSOLE_ACTS; on]
            """, valueName: "switch"))
    var consoleActs: String?

    @Option(
        help: ArgumentHelp(
            """
            Whether this server asks the stores for changes of subscriptions, in the console and by HTTP, with a token of \
            scope operate: on or off. [SUBLEDGER_STORE_WRITES; on]
            """, valueName: "switch"))
    var storeWrites: String?

    @OptionGroup var webhooks: WebhookFlags

    func run() async throws {
        try await reportingFailures {
            let keys = headKey.values.merging(webhooks.values) { $1 }
            let flags = database.values.merging(keys) { first, _ in first }.merging(
                settings([
                    (["apps", "file"], appsFile),
                    (["ocsp"], ocsp), (["roles"], roles),
                    (["root", "files"], root.isEmpty ? nil : root.joined(separator: ",")),
                    (["public", "host"], publicHost), (["public", "port"], publicPort),
                    (["public", "tls", "certificate"], publicTlsCertificate),
                    (["public", "tls", "key"], publicTlsKey),
                    (["public", "connections", "per", "address"], publicConnectionsPerAddress),
                    (["public", "apps"], publicApps),
                    (["private", "connections", "per", "address"], privateConnectionsPerAddress),
                    (["quarantine", "megabytes"], quarantineMegabytes), (["quarantine", "days"], quarantineDays),
                    (["private", "host"], privateHost), (["private", "port"], privatePort),
                    (["private", "tls", "certificate"], privateTlsCertificate),
                    (["private", "tls", "key"], privateTlsKey), (["private", "front"], privateFront),
                    (["private", "names"], privateNames), (["console", "acts"], consoleActs),
                    (["store", "writes"], storeWrites),
                ]), uniquingKeysWith: { first, _ in first })
            try await serve(Settings(flags: flags))
        }
    }

    private func serve(_ settings: Settings) async throws {
        let logger = try settings.logger()
        try settings.checkFilesAreReadable()
        let manager = ServiceManager(
            environment: ProcessInfo.processInfo.environment, listenerCount: try settings.listenerCount())
        var plan = try ServerPlan(settings, logger: logger, onListening: { manager?.listenerIsUp() })
        try settings.leaveRoot(logger: logger)
        plan.warn(rootFiles: settings.rootFiles, logger: logger)
        let metrics = MetricsRegistry()
        MetricsSystem.bootstrap(metrics)
        Gauge(label: "subledger_build_info", dimensions: [("version", Subledger.configuration.version)]).record(1)

        let opened = try await Database.openInterruptibly(
            settings, checking: plan.roles.flatMap(\.databaseRoles), logger: logger)
        guard let database = opened else { return }
        if database.durability.synchronousCommitIsOff {
            logger.warning("database setting synchronous_commit is off; enabling it for the server's own sessions")
        }
        if database.durability.basis == .provider {
            logger.notice("database settings fsync and full_page_writes are not checked; the provider keeps commits")
        }
        if database.outcome == .inUse {
            logger.warning("views of the schema are in use and were not replaced; the next start tries again")
        }
        if database.isDistributed, let app = plan.googleApps.first(where: { $0.joinedWith != nil }) {
            throw DistributionError.joined(app: app.packageName)
        }
        if plan.roles.contains(.poller), let keyFile = plan.outbound.keyFile {
            try await database.stoppingOnError { try keyFile.createServerKey(at: SystemClock.now()) }
        }
        if !plan.roles.isDisjoint(with: [.reader, .projector]) {
            let key = try await database.stoppingOnError { try settings.headKeyFile()?.readOrCreate() }
            if plan.roles.contains(.reader) { plan.backends.headKey = key }
            plan.signer = try await database.stoppingOnError { try key.flatMap(settings.checkpointSigner) }
        }
        let server = try await Server(
            plan, database: database, now: SystemClock.now, metrics: metrics, logger: logger)
        var group = ServiceGroupConfiguration(
            // The service manager is the first to hear of the end.
            services: server.services + [manager].compactMap(\.self), gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger.atLeast(.warning))
        // Longer than any response takes (one second for a body in transit, 10 s for its commit), so a connection that
        // is still open by then does not wait for a response.
        group.maximumGracefulShutdownDuration = .seconds(30)
        try await ServiceGroup(configuration: group).run()
        logger.info("stopped")
    }
}

extension Logger {
    /// Returns a logger with at least this level, for libraries whose own progress an operator does not need.
    fileprivate func atLeast(_ level: Logger.Level) -> Logger {
        var logger = self
        logger.logLevel = max(logLevel, level)
        return logger
    }
}
