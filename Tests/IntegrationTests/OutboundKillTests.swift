import Foundation
import Logging
import Postgres
import TestSupport
import Testing

@Suite("Webhooks survive kills of the server that delivers, of the database and of the receiver")
struct OutboundKillTests {
    /// The number of kills; SUBLEDGER_TEST_KILLS sets a larger one.
    private static let kills = TestScale.number("SUBLEDGER_TEST_KILLS", 6)
    /// Changes that are published before each kill.
    private static let changes = 200
    private static let path = "/hook"

    enum Victim: String, CaseIterable { case server, database, receiver }

    @Test("every change arrives, in order for each subscription and with one id, whatever is killed")
    func killed() async throws {
        var random = TestSeed.generator()
        let folder = TestFolder.path("kills")
        let cluster = try await EmbeddedServer.start(
            folder: folder, logger: Logger(label: "kills", factory: { _ in SwiftLogNoOpLogHandler() }))
        let supervisor = Task { await cluster.supervise() }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let database = try await SharedDatabase.make(on: cluster)
        let ledger = DeliveryLedger()
        let receiver = DeliveryReceiver { request in
            ledger.note(request)
            return .status(204)
        }
        try await receiver.start()
        let outcome: Result<[Victim: Int], any Error>
        do {
            outcome = .success(try await kill(database, cluster, receiver, ledger, &random))
        } catch {
            outcome = .failure(error)
        }
        await receiver.kill()
        supervisor.cancel()
        await cluster.stop()
        let killed = try outcome.get()
        print("\(killed.map { "\($0.value) kills of the \($0.key.rawValue)" }.sorted()), \(ledger.attempts) attempts")
    }

    private func kill(
        _ database: SharedDatabase, _ cluster: EmbeddedServer, _ receiver: DeliveryReceiver, _ ledger: DeliveryLedger,
        _ random: inout some RandomNumberGenerator
    ) async throws -> [Victim: Int] {
        let keys = TestFolder.path("webhook-keys.json")
        let more = ["SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS": "true", "SUBLEDGER_WEBHOOK_KEYS": keys]
        let reader = try database.server("projector,reader", more: more)
        defer { reader.signal(SIGKILL) }
        let admin = HTTPClient(port: try await reader.privatePort(), token: try await database.token(.admin))
        try await database.script(
            """
            insert into subledger.stream (stream_id, app, environment)
            values (1, 'com.example.magazine', 'production')
            """)
        let wish = try JSONSerialization.data(
            withJSONObject: ["app": "com.example.magazine", "url": "http://127.0.0.1:\(receiver.port)\(Self.path)"])
        let added = try await admin.post(Array(wish), to: "/webhooks")
        #expect(added.status == 201, "\(added.body)")
        let id = try #require((added.json["endpoint"] as? [String: Any])?["id"] as? String)
        var senders = try await Senders(database) { try database.server("poller", more: more) }
        defer { for server in [senders.leader, senders.follower] { server.signal(SIGKILL) } }

        var killed: [Victim: Int] = [:]
        for kill in 1...Self.kills {
            let published = kill * Self.changes
            try await publish(through: published, database)
            let target = published - Int(random.next() % UInt64(Self.changes))
            _ = try await eventually("\(target) changes have arrived") {
                ledger.count(Self.path) >= target ? true : nil
            }
            // Each kind is among the first ones.
            let drawn: [Victim] = [.server, .server, .database, .receiver]
            let victim = kill <= 3 ? Victim.allCases[kill - 1] : drawn[Int(random.next() % 4)]
            killed[victim, default: 0] += 1
            switch victim {
            case .server: try await senders.killLeader(database) { try database.server("poller", more: more) }
            case .database:
                if let postmaster = await cluster.postmasterPID { _ = Glibc.kill(postmaster, SIGKILL) }
            case .receiver:
                await receiver.kill()
                try await receiver.start()
            }
        }
        // What has failed more than once waits for minutes.
        _ = try await eventually("what waits is due") {
            try? await admin.post([], to: "/webhooks/\(id)/enable").status == 200 ? true : nil
        }
        _ = try await eventually("all changes have arrived") {
            ledger.count(Self.path) == Self.kills * Self.changes ? true : nil
        }

        #expect(ledger.numbers(Self.path) == Set(1...(Self.kills * Self.changes)))
        #expect(ledger.problems == [])
        return killed
    }

    /// Publishes changes up to a number. Can be repeated if the database was killed meanwhile.
    private func publish(through number: Int, _ database: SharedDatabase) async throws {
        _ = try await eventually("changes are published") {
            try? await database.script(
                """
                begin;
                insert into subledger.change_head (stream_id, number, published_until)
                values (1, 0, '2026-01-01') on conflict do nothing;
                insert into subledger.change (
                  stream_id, number, published_at, kind, original_transaction_id, at, cause, product_id
                )
                select 1, place, now(), 'extended', 's' || place % 23, now(), 'clock', 'p'
                from subledger.change_head
                cross join generate_series(change_head.number + 1, \(number)) as place;
                update subledger.change_head set number = \(number);
                commit;
                notify subledger_change, '1'
                """)
        }
    }
}

/// Two processes of which one delivers.
private struct Senders {
    private(set) var leader: ServerProcess
    private(set) var follower: ServerProcess
    private var holder: String

    init(_ database: SharedDatabase, _ start: () throws -> ServerProcess) async throws {
        leader = try start()
        holder = try await eventually("a process delivers") { try await Self.holder(database) }
        follower = try start()
    }

    /// Kills the process that delivers, and waits until the other one does.
    mutating func killLeader(_ database: SharedDatabase, _ start: () throws -> ServerProcess) async throws {
        let found = try await eventually("a process delivers") {
            try restartEnded(start)
            return try? await Self.holder(database)
        }
        // While the database was away, the other one can have taken over.
        if found != holder { swap(&leader, &follower) }
        leader.signal(SIGKILL)
        try await leader.hasEnded()
        // As if the lease of the dead process had run out.
        try await database.script("update subledger.lease set until = clock_timestamp() where holder = '\(found)'")
        holder = try await eventually("the other one delivers") {
            try restartEnded(start)
            return (try? await Self.holder(database)).flatMap { $0 == found ? nil : $0 }
        }
        leader = follower
        follower = try start()
    }

    /// Starts the process that waits again, as a service manager does: if the database was away when it started, it ended.
    private mutating func restartEnded(_ start: () throws -> ServerProcess) throws {
        if follower.exitStatus != nil { follower = try start() }
    }

    /// The process whose lease has not run out.
    private static func holder(_ database: SharedDatabase) async throws -> String? {
        try await database.lines(
            "select holder from subledger.lease where work = 'endpoints' and until > clock_timestamp()"
        ).first
    }
}
