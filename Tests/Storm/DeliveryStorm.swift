import Crypto
import EventLog
import Foundation
import Postgres
import Simulation
import Synchronization
import TestSupport

/// Endpoints for the changes of the load's app, and a place to which its notifications are passed on, during a storm. The
/// receiver sometimes fails, too.
final class DeliveryStorm: Sendable {
    private let report: StormReport
    private let receiver: DeliveryReceiver
    private let ledger = DeliveryLedger()
    private let state: Mutex<State>
    private let ids = Mutex<[String]>([])

    private struct State {
        var random: SplitMix64
        var isHealed = false
        var failed = 0
        /// What was passed on, in the order in which it arrived first.
        var forwarded: [Forwarded] = []
        var known: Set<String> = []
    }

    private struct Forwarded {
        let streamId: Int32
        let position: Int64
        let digest: Data
    }

    private enum Limits {
        /// Of a hundred requests, those that are answered 500, and those whose connection is reset instead.
        static let failing = 3
        static let reset = 1
        /// How long all deliveries may take after the last fault.
        static let healingMax = Duration.seconds(150)
        /// What has failed often waits for minutes unless it is made due.
        static let pause = Duration.seconds(5)
    }

    private static let environments = ["production", "sandbox"]

    init(seed: UInt64, report: StormReport) async throws {
        self.report = report
        state = Mutex(State(random: SplitMix64(seed: seed, 8)))
        let hook = Mutex<(@Sendable (DeliveryReceiver.Request) -> DeliveryReceiver.Reply)?>(nil)
        receiver = DeliveryReceiver { request in hook.withLock { $0 }?(request) ?? .status(503) }
        try await receiver.start()
        hook.withLock { hook in hook = { [weak self] request in self?.answer(request) ?? .status(503) } }
    }

    /// The member `forward` of the app, in JSON.
    var forward: String { "[{\"url\":\"http://127.0.0.1:\(receiver.port)/forward\"}]" }

    /// Settings of the servers, which run as another user if this one is root.
    static func environment(_ folder: String) throws -> [String: String] {
        let folder = folder + "/keys"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o777])
        // The attributes of a new folder are masked.
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder)
        return ["SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS": "true", "SUBLEDGER_WEBHOOK_KEYS": folder + "/webhook-keys.json"]
    }

    private func answer(_ request: DeliveryReceiver.Request) -> DeliveryReceiver.Reply {
        let draw = state.withLock { state in
            let draw = state.isHealed ? 100 : Int.random(in: 0..<100, using: &state.random)
            if draw < Limits.failing { state.failed += 1 }
            return draw
        }
        if draw < Limits.reset { return .reset }
        if draw < Limits.failing { return .status(500) }
        if request.path == "/forward" {
            note(request)
        } else {
            ledger.note(request)
        }
        return .status(204)
    }

    private func note(_ request: DeliveryReceiver.Request) {
        let parts = request.id.split(separator: "_")
        guard parts.count > 2, let streamId = Int32(parts[1]), let position = Int64(parts[2]) else {
            return report.problem("a notification was passed on with the id \(request.id)")
        }
        let digest = Data(SHA256.hash(data: Data(request.body.readableBytesView)))
        state.withLock { state in
            guard state.known.insert(request.id).inserted else { return }
            state.forwarded.append(Forwarded(streamId: streamId, position: position, digest: digest))
        }
    }

    /// Adds an endpoint for each environment, from the first change on.
    func addEndpoints(_ client: StormClient, _ token: String, _ port: Int) async {
        for environment in Self.environments {
            let wish =
                "{\"app\":\"\(StormLoad.app)\",\"environment\":\"\(environment)\",\"after\":0,"
                + "\"url\":\"http://127.0.0.1:\(receiver.port)/\(environment)\"}"
            let answer = await client.post(Array(wish.utf8), to: port, path: "/webhooks", token: token)
            guard answer?.status == 201, let id = answer?.endpoint else {
                report.problem("an endpoint was not added: \(answer?.text ?? "no answer")")
                continue
            }
            ids.withLock { $0.append(id) }
        }
    }

    func end() async { await receiver.kill() }

    // MARK: Checks

    /// Checks that every change and every notification has arrived, unchanged and in order.
    func check(_ run: StormRun, _ token: String) async throws {
        state.withLock { $0.isHealed = true }
        let deadline = ContinuousClock.now + Limits.healingMax
        var heads = try await heads(run.database)
        while ContinuousClock.now < deadline {
            heads = try await self.heads(run.database)
            if heads.allSatisfy({ ledger.count("/\($0.environment)") == $0.changes }),
                state.withLock(\.forwarded).count == heads.reduce(0, { $0 + $1.events })
            {
                break
            }
            // What has failed often is not due for minutes.
            let forwards = try await forwards(run.database)
            for id in ids.withLock({ $0 }) + forwards {
                guard let port = run.servers[1].ports?.private else { continue }
                _ = await run.sender.client.post([], to: port, path: "/webhooks/\(id)/enable", token: token)
            }
            try await Task.sleep(for: Limits.pause)
        }
        for head in heads {
            let arrived = ledger.numbers("/\(head.environment)")
            let missing = Set(1...max(1, head.changes)).subtracting(arrived).subtracting(head.changes == 0 ? [1] : [])
            if !missing.isEmpty {
                run.report.addLost(missing.count)
                run.report.problem("\(missing.count) changes in \(head.environment) were not delivered")
            }
        }
        for problem in ledger.problems.prefix(10) { run.report.problem("delivery out of order or changed: \(problem)") }
        try await checkForwarded(run)
        let (failed, forwarded) = state.withLock { ($0.failed, $0.forwarded.count) }
        run.report.log(
            "\(heads.reduce(0) { $0 + $1.changes }) changes delivered in \(ledger.attempts) attempts, \(forwarded) "
                + "notifications passed on, \(failed) requests failed by the receiver")
    }

    private struct Head {
        let environment: String
        let changes: Int
        /// Those that are passed on.
        let events: Int
    }

    private func heads(_ database: StormDatabase) async throws -> [Head] {
        try await database.rows(Statements.heads, [Parameter(StormLoad.app)]).map { row in
            Head(
                environment: try row.value(at: 0), changes: Int(try row.value(Int64.self, at: 1)),
                events: Int(try row.value(Int64.self, at: 2)))
        }
    }

    private func forwards(_ database: StormDatabase) async throws -> [String] {
        try await database.rows(Statements.forwards).map { try $0.value(at: 0) }
    }

    private func checkForwarded(_ run: StormRun) async throws {
        struct Key: Hashable {
            let streamId: Int32
            let position: Int64
        }
        var expected: [Key: (digest: Data, line: String)] = [:]
        for row in try await run.database.rows(Statements.events, [Parameter(StormLoad.app)]) {
            expected[Key(streamId: try row.value(at: 0), position: try row.value(at: 1))] = (
                Data(SHA256.hash(data: try row.value([UInt8].self, at: 2))), try row.value(at: 3)
            )
        }
        var last: [String: Int64] = [:]
        var left = expected
        for forwarded in state.withLock(\.forwarded) {
            let key = Key(streamId: forwarded.streamId, position: forwarded.position)
            guard let event = expected[key] else {
                run.report.problem("a notification was passed on that is not in the log: \(key)")
                continue
            }
            left[key] = nil
            if event.digest != forwarded.digest { run.report.problem("the body passed on at \(key) is another one") }
            let line = "\(key.streamId) \(event.line)"
            if let before = last[line], before > key.position {
                run.report.problem("\(line): position \(key.position) was passed on after \(before)")
            }
            last[line] = key.position
        }
        if !left.isEmpty {
            run.report.addLost(left.count)
            run.report.problem("\(left.count) notifications were not passed on")
        }
    }

    private enum Statements {
        static let heads = Statement(
            "storm_delivery_heads",
            """
            select stream.environment, coalesce(change_head.number, 0),
              (select count(*) from subledger.event where event.stream_id = stream.stream_id)
            from subledger.stream
            left join subledger.change_head using (stream_id)
            where app = $1
              and environment in ('production', 'sandbox')
            """)

        static let forwards = Statement(
            "storm_forwards",
            """
            select endpoint_id
            from subledger.endpoint
            where purpose = 'events'
              and state = 'active'
            """)

        static let events = Statement(
            "storm_forwarded_events",
            """
            select event.stream_id, event.position, subledger.event_body(event.stream_id, event.position),
              coalesce(
                facts #>> '{transactions,0,originalTransactionId}', facts #>> '{renewals,0,originalTransactionId}',
                position::text
              )
            from subledger.event
            join subledger.stream using (stream_id)
            where app = $1
              and environment in ('production', 'sandbox')
            order by event.stream_id, event.position
            """)
    }
}
