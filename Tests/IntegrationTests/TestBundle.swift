import AppStore
import Encoding
import EventLog
import Foundation
import HTTPServer
import Logging
import Outbound
import PlayStore
import Postgres
import Projector
import Readers
import Server
import ServiceLifecycle
import StoreClient
import TestSupport

/// A store that no test asks.
struct UnreachableStore: StoreTransport {
    func send(
        _ request: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        throw .unreachable
    }
}

/// A complete server in this process: a separate database, both listeners on free ports, and a fixed clock.
struct TestBundle {
    /// 2019-11-08T08:14:00Z: inside the period of the sample bodies.
    static let now = Instant(milliseconds: 1_573_200_840_000) ?? .earliest

    /// Signs heads.
    static let headKey = HeadKey()

    let database: ConnectionConfiguration
    let apple: HTTPClient
    /// With a token of scope read.
    let backend: HTTPClient
    /// With a token of scope admin.
    let owner: HTTPClient
    /// All operations of the private listener, such as `GET /subscriptions/{originalTransactionId}`.
    let operations: [String]
    /// All routes of the console, in the same form.
    let pages: [String]
    let logs: LogRecorder
    /// That of the listeners.
    let appender: Appender
    /// Looks for products that are not configured once, and then when it writes a purchase of one.
    let projector: Projector

    /// Runs the test with a server, and stops the server afterwards.
    ///
    /// - Parameters:
    ///   - database: Remains afterwards; if nil, a clone that is dropped.
    ///   - patience: For how long clients repeat what is answered 503 because of the database, which a busy disk can cause.
    ///   - connectionsPerAddress: Of the public listener.
    static func withServer(
        apps: [App] = [App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])],
        roots: RootCertificates = .apple, store: any StoreTransport = UnreachableStore(),
        api: ServerAPIClient? = nil, googleApps: [GoogleApp] = [],
        now: @escaping @Sendable () -> Instant = { Self.now }, database: ConnectionConfiguration? = nil,
        health: [HealthCheck] = [], quarantine bounds: QuarantineBounds = .standard,
        transport: ConsoleTransport = .loopback, patience: Duration = .seconds(60),
        assertions: [String: AssertionKeys] = [:], publicApps: Bool = false, hasActs: Bool = true,
        hasStoreWrites: Bool = true,
        connectionsPerAddress: Int = HTTPServer.Limits.publicConnectionsPerAddress,
        _ test: (TestBundle) async throws -> Void
    ) async throws {
        guard let database else {
            return try await TestCluster.withDatabase { database in
                try await withServer(
                    apps: apps, roots: roots, store: store, api: api, googleApps: googleApps, now: now,
                    database: database, health: health, quarantine: bounds, transport: transport,
                    patience: patience, assertions: assertions, publicApps: publicApps, hasActs: hasActs,
                    hasStoreWrites: hasStoreWrites, connectionsPerAddress: connectionsPerAddress, test)
            }
        }
        let logs = LogRecorder()
        let logger = logs.logger
        let receiver = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let projectorRole = database.with(role: "subledger_projector")
        let projection = PostgresPool(projectorRole, limit: 2, logger: logger)
        let reader = PostgresPool(database.with(role: "subledger_reader"), limit: 4, logger: logger)
        let editor = PostgresPool(database.with(role: "subledger_products"), limit: 1, logger: logger)
        let authenticator = PostgresPool(database.with(role: "subledger_authenticator"), limit: 1, logger: logger)
        let token = try await Self.token(.read, database)
        let records = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: logger)
        let appender = Appender(pool: receiver, logger: logger)
        let log = LogReader(pool: reader)
        let linker = PostgresPool(database.with(role: "subledger_receiver"), limit: 4, logger: logger)
        let linkLog = LogReader(pool: linker)
        let links = LinkService(log: linkLog, appender: appender, apps: Set(apps.map(\.bundleId)))
        let clock = StoreClock(date: now)
        let handIns = ReceiptHandIn(
            client: ReceiptClient(transport: store, clock: clock, random: { 0 }, logger: logger), apps: apps,
            handIns: HandInLog(pool: records), log: log, subscriptions: SubscriptionReader(pool: reader),
            appender: appender, links: links, clock: clock, roots: roots, logger: logger)
        let verifier = NotificationVerifier(apps: Apps(apps), signatures: SignatureVerifier(roots: roots))
        var sources = HandInSources()
        (sources.receipts, sources.receiptLog) = (handIns, HandInLog(pool: records))
        sources.transactions = TransactionHandIn(
            verifier: verifier, apps: Set(apps.map(\.bundleId)),
            lookup: api.map { TransactionLookup(client: $0, apps: apps, clock: clock) }, log: log,
            subscriptions: SubscriptionReader(pool: reader), appender: appender, links: links, clock: clock,
            logger: logger)
        sources.purchases = PurchaseHandIn(
            client: GoogleClient(transport: store, clock: clock, random: { 0 }, logger: logger), apps: googleApps,
            queue: PurchaseQueue(pool: records), log: log, subscriptions: SubscriptionReader(pool: reader),
            appender: appender,
            links: LinkService(log: linkLog, appender: appender, apps: Set(googleApps.map(\.packageName))),
            clock: clock,
            random: { 0 }, logger: logger)
        sources.grants = GrantService(pool: reader, links: links, appender: appender)
        let queue = ReceiptQueue(service: handIns, clock: clock, logger: logger)
        let signal = ChangeSignal(listener: database.with(role: "subledger_reader"), logger: logger)
        let publicPort = AsyncStream<Int>.makeStream()
        let privatePort = AsyncStream<Int>.makeStream()
        let projector = Projector(
            pool: projection, listener: projectorRole,
            joins: googleApps.compactMap { app in app.joinedWith.map { (app.packageName, $0) } },
            gapPause: .seconds(3600), now: now,
            logger: logger)
        let anywhere = ListenAddress(host: "127.0.0.1", port: 0)
        let quarantine = Quarantine(pool: records, bounds: bounds)
        let intake = QuarantineIntake(
            quarantine: quarantine, apps: apps.map(\.bundleId), verifier: verifier, appender: appender, now: now,
            logger: logger)
        let tokens = TokenCache(read: TokenReader(pool: authenticator).active)
        let registry = MetricsRegistry()
        let endpoints = EndpointAdmin(
            store: EndpointStore(pool: editor),
            keyFile: WebhookKeyFile(path: TestFolder.path("webhook-keys-\(UUID().uuidString).json")),
            settings: EndpointClientSettings(allowsPrivate: true), apps: Set(apps.map(\.bundleId)), now: now)
        let refundApps = RefundApps(
            answerable: Set(apps.serverAPIKeys.keys).union(
                googleApps.filter { $0.credentials != nil }.map(\.packageName)),
            ofGoogleAlone: Set(googleApps.map(\.packageName)).subtracting(apps.map(\.bundleId)))
        var acts = ConsoleActs()
        (acts.refunds, acts.refundApps) = (ConsumptionLog(pool: records), refundApps)
        (acts.isOn, acts.grants) = (hasActs, sources.grants)
        let apple = api ?? ServerAPIClient(transport: store, clock: clock, random: { 0 }, logger: logger)
        let google = GoogleClient(transport: store, clock: clock, random: { 0 }, logger: logger)
        acts.stores = StoreActService(
            writer: StoreWriter(
                client: apple, google: google, log: WriteLog(pool: linker, appender: appender), clock: clock),
            orders: sources.purchases.map { purchases in
                OrderLookup(
                    client: apple, google: google, verifier: verifier, purchases: purchases, apps: apps,
                    googleApps: googleApps, log: log, subscriptions: SubscriptionReader(pool: reader),
                    appender: appender, links: links, clock: clock)
            }, apps: apps, googleApps: googleApps, makesChanges: hasStoreWrites)
        acts.orders = acts.stores.map { OrderQuestions(reader: ConsoleReader(pool: reader), stores: $0) }
        let console = ConsoleRoutes(
            tokens: tokens, sessions: ConsoleSessions(pool: authenticator), transport: transport,
            reader: ConsoleReader(pool: reader), log: log, customers: CustomerReader(pool: reader),
            subscriptions: SubscriptionReader(pool: reader), products: ProductStore(pool: editor),
            figures: FigureReader(pool: reader), endpoints: endpoints,
            refunds: ConsumptionLog(pool: reader), acts: acts, metrics: registry,
            health: health + [.database(log)], loginPause: .zero, now: now, logger: logger)
        let asked = AskedApps(
            withoutReceipt: Set(apps.serverAPIKeys.keys),
            ofGooglePlay: Set(googleApps.filter(\.polling).map(\.packageName)))
        let routes = PrivateRoutes(
            tokens: tokens, appGate: AppGate(keys: assertions, now: now), browsers: BrowserAccess(transport: transport),
            log: log, subscriptions: SubscriptionReader(pool: reader, asked: asked),
            products: ProductStore(pool: editor),
            customers: CustomerReader(pool: reader),
            links: links, headKey: Self.headKey, handIns: sources,
            changes: ChangeReader(pool: reader), signal: signal,
            others: [
                ConsumptionRoutes(
                    requests: ConsumptionLog(pool: reader), answers: ConsumptionLog(pool: records),
                    policies: ConsumptionPolicies(pool: editor),
                    apps: refundApps, now: now),
                OfferRoutes(keys: apps.serverAPIKeys, now: now), OrderRoutes(questions: acts.orders, log: log),
                WriteRoutes(subscriptions: SubscriptionReader(pool: reader), stores: acts.stores, now: now),
                WebhookRoutes(admin: endpoints), console,
            ], metrics: registry, health: health + [.database(log)], now: now, logger: logger)
        let operations = routes.operations
        let pages = routes.consoleOperations
        let open = Listener.public(
            at: anywhere,
            notifications: NotificationSources(
                verifier: verifier, appender: appender, quarantine: QuarantineKeeper(quarantine),
                pushes: (
                    PushVerifier(apps: googleApps.map(\.play)),
                    GoogleSigningKeys(transport: store, clock: clock, logger: logger)
                ), now: now),
            apps: publicApps ? routes.ofApps : nil, health: health + [.database(log)],
            connectionsPerAddress: connectionsPerAddress, logger: logger,
            onListening: { publicPort.continuation.yield($0) })
        let closed = Listener.private(
            at: anywhere,
            routes: routes, logger: logger,
            onListening: { privatePort.continuation.yield($0) })

        let services = Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { try? await open.run() }
                group.addTask { try? await closed.run() }
                group.addTask { await projector.run() }
                group.addTask { await appender.run() }
                group.addTask { await signal.run() }
                group.addTask { await queue.run() }
                group.addTask { await intake.run() }
                await group.waitForAll()
            }
        }
        let outcome: Result<Void, any Error>
        do {
            let port = try await first(privatePort.stream)
            let bundle = TestBundle(
                database: database, apple: HTTPClient(port: try await first(publicPort.stream), patience: patience),
                backend: HTTPClient(port: port, token: token, patience: patience),
                owner: HTTPClient(port: port, token: try await Self.token(.admin, database), patience: patience),
                operations: operations, pages: pages, logs: logs, appender: appender, projector: projector)
            try await test(bundle)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        services.cancel()
        await appender.stop()
        await services.value
        for pool in [receiver, records, linker, projection, reader, editor, authenticator] { await pool.close() }
        try outcome.get()
    }

    /// A backend with a new token, as patient as the others.
    func client(with scope: TokenScope) async throws -> HTTPClient {
        HTTPClient(
            port: backend.port, token: try await Self.token(scope, database), patience: backend.patience)
    }

    /// A new token, like one from `subledger token create`.
    static func token(
        _ scope: TokenScope, _ database: ConnectionConfiguration, app: String? = nil
    ) async throws -> String {
        var random = SystemRandomNumberGenerator()
        let token = AccessToken(using: &random)
        let owner = try await TestCluster.connect(database)
        try await TokenStore(connection: owner).record(token, scope: scope, name: "test", app: app)
        await owner.close()
        return token.text
    }

    private static func first(_ stream: AsyncStream<Int>) async throws -> Int {
        for await port in stream { return port }
        throw NoPort()
    }

    private struct NoPort: Error {}

    /// A sample body from the fixtures of the decoder's tests.
    static func sample(_ name: String) throws -> [UInt8] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("AppStoreTests/Fixtures")
        return Array(
            try Data(contentsOf: folder.appendingPathComponent("seed000-did-change-renewal-status\(name).json")))
    }

    /// The subscription of the sample bodies, once it is folded.
    func subscription(_ path: String) async throws -> HTTPAnswer {
        try await eventually("GET \(path) answers 200") {
            let answer = try await backend.get(path)
            return answer.status == 200 ? answer : nil
        }
    }

    /// Waits until every event is folded.
    func isFolded() async throws {
        let connection = try await TestCluster.connect(database)
        _ = try await eventually("every event is folded") {
            try await connection.query(Self.unfoldedStreams, deadline: .now + .seconds(20)).isEmpty ? true : nil
        }
        await connection.close()
    }

    private static let unfoldedStreams = Statement(
        "unfolded_streams",
        """
        select stream_id
        from subledger.stream_head
        left join subledger.checkpoint using (stream_id)
        where stream_head.position > coalesce(checkpoint.position, 0)
        """)

    /// Runs SQL as the owner of the database and returns the first column as text.
    func sql(_ statement: StaticString) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement("test", SQL(stringLiteral: statement)), deadline: .now + .seconds(20))
        var result: [String] = []
        for index in 0..<rows.count { result.append(try rows[index].value(at: 0)) }
        await connection.close()
        return result
    }
}
