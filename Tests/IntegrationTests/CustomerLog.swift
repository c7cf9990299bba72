import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

/// A log of generated events about customers, in a separate database.
struct CustomerLog {
    /// A transaction as stated by some notification.
    struct Row: Sendable {
        var subscription: String
        var transaction: String?
        var product = "monthly"
        var account: String?
        var appTransaction: String?
        var ownership: String?
        /// Days of January 2024.
        var days = 1..<32
        var revokedOn: Int?
        var previousSubscription: String?

        init(
            _ subscription: String, _ days: Range<Int> = 1..<32, product: String = "monthly", account: String? = nil,
            appTransaction: String? = nil, ownership: String? = nil, transaction: String? = nil, revokedOn: Int? = nil,
            previousSubscription: String? = nil
        ) {
            self.subscription = subscription
            self.days = days
            self.product = product
            self.account = account
            self.appTransaction = appTransaction
            self.ownership = ownership
            self.transaction = transaction
            self.revokedOn = revokedOn
            self.previousSubscription = previousSubscription
        }

        var stated: Transaction {
            var stated = Transaction(transactionId: transaction ?? subscription, originalTransactionId: subscription)
            stated.productId = product
            stated.purchaseDate = day(days.lowerBound)
            stated.expiresDate = day(days.upperBound)
            stated.appAccountToken = account
            stated.appTransactionId = appTransaction
            stated.inAppOwnershipType = ownership
            stated.previousOriginalTransactionId = previousSubscription
            stated.revocationDate = revokedOn.map { day($0) }
            return stated
        }
    }

    enum Told: Sendable {
        /// One notification.
        case rows([Row])
        case links(String, [CustomerKey])
        /// A purchase that a backend handed in for a customer.
        case handedIn(String, CustomerKey)
        /// An answer of Google on a day of January 2024.
        case purchase(PurchaseFact, on: Int)
    }

    /// A verified event; this test does not verify it.
    private struct Proven: ProvenEvent {
        let stream: StreamKey
        let event: Event
        let evidence = Evidence(Array("{}".utf8))
        let bodyDigest = [UInt8](repeating: 0, count: 32)
        let chain: SigningChain? = nil
    }

    static let app = "com.example.magazine"
    let database: ConnectionConfiguration
    let projector: Projector
    let reader: PostgresPool
    private let receiver: PostgresPool

    static func with(_ test: (CustomerLog) async throws -> Void) async throws {
        try await TestCluster.withDatabase { try await with($0, test) }
    }

    private static func with(
        _ database: ConnectionConfiguration, _ test: (CustomerLog) async throws -> Void
    ) async throws {
        let logger = LogRecorder().logger
        let role = database.with(role: "subledger_projector")
        let projection = PostgresPool(role, limit: 2, logger: logger)
        let log = CustomerLog(
            database: database,
            projector: Projector(pool: projection, listener: role, now: { .latest }, logger: logger),
            reader: PostgresPool(database.with(role: "subledger_reader"), limit: 2, logger: logger),
            receiver: PostgresPool(database.with(role: "subledger_receiver"), limit: 1, logger: logger))
        let outcome: Result<Void, any Error>
        do {
            try await test(log)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        for pool in [projection, log.reader, log.receiver] { await pool.close() }
        try outcome.get()
    }

    /// Appends the events, one second apart from noon of the day, and folds each separately or all in one batch.
    func tell(
        _ told: [Told], app: String = Self.app, environment: Subscriptions.Environment = .production, on noon: Int = 1,
        inBatches: Bool = false, folding: Bool = true
    ) async throws {
        let appender = Appender(pool: receiver, logger: LogRecorder().logger)
        let running = Task { await appender.run() }
        for (index, told) in told.enumerated() {
            let receivedAt = day(noon, milliseconds: 43_200_000 + Int64(index) * 1000)
            let event = Self.event(told, app, environment, receivedAt)
            _ = try await appender.append(
                PreparedEvent(
                    Proven(stream: StreamKey(app: app, environment: environment), event: event), receivedAt: receivedAt)
            )
            if !inBatches && folding { await projector.foldAllStreams() }
        }
        await appender.stop()
        await running.value
        if folding { await projector.foldAllStreams() }
    }

    private static func event(
        _ told: Told, _ app: String, _ environment: Subscriptions.Environment, _ receivedAt: Instant
    ) -> Event {
        let key = DedupeKey(bytes: withUnsafeBytes(of: UUID().uuid) { Array($0) })
        switch told {
        case .rows(let rows):
            return Event(
                source: .appleV1, environment: environment, app: app, type: nil, subtype: nil, kind: .other,
                dedupeKey: key, occurredAt: nil, transactions: rows.map(\.stated), renewals: [], defects: [])
        case .purchase(let fact, let answeredOn):
            var event = Event(
                source: .googleAPI, environment: environment, app: app, type: nil, subtype: nil, kind: .answer,
                dedupeKey: key, occurredAt: day(answeredOn), transactions: [], renewals: [], defects: [])
            event.purchases = [fact]
            return event
        case .links(let customer, let links):
            return LinkStatement(backendCustomerId: customer, links: links, basis: .statement)
                .event(environment: environment, app: app, receivedAt: receivedAt, dedupeKey: key)
        case .handedIn(let customer, let link):
            return LinkStatement(backendCustomerId: customer, links: [link], isComplete: false, basis: .purchase)
                .event(environment: environment, app: app, receivedAt: receivedAt, dedupeKey: key)
        }
    }

    /// A rebuild changes nothing, whether one worker folds all events at once or several fold a few each, and an audit finds
    /// nothing.
    ///
    /// - Parameter rows: Reads what must stay the same.
    func isConfirmed(_ rows: () async throws -> [String]) async throws {
        let before = try await rows()
        let logger = LogRecorder().logger
        for workers in [1, 3] {
            let pool = PostgresPool(database.with(role: "subledger_projector"), limit: workers, logger: logger)
            let rebuild = ProjectionRebuild(
                owner: database, pool: pool, app: nil, environment: nil, now: { .latest }, workers: workers,
                eventsIndexedMax: workers == 1 ? ProjectionRebuild.eventsIndexedMax : 2,
                eventsAtOnceMax: workers == 1 ? ProjectionRebuild.eventsAtOnceMax : 1)
            let outcome = try await rebuild.run { _ in }
            await pool.close()
            #expect(outcome.rowsReplaced == 0, "workers: \(workers)")
            #expect(try await rows() == before, "workers: \(workers)")
        }
        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))
        let audit = try await ProjectionAudit(connection: connection, seed: 1)
        for stream in try await lines("select stream_id::text as line from subledger.stream") {
            _ = try await audit.check(stream: Int32(stream) ?? 0, .all) { _, _ in }
        }
        await connection.close()
    }

    /// `kind id → kind and id of the customer` of every key, by app and environment; with the days from which and until
    /// which it leads there, unless that is always.
    func identities() async throws -> [String] {
        try await lines(
            """
            select concat_ws(' ', case when app <> 'com.example.magazine' then app end,
              nullif(environment, 'production'), kind, id, '→', customer_kind, customer_id,
              case when isfinite(starts_at) or isfinite(ends_at) then concat(
                case when isfinite(starts_at) then to_char(starts_at at time zone 'UTC', 'YYYY-MM-DD') end, '–',
                case when isfinite(ends_at) then to_char(ends_at at time zone 'UTC', 'YYYY-MM-DD') end) end)
            from subledger.customer_identity
            join subledger.stream using (stream_id)
            """
        ).sorted()
    }

    /// The first column of a query, as text.
    func lines(_ sql: String) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        try await connection.script(
            "create or replace view pg_temp.asked (line) as \(sql)", deadline: .now + .seconds(60))
        let rows = try await connection.query(
            Statement("asked", "select line from pg_temp.asked"), deadline: .now + .seconds(60))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }

    func script(_ sql: String) async throws {
        let connection = try await TestCluster.connect(database)
        try await connection.script(sql, deadline: .now + .seconds(60))
        await connection.close()
    }
}

/// Midnight of a day of January 2024, plus the milliseconds.
func day(_ day: Int, milliseconds: Int64 = 0) -> Instant {
    Instant(milliseconds: 1_704_067_200_000 + Int64(day - 1) * 86_400_000 + milliseconds) ?? .latest
}
