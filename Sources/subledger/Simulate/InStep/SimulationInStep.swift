import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import Postgres
import Readers
import ServiceLifecycle
import SimulatedStore
import SimulatorClient
import StoreClient
import StoreSimulator
import Subscriptions

/// Runs a store and a server of its own in one process, on one simulated clock, and compares the server's answers.
///
/// The server is the one of `serve`. Only the clock is another, and checks are made when the simulated time says so.
struct SimulationInStep {
    let simulation: Simulation
    let settings: Settings
    let connections: Int
    let target: LateTarget
    /// How the store posts its notifications to the target, if the server asks the App Store Server API; nil if it asks
    /// with receipts, and the run delivers the notifications.
    let sending: NotificationSending?
    let logger: Logger

    struct Outcome: Sendable {
        let sent: PostingOutcome
        /// The number of questions that the checks asked.
        let asked: Int
        /// Nil without audits.
        let audit: AuditBooks?
        /// Nil if the server does not ask the API.
        let refunds: RefundBooks?
        let comparison: AnswerComparison.Outcome
    }

    /// - Parameter onStep: Called after each step with the simulated time.
    func run(onStep: @escaping @Sendable (Instant) -> Void) async throws -> Outcome {
        var api = SimulatedServerAPI.Settings()
        api.sending = sending
        let store = SimulatedStore(simulation, now: Simulation.start, api: api)
        let address = Expected<String>()
        let listener = StoreListener(store, logger: quiet) { address.set($0) }
        return try await withThrowingTaskGroup(of: Outcome?.self) { group in
            group.addTask {
                try await listener.run()
                return nil
            }
            group.addTask { try await serve(store, at: address.value(), onStep) }
            defer { group.cancelAll() }
            while let outcome = try await group.next() {
                if let outcome { return outcome }
            }
            throw CancellationError()
        }
    }

    /// Runs the server until the simulated time is over.
    private func serve(
        _ store: SimulatedStore, at storeAddress: String, _ onStep: @escaping @Sendable (Instant) -> Void
    ) async throws -> Outcome {
        let ports = (public: Expected<Int>(), private: Expected<Int>())
        let plan = try plan(storeAddress, ports.public, ports.private)
        let database = try await Database.open(settings, logger: logger)
        let token = try await database.stoppingOnError { try await prepare(database) }
        let server = try await database.stoppingOnError {
            try await Server(
                plan, database: database, now: { store.now }, metrics: MetricsRegistry(), logger: logger)
        }
        guard let appending = server.appending, let asking = server.store else {
            throw SettingError(description: "the database user cannot append events")
        }
        let polling = PollerServices(
            apps: plan.apps, store: asking, verifier: server.verifier, appender: appending.appender,
            database: database, auditWindows: 1, logger: logger)
        let readers = database.pool(.reader, limit: 1, logger: logger)
        let steps = StepService {
            let address = "http://127.0.0.1:\(try await ports.private.value())"
            let target = LinkTarget(address: address, token: token.text, app: simulation.settings.app)
            let timetable = simulation.timetable
            let url = "http://127.0.0.1:\(try await ports.public.value())/apple/notifications"
            self.target.set(NotificationTarget(url: url))
            let poster = TimetablePoster(
                timetable, url: url, target: target, postsNotifications: sending == nil, connections: connections)
            let run = TimetableRun(
                timetable: timetable, store: store, poster: poster, poller: polling.poller,
                audits: sending == nil ? nil : polling.audits, consumption: polling.consumption.sender,
                log: LogReader(pool: readers), stream: stream)
            let asked: Result<TimetableRun.Outcome, any Error>
            do {
                asked = .success(try await run.run(onStep: onStep))
            } catch {
                asked = .failure(error)
            }
            await poster.end()
            let comparison = AnswerComparison(
                simulation: simulation, address: address, token: token.text, connections: connections)
            let outcome = try asked.get()
            var audit: AuditBooks?
            var refunds: RefundBooks?
            if sending != nil {
                let sent = store.notifications
                let audits = outcome.audits.filter { $0.stream == stream }
                audit = AuditBooks(sent: sent, audits: audits)
                refunds = RefundBooks(
                    sent: sent, audits: audits, answers: store.api.consumptions, steps: outcome.steps)
            }
            return Outcome(
                sent: poster.outcome, asked: outcome.asked, audit: audit, refunds: refunds,
                comparison: try await comparison.run())
        }
        var services = server.services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) }
        services.append(
            .init(
                service: steps, successTerminationBehavior: .gracefullyShutdownGroup,
                failureTerminationBehavior: .gracefullyShutdownGroup))
        let group = ServiceGroup(
            configuration: .init(
                services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet))
        do {
            try await group.run()
        } catch {
            for pool in polling.pools + [readers] { await pool.close() }
            throw error
        }
        for pool in polling.pools + [readers] { await pool.close() }
        guard let outcome = steps.outcome else { throw CancellationError() }
        return outcome
    }

    private var stream: StreamKey {
        StreamKey(app: simulation.settings.app.bundleId, environment: simulation.settings.app.environment)
    }

    private var quiet: Logger {
        var logger = logger
        logger.logLevel = .critical
        return logger
    }

    // MARK: Preparation

    private func plan(
        _ storeAddress: String, _ publicPort: Expected<Int>, _ privatePort: Expected<Int>
    ) throws -> ServerPlan {
        let simulated = simulation.settings.app
        let app = App(
            bundleId: simulated.bundleId, appAppleId: simulated.appAppleId,
            sharedSecrets: [simulated.sharedSecret].compactMap(\.self),
            ownership: OwnershipRules(
                policy: simulation.settings.ownership,
                storeAccountsPerTokenMax: OwnershipRules.standard.storeAccountsPerTokenMax),
            callBudget: Self.callBudget,
            serverAPIKey: sending != nil
                ? try ServerAPIKey(
                    issuerId: SimulatedAPIKey.standard.issuerId, keyId: SimulatedAPIKey.standard.keyId,
                    pem: SimulatedAPIKey.standard.pem) : nil)
        guard let root = RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)) else {
            throw SettingError(description: "the test root certificate cannot be read")
        }
        let local = ListenAddress(host: "127.0.0.1", port: 0)
        return ServerPlan(
            roles: [.receiver, .projector, .reader], apps: [app],
            receiptAddresses: ReceiptAddresses(
                production: "\(storeAddress)/production/verifyReceipt", sandbox: "\(storeAddress)/sandbox/verifyReceipt"
            ),
            apiAddresses: ServerAPIAddresses(
                production: "\(storeAddress)/production", sandbox: "\(storeAddress)/sandbox"),
            apiBudget: { _, _ in Self.callBudget },
            verification: VerifierServices.Settings(apps: [app], roots: root, revocationMode: .off),
            receiving: ReceiverServices.Settings(
                address: local, identity: nil, connectionsPerAddress: Self.connectionsMax, quarantineMegabytes: nil,
                quarantineDays: nil, onListening: { publicPort.set($0) }),
            backends: PrivateServices.Settings(
                address: local, identity: nil, connectionsPerAddress: Self.connectionsMax,
                onListening: { privatePort.set($0) }))
    }

    /// The simulated time passes much faster than budgets of calls allow.
    private static let callBudget = CallBudget(
        callsPerMinute: CallBudget.callsPerMinuteMax, concurrency: CallBudget.concurrencyMax)

    /// More than the simulator opens.
    private static let connectionsMax = 2000

    /// Checks that the database is empty, configures the products and their policies, and returns a token.
    private func prepare(_ database: Database) async throws -> AccessToken {
        let reader = database.pool(.reader, limit: 1, logger: logger)
        let last = try await LogReader(pool: reader).lastPosition(of: stream)
        await reader.close()
        guard last == 0 else {
            throw SettingError(
                description: "the database has events of \(stream.app) already: expected a database of its own")
        }
        let products = try Product.all(of: stream.app).map { product in
            try ConfiguredProduct(
                app: stream.app, productId: product.id, kind: product.kind.word, duration: nil,
                entitlements: product.configuredEntitlements)
        }
        try await database.withConnection(.products) { try await ProductTable.state(products, on: $0) }
        let editor = database.pool(.products, limit: 1, logger: logger)
        let content = try ConsumptionAnswer(isSampleProvided: true, delivery: .delivered, preference: .decline)
        for product in products {
            let policy = ConsumptionPolicy(productId: product.productId, content: content, statedAt: Simulation.start)
            try await ConsumptionPolicies(pool: editor).state(policy, of: stream.app)
        }
        await editor.close()
        var random = SystemRandomNumberGenerator()
        let token = AccessToken(using: &random)
        let owner = try await PostgresConnection.connect(
            database.owner, deadline: .now + Database.Limits.connectWaitMax)
        do {
            try await TokenStore(connection: owner).record(token, scope: .link, name: "simulate")
            await owner.close()
        } catch {
            await owner.close()
            throw error
        }
        return token
    }
}
