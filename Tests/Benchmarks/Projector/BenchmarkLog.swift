import AppStore
import Encoding
import EventLog
import Logging
import Postgres
import Projector
import Simulation
import TestSupport

/// A log of any length: a few thousand events from bodies, and copies of them about other subscriptions.
struct BenchmarkLog {
    private let owner: PostgresConnection
    private let originals: Int
    /// The time of the change feed: half of the first events were received before it, so many subscriptions are active.
    let middle: Instant

    static func make(in database: ConnectionConfiguration) async throws -> BenchmarkLog {
        let quiet = Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(database.with(role: "subledger_receiver"), limit: 2, logger: quiet)
        let notifications = try await notifications()
        let appender = Appender(pool: pool, logger: quiet)
        let running = Task { await appender.run() }
        for notification in notifications {
            _ = try await appender.append(PreparedEvent(notification.0, receivedAt: notification.1))
        }
        await appender.stop()
        await running.value
        await pool.close()
        return BenchmarkLog(
            owner: try await TestCluster.connect(database), originals: notifications.count,
            middle: notifications.map(\.1).sorted()[notifications.count / 2])
    }

    /// Fills a database with a log and its projections, as a running server would leave them.
    ///
    /// - Parameter next: The events that are to follow the first ones, from the subscriptions so far and the events that
    ///   follow already; nil if they suffice. Fewer than ``step`` more are folded within a few minutes.
    static func filled(
        _ database: SharedDatabase, next: (_ subscriptions: Int, _ events: Int) -> Int?
    ) async throws -> BenchmarkLog {
        let log = try await make(in: database.configuration)
        var session = database.configuration.with(role: "subledger_projector")
        session.sessionSettings.merge(Projector.planSettings) { $1 }
        let quiet = Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() })
        let pool = PostgresPool(session, limit: Projector.connectionsMax, logger: quiet)
        let projector = Projector(pool: pool, listener: session, now: { log.middle }, logger: quiet)
        var events = 0
        while true {
            guard await projector.foldAllStreams() else { throw Unusable() }
            let made = Int(try await database.lines("select count(*)::text from subledger.subscription")[0]) ?? 0
            progress("\(made) subscriptions")
            guard let more = next(made, events) else { break }
            events = more
            _ = try await log.grow(to: events)
        }
        await pool.close()
        let owner = try await TestCluster.connect(database.configuration)
        // A running server does both as it goes.
        for work in ["vacuum analyze", "checkpoint"] {
            try await owner.script(work, deadline: .now + .seconds(1800))
        }
        await owner.close()
        return log
    }

    /// Events that are added before the next are folded.
    static let step = 250_000

    /// Notifications, one third of them in version 1.
    private static func notifications() async throws -> [(VerifiedNotification, Instant)] {
        let app = SimulatedApp(bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: nil)
        var settings = Simulation.Settings(app: app)
        settings.subscriptions = 1480
        settings.order = .shuffled
        guard let simulation = Simulation(settings),
            let roots = RootCertificates(file: TestCertificates.standard.rootDER)
        else { throw Unusable() }
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: roots))
        var notifications: [(VerifiedNotification, Instant)] = []
        for delivery in simulation.deliveries {
            if notifications.count % 3 == 2 {
                let body = BodySize.middle.body(account: notifications.count)
                notifications.append(
                    (try await verifier.verify(body, receivedAt: delivery.receivedAt), delivery.receivedAt))
            }
            notifications.append(
                (try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt), delivery.receivedAt))
        }
        return notifications
    }

    /// Adds copies until `size` events follow the first ones, and returns how many there were before.
    func grow(to size: Int) async throws -> Int {
        let before = try await count()
        let last = Parameter(Int64(originals + size))
        _ = try await owner.query(
            Self.copy, [Parameter(Int64(originals)), Parameter(Int64(before)), last], deadline: .now + .seconds(1200))
        _ = try await owner.query(Self.moveHead, [last], deadline: .now + .seconds(20))
        for work in ["vacuum analyze subledger.event", "checkpoint"] {
            try await owner.script(work, deadline: .now + .seconds(600))
        }
        return before - originals
    }

    private func count() async throws -> Int {
        let rows = try await owner.query(
            Statement("head", "select position from subledger.stream_head"), deadline: .now + .seconds(20))
        return Int(try rows[0].value(Int64.self, at: 0))
    }

    /// Prefixes the ids of an original with the number of the copy. The account tokens get it, too: a token that all
    /// copies share would make them one customer.
    private static let copy = Statement(
        "copy",
        """
        insert into subledger.event (
          stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts, defects,
          body_sha256, chain
        )
        select stream_id, copy.position, received_at, occurred_at, source, type, subtype, kind,
          sha256(dedupe_key || int8send(copy.position)),
          regexp_replace(
            regexp_replace(facts::text, '"([1789][0-9]{15,17}|2[0-9]{15})"', '"' || copy.number || '\\1"', 'g'),
            '("appAccountToken": ")[0-9a-f]{8}', '\\1' || lpad(to_hex(copy.number), 8, '0'), 'g')::jsonb,
          defects, sha256('{}'), chain
        from generate_series($2 + 1, $3) as copy_position (position)
        cross join lateral (
          select copy_position.position, (copy_position.position - 1) / $1 as number,
            (copy_position.position - 1) % $1 + 1 as original
        ) as copy
        join subledger.event on event.stream_id = 1 and event.position = copy.original
        """)

    private static let moveHead = Statement(
        "move_head",
        """
        update subledger.stream_head
        set position = $1
        where stream_id = 1
        """)
}
