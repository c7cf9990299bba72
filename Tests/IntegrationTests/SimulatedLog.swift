import AppStore
import Crypto
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Simulation
import Subscriptions
import TestSupport

/// A database whose log is filled from a simulation, one notification after another, and projected on demand.
struct SimulatedLog {
    let database: ConnectionConfiguration
    let projection: PostgresPool
    let projector: Projector
    private let receiver: PostgresPool
    private let logger: Logger

    /// A verified notification with its time of receipt.
    struct Delivery: Sendable {
        let notification: VerifiedNotification
        let receivedAt: Instant
    }

    static var roots: RootCertificates {
        guard let roots = RootCertificates(file: Array(TestCertificates.standard.rootPEM.utf8)) else {
            preconditionFailure("the make-believe root cannot be read")
        }
        return roots
    }

    /// A run: every story, both versions, shuffled, some twice.
    static func simulation(
        subscriptions: Int = 28, environment: Subscriptions.Environment = .sandbox, seed: UInt64 = TestSeed.value
    ) -> Simulation {
        let app = SimulatedApp(
            bundleId: V1Body.app, appAppleId: environment == .production ? 1_234_567_890 : nil,
            environment: environment, sharedSecret: V1Body.secret)
        var settings = Simulation.Settings(app: app)
        settings.seed = seed
        settings.subscriptions = subscriptions
        settings.format = .both
        settings.order = .shuffled
        settings.duplicate = 0.1
        guard let simulation = Simulation(settings) else { preconditionFailure("no story matches the settings") }
        return simulation
    }

    /// The deliveries of a run.
    static func deliveries(
        subscriptions: Int = 28, environment: Subscriptions.Environment = .sandbox, seed: UInt64 = TestSeed.value
    ) async throws -> [Delivery] {
        let simulation = simulation(subscriptions: subscriptions, environment: environment, seed: seed)
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: roots))
        var deliveries: [Delivery] = []
        for delivery in simulation.deliveries {
            deliveries.append(
                Delivery(
                    notification: try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt),
                    receivedAt: delivery.receivedAt))
        }
        return deliveries
    }

    /// Runs the test with a log in a clone of the template, which is dropped afterwards.
    static func with(
        from template: String = "template_subledger", _ test: (SimulatedLog) async throws -> Void
    ) async throws {
        try await TestCluster.withDatabase(from: template) { try await with(database: $0, test) }
    }

    static func with(
        database: ConnectionConfiguration, _ test: (SimulatedLog) async throws -> Void
    ) async throws {
        let logger = LogRecorder().logger
        let role = database.with(role: "subledger_projector")
        let projection = PostgresPool(role, limit: 2, logger: logger)
        let log = SimulatedLog(
            database: database, projection: projection,
            projector: Projector(pool: projection, listener: role, now: { .latest }, logger: logger),
            receiver: PostgresPool(database.with(role: "subledger_receiver"), limit: 1, logger: logger),
            logger: logger)
        let outcome: Result<Void, any Error>
        do {
            try await test(log)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await log.projection.close()
        await log.receiver.close()
        try outcome.get()
    }

    /// Runs the test with a copy of a log that contains every story and is fully projected. The log is made once.
    static func withEveryStory(_ test: (SimulatedLog) async throws -> Void) async throws {
        try await with(from: try await everyStory.value, test)
    }

    /// The template database of ``withEveryStory(_:)``.
    static let everyStory = Task { try await template("template_every_story", try await deliveries()) }

    /// A template database with the first notifications of the same run, in both versions.
    static let fewStories = Task {
        try await template("template_few_stories", try await deliveries(subscriptions: 4))
    }

    private static func template(_ name: String, _ deliveries: [Delivery]) async throws -> String {
        try await with(database: try await TestCluster.makeTemplate(name)) { log in
            try await log.append(deliveries)
            await log.projector.foldAllStreams()
        }
        return name
    }

    /// Appends in exactly this order.
    func append(_ deliveries: some Collection<Delivery>) async throws {
        _ = try await append(deliveries.map { PreparedEvent($0.notification, receivedAt: $0.receivedAt) })
    }

    /// Appends answers about receipts in exactly this order, and returns their positions.
    func append(_ receipts: [VerifiedReceipt]) async throws -> [Appended] {
        try await append(receipts.map { PreparedEvent($0, receivedAt: $0.receivedAt) })
    }

    /// Appends events in exactly this order, and returns their positions.
    func append(_ events: [PreparedEvent]) async throws -> [Appended] {
        let appender = Appender(pool: receiver, logger: logger)
        let running = Task { await appender.run() }
        var places: [Appended] = []
        for event in events { places.append(try await appender.append(event)) }
        await appender.stop()
        await running.value
        return places
    }

    /// Appends the link statements of a run, in their order.
    func append(linksOf simulation: Simulation) async throws {
        let app = simulation.settings.app.bundleId
        let appender = Appender(pool: receiver, logger: logger)
        let running = Task { await appender.run() }
        for step in simulation.statements {
            let json = try JSONDocument(step.statement.body(simulation.settings.format)).root
            let statement = try LinkStatement(
                backendCustomerId: step.statement.backendCustomerId, json: json, isComplete: true,
                basis: try LinkStatement.transfer(json) ? .transfer : .statement)
            let link = ProvenLink(
                stream: StreamKey(app: app, environment: .sandbox),
                event: statement.event(environment: .sandbox, app: app, receivedAt: step.statement.sentAt),
                evidence: Evidence(statement.canonicalText),
                bodyDigest: Array(SHA256.hash(data: statement.canonicalText)))
            _ = try await appender.append(PreparedEvent(link, receivedAt: step.statement.sentAt))
        }
        await appender.stop()
        await running.value
    }

    /// Configures the products of an app with their entitlements, and the kinds of one-time products.
    func configure(_ products: [Product], of app: String) async throws {
        for product in products {
            let kind =
                switch product.kind {
                case .autoRenewable: "null"
                case .nonConsumable: "'non-consumable'"
                case .consumable: "'consumable'"
                }
            try await script(
                "insert into subledger.product (app, product_id, kind) values ('\(app)', '\(product.id)', \(kind))")
            for entitlement in product.configuredEntitlements {
                try await script(
                    """
                    insert into subledger.product_entitlement (app, product_id, entitlement)
                    values ('\(app)', '\(product.id)', '\(entitlement)')
                    """)
            }
        }
    }

    /// A link statement as the private listener appends it.
    private struct ProvenLink: ProvenEvent {
        let stream: StreamKey
        let event: Event
        let evidence: Evidence
        let bodyDigest: [UInt8]
        let chain: SigningChain? = nil
    }

    /// Runs SQL as the owner of the database.
    func script(_ sql: String) async throws {
        let connection = try await TestCluster.connect(database)
        try await connection.script(sql, deadline: .now + .seconds(20))
        await connection.close()
    }

    /// Every row of all projection tables, with all columns.
    func projections() async throws -> [String] {
        try await lines(
            """
            select format('checkpoint %s', checkpoint) from subledger.checkpoint
            union all
            select format('subscription %s', subscription) from subledger.subscription
            union all
            select format('transaction %s', transaction) from subledger.transaction
            union all
            select format('access_period %s', access_period) from subledger.access_period
            union all
            select format('refunded_period %s', refunded_period) from subledger.refunded_period
            union all
            select format('check_schedule %s', check_schedule) from subledger.check_schedule
            union all
            select format('customer_edge %s', customer_edge) from subledger.customer_edge
            union all
            select format('customer_link %s', customer_link) from subledger.customer_link
            union all
            select format('ownership %s', ownership) from subledger.ownership
            union all
            select format('customer_identity %s', customer_identity) from subledger.customer_identity
            union all
            select format('shared_account_token %s', shared_account_token) from subledger.shared_account_token
            order by 1
            """)
    }

    /// The first column of a query, as text.
    func lines(_ sql: StaticString) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement("lines", SQL(stringLiteral: sql)), deadline: .now + .seconds(20))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }

    func catalog() async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let lines = try await SchemaCatalog.lines(of: connection)
        await connection.close()
        return lines
    }

    /// Changes events and bodies, as a superuser can.
    func damage(_ sql: String) async throws {
        try await script(
            """
            alter table subledger.event disable trigger event_append_only;
            alter table subledger.event_body disable trigger event_body_append_only;
            \(sql);
            alter table subledger.event enable always trigger event_append_only;
            alter table subledger.event_body enable always trigger event_body_append_only
            """)
    }

    /// Replaces a body, with its digest.
    static func replacement(_ body: String, at position: Int) -> String {
        """
        update subledger.event_body set body = '\(body)' where position = \(position);
        update subledger.event set body_sha256 = sha256('\(body)') where position = \(position)
        """
    }

    /// Appends an event whose facts no release can read.
    func appendUnfoldable() async throws {
        try await script(
            """
            insert into subledger.event (
              stream_id, position, received_at, source, kind, dedupe_key, facts, body_sha256, chain
            )
            select 1, position + 1, now(), 'apple-v1', 'other', sha256(position::text::bytea), '{"transactions":1}',
              sha256('{}'), sha256('')
            from subledger.stream_head
            where stream_id = 1;
            update subledger.stream_head
            set position = position + 1
            where stream_id = 1
            """)
    }

    /// - Parameters:
    ///   - workers: With several, each folds few events at a time, and the log is read in several parts.
    func rebuild(
        app: String? = nil, environment: Subscriptions.Environment? = nil, workers: Int = 1,
        onProgress: (ProjectionRebuild.Progress) async throws -> Void = { _ in }
    ) async throws -> ProjectionRebuild.Outcome {
        let pool = PostgresPool(database.with(role: "subledger_projector"), limit: workers, logger: logger)
        let rebuild = ProjectionRebuild(
            owner: database, pool: pool, app: app, environment: environment, now: { .latest }, workers: workers,
            eventsIndexedMax: workers == 1 ? ProjectionRebuild.eventsIndexedMax : 40,
            eventsAtOnceMax: workers == 1 ? ProjectionRebuild.eventsAtOnceMax : 10)
        do {
            let outcome = try await rebuild.run(onProgress: onProgress)
            await pool.close()
            return outcome
        } catch {
            await pool.close()
            throw error
        }
    }

    func status() async throws -> [String] {
        let connection = try await TestCluster.connect(database.with(role: "subledger_reader"))
        let lines = try await StreamStatus.all(on: connection).map(\.description)
        await connection.close()
        return lines
    }

    func skip(
        _ position: Int64, app: String = V1Body.app, environment: Subscriptions.Environment = .sandbox
    ) async throws {
        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))
        let decision = SkipDecision(
            stream: StreamKey(app: app, environment: environment), position: position, reason: "damaged by hand",
            decidedBy: "an operator")
        do {
            try await decision.record(on: connection)
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }
}
