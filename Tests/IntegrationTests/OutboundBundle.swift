import Encoding
import EventLog
import Foundation
import HTTPServer
import Logging
import NIOSSL
import Outbound
import Postgres
import Readers
import StandardWebhooks
import StoreClient
import Subscriptions
import TestSupport

/// A database with a feed that a test fills, an endpoint at a receiver, and processes that deliver by a set clock.
struct OutboundBundle {
    static let stream = StreamKey(app: "com.example.magazine", environment: .production)
    static let id = "end_00000000000000aa"

    let database: ConnectionConfiguration
    let receiver: ScriptedReceiver
    let clock: SetClock
    let store: EndpointStore
    let keys: WebhookKeyFile
    let logs: LogRecorder
    private let owner: PostgresConnection
    private let pool: PostgresPool

    /// Runs the test with a stream of id 1, and an endpoint unless there is to be none.
    static func with(
        signature: Endpoint.Signature = .v1a, kinds: [String]? = nil, endpoint isAdded: Bool = true,
        _ test: (OutboundBundle) async throws -> Void
    ) async throws {
        try await TestCluster.withDatabase { database in
            try await ScriptedReceiver.with { receiver in
                let logs = LogRecorder()
                let owner = try await TestCluster.connect(database)
                let pool = PostgresPool(database.with(role: "subledger_products"), limit: 1, logger: logs.logger)
                let path = TestFolder.path("webhook-keys-\(UUID().uuidString).json")
                let bundle = OutboundBundle(
                    database: database, receiver: receiver, clock: SetClock(), store: EndpointStore(pool: pool),
                    keys: WebhookKeyFile(path: path), logs: logs, owner: owner, pool: pool)
                try bundle.keys.createServerKey(at: bundle.clock.now)
                if signature == .v1 {
                    _ = try bundle.keys.change { $0.rotate(Self.id, at: bundle.clock.now) }
                }
                try await bundle.script(
                    "insert into subledger.stream (stream_id, app, environment) "
                        + "values (1, '\(stream.app)', 'production')")
                if isAdded { try await bundle.add(signature: signature, kinds: kinds) }
                let outcome: Result<Void, any Error>
                do {
                    outcome = .success(try await test(bundle))
                } catch {
                    outcome = .failure(error)
                }
                await owner.close()
                await pool.close()
                try outcome.get()
            }
        }
    }

    func add(
        _ id: String = OutboundBundle.id, path: String = "/hook", signature: Endpoint.Signature = .v1a,
        kinds: [String]? = nil, url: String? = nil, after: Int64? = 0
    ) async throws {
        let endpoint = Endpoint(
            id: id, purpose: id.hasPrefix("fwd") ? .events : .changes, stream: Self.stream,
            url: url ?? "http://127.0.0.1:\(receiver.port)\(path)", kinds: kinds, signature: signature,
            createdAt: clock.now)
        guard try await store.add(endpoint, after: after) == .added else { throw NotAdded() }
    }

    private struct NotAdded: Error {}

    /// Publishes changes of these subscriptions, numbered on from the last one.
    func publish(_ subscriptions: [String], kind: String = "extended") async throws {
        let values = subscriptions.enumerated().map { "(\($0.offset + 1), '\($0.element)')" }.joined(separator: ",")
        try await publish("values \(values)", count: subscriptions.count, kind: kind)
    }

    /// Publishes this many changes, of these many subscriptions in turn, numbered on from the last one.
    func publish(count: Int, lines: Int) async throws {
        try await publish(
            "select place, 's' || (number + place) % \(lines) from generate_series(1, \(count)) as place", count: count,
            kind: "extended")
    }

    /// - Parameter input: A query of the places, from 1, and of the subscriptions.
    private func publish(_ input: String, count: Int, kind: String) async throws {
        try await script(
            """
            begin;
            insert into subledger.change_head (stream_id, number, published_until)
            values (1, 0, '2019-11-08') on conflict do nothing;
            insert into subledger.change (
              stream_id, number, published_at, kind, original_transaction_id, at, cause, product_id, until, reason
            )
            select 1, change_head.number + input.place, '2019-11-08T08:14:00Z', '\(kind)', input.id,
              '2019-11-08T08:14:00Z', 'clock', 'monthly', '2019-12-08', 'Transaction 7 was paid for.'
            from subledger.change_head
            cross join lateral (\(input)) as input (place, id);
            update subledger.change_head set number = number + \(count);
            commit;
            notify subledger_change, '1'
            """)
    }

    func script(_ sql: String) async throws { try await owner.script(sql, deadline: .now + .seconds(20)) }

    /// The first column of a query, as text.
    func values(_ sql: StaticString) async throws -> [String] {
        // A session knows a statement by its name.
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement("test", SQL(stringLiteral: sql)), deadline: .now + .seconds(240))
        var values: [String] = []
        for row in rows { values.append(try row.value(at: 0)) }
        await connection.close()
        return values
    }

    /// The results of all attempts, in order.
    func attempts(_ id: String = OutboundBundle.id) async throws -> [Attempt] {
        try await store.attempts(of: id, limit: 1000).reversed()
    }

    func status(_ id: String = OutboundBundle.id) async throws -> EndpointStatus? { try await store.list(id).first }

    /// Waits until the endpoint has this many attempts.
    func attempted(_ count: Int, _ id: String = OutboundBundle.id) async throws -> [Attempt] {
        try await eventually(within: .seconds(60), "\(count) attempts are recorded") {
            let attempts = try await attempts(id)
            return attempts.count >= count ? attempts : nil
        }
    }

    /// Waits until everything up to the head is delivered.
    func delivered(_ id: String = OutboundBundle.id, within limit: Duration = .seconds(60)) async throws {
        _ = try await eventually(within: limit, "everything is delivered") { () -> Bool? in
            guard let status = try await status(id) else { return nil }
            return status.number == status.head && status.waiting == 0 ? true : nil
        }
    }

    /// Runs a process that delivers, during the test.
    ///
    /// - Parameters:
    ///   - isPaced: Whether its rounds take their time, instead of following each other at once.
    ///   - trustRoots: The issuers of certificates that it accepts.
    ///   - archive: Where the bodies of past months are.
    func delivering(
        timeout: Duration = .seconds(10), allowsPrivate: Bool = true, resolver: HostResolver = .system,
        forwards: [Forward] = [], metrics: MetricsRegistry = MetricsRegistry(), isPaced: Bool = false,
        heldMax: Int = Outbound.Limits.heldMax, trustRoots: NIOSSLTrustRoots = .default, archive: BodyArchive = .none,
        _ test: (OutboundDelivery) async throws -> Void
    ) async throws {
        let logger = logs.logger
        let poller = PostgresPool(database.with(role: "subledger_poller"), limit: 2, logger: logger)
        let reader = PostgresPool(database.with(role: "subledger_reader"), limit: 2, logger: logger)
        let listener = database.with(role: "subledger_reader")
        let (clock, start, origin) = (clock, clock.now, ContinuousClock.now)
        let changes = ChangeSignal(listener: listener, logger: logger)
        let delivery = OutboundDelivery(
            pool: poller, archive: archive, changes: ChangeReader(pool: reader), changeSignal: changes,
            eventSignal: ChangeSignal(listener: listener, channel: "subledger_event", logger: logger),
            leadership: StreamLeadership(Elector(database.with(role: "subledger_poller")), for: .endpoints),
            forwards: forwards, keyFile: keys,
            settings: EndpointClientSettings(
                allowsPrivate: allowsPrivate, resolver: resolver, timeout: timeout, trustRoots: trustRoots),
            clock: StoreClock(
                date: { clock.now }, now: { origin + start.duration(to: clock.now) },
                sleep: { instant in
                    let now = origin + start.duration(to: clock.now)
                    try await Task.sleep(for: isPaced ? instant - now : .milliseconds(5))
                }), heldMax: heldMax,
            random: { 0.5 }, metrics: metrics, logger: logger)
        let running = Task {
            async let listening: Void = changes.run()
            await delivery.run()
            await listening
        }
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await test(delivery))
        } catch {
            outcome = .failure(error)
        }
        running.cancel()
        await running.value
        await poller.close()
        await reader.close()
        try outcome.get()
    }
}
