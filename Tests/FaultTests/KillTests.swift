import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("kill -9 loses no acknowledged notification")
struct KillTests {
    /// The sender's record of the numbers that were answered 200.
    private final class Ledger: Sendable {
        private let state = Mutex((next: 0, acknowledged: Set<Int>()))

        func take() -> Int {
            state.withLock { state in
                state.next += 1
                return state.next
            }
        }

        func acknowledge(_ number: Int) {
            state.withLock { state in _ = state.acknowledged.insert(number) }
        }

        var acknowledged: Set<Int> { state.withLock { $0.acknowledged } }
    }

    @Test("every notification answered 200 is stored once after server and PostgreSQL are killed under load")
    func killBoth() async throws {
        var random = TestSeed.generator()
        let folder = TestFolder.path("kill")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let ledger = Ledger()
        var doubted: Set<Int> = []

        for round in 1...3 {
            let server = try ServerProcess(dataFolder: folder)
            let client = HTTPClient(port: try await server.ports().public)
            let before = ledger.acknowledged.count
            // Senders continue until the server is killed. Unanswered notifications are sent again in the next round.
            let retries = doubted
            let load = Task {
                await withTaskGroup(of: Set<Int>.self) { group in
                    for sender in 0..<8 {
                        group.addTask { await Self.send(client, ledger, again: sender == 0 ? retries : []) }
                    }
                    return await group.reduce(into: Set<Int>()) { $0.formUnion($1) }
                }
            }
            let wanted = before + 100 + Int(random.next() % 200)
            _ = try await eventually(within: .seconds(60), "\(wanted) are acknowledged") {
                ledger.acknowledged.count >= wanted ? true : nil
            }
            let postmaster = try #require(DataFolder(path: folder).postmaster)
            // Either may be killed first.
            let victims = random.next() % 2 == 0 ? [server.pid, postmaster] : [postmaster, server.pid]
            for victim in victims { kill(victim, SIGKILL) }
            try await server.hasEnded()
            doubted = await load.value
            print("round \(round): killed after \(ledger.acknowledged.count) acknowledged, \(doubted.count) in doubt")
        }

        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        // Apple retries notifications without an answer.
        for number in doubted {
            let answer = try await HTTPClient(port: ports.public).post(try V1Body(number: number).bytes)
            #expect(answer.status == 200)
            ledger.acknowledge(number)
        }
        let backend = HTTPClient(port: ports.private, token: try ServerProcess.token(dataFolder: folder))
        let stored = try await Self.storedNumbers(backend)
        #expect(ledger.acknowledged.count >= 300)
        #expect(Set(stored).isSuperset(of: ledger.acknowledged), "lost: \(ledger.acknowledged.subtracting(stored))")
        #expect(stored.count == Set(stored).count, "a notification is stored twice")
        let last = try #require(stored.last)
        _ = try await eventually("the last event is folded") {
            let subscription = 2_000_000_000_000_000 + last
            return try await backend.get("/subscriptions/\(subscription)").status == 200 ? true : nil
        }
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    @Test("on SIGTERM under load the server exits with status 0, and every notification answered 200 is stored")
    func gracefulStop() async throws {
        let folder = TestFolder.path("term")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let ledger = Ledger()
        let first = try ServerProcess(dataFolder: folder)
        let client = HTTPClient(port: try await first.ports().public)
        let load = Task {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 { group.addTask { _ = await Self.send(client, ledger, again: []) } }
            }
        }
        _ = try await eventually("some are acknowledged") { ledger.acknowledged.count >= 100 ? true : nil }

        first.signal(SIGTERM)
        try await first.hasEnded()
        await load.value

        #expect(first.exitStatus == 0)
        #expect(first.log.contains("stopped"))
        let second = try ServerProcess(dataFolder: folder)
        let port = try await second.ports().private
        let token = try ServerProcess.token(dataFolder: folder)
        let stored = try await Self.storedNumbers(HTTPClient(port: port, token: token))
        #expect(Set(stored).isSuperset(of: ledger.acknowledged))
        #expect(stored.count == Set(stored).count)
        second.signal(SIGTERM)
        try await second.hasEnded()
    }

    /// Sends until there is no answer; returns the numbers with an unknown outcome.
    private static func send(_ client: HTTPClient, _ ledger: Ledger, again: Set<Int>) async -> Set<Int> {
        var doubted: Set<Int> = []
        var waiting = Array(again)
        while true {
            let number = waiting.popLast() ?? ledger.take()
            guard let body = try? V1Body(number: number).bytes, let answer = try? await client.post(body) else {
                return doubted.union([number]).union(waiting)
            }
            if answer.status == 200 {
                ledger.acknowledge(number)
            } else {
                doubted.insert(number)
            }
        }
    }

    /// The numbers of all events in the log, in the order of their positions.
    private static func storedNumbers(_ backend: HTTPClient) async throws -> [Int] {
        var numbers: [Int] = []
        var after = 0
        while true {
            // After the kills, the database may be busy for a while.
            let place = after
            let events = try await eventually("events after \(place) are read") {
                try await backend.get("/events?app=\(V1Body.app)&after=\(place)&limit=1000").json["events"]
                    as? [[String: Any]]
            }
            guard !events.isEmpty else { return numbers }
            for event in events {
                after += 1
                #expect(event["position"] as? Int == after, "positions have a gap")
                let facts = try #require(event["facts"] as? [String: Any])
                let transaction = try #require((facts["transactions"] as? [[String: Any]])?.first)
                let id = try #require((transaction["transactionId"] as? String).flatMap { Int($0) })
                numbers.append(id - 2_000_000_000_000_000)
            }
        }
    }
}
