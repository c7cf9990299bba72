import Encoding
import Foundation
import Logging
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated store is an HTTP server with a clock")
struct SimulatedStoreTests {
    private static let secret = "0123456789abcdef0123456789abcdef"

    private struct TestBundle {
        let simulation: Simulation
        let store: SimulatedStore
        let client: HTTPClient

        var account: SimulatedAccount { simulation.storyteller.accounts(ofStory: 0)[0] }
        var subscription: String { account.subscriptions[0].originalTransactionId }

        /// The body of a request about the first account's first receipt.
        var question: [UInt8] { question(createdAt: account.firstPurchase) }

        func question(createdAt instant: Instant) -> [UInt8] {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("receipt-data", Base64.text(simulation.receipt(of: account, createdAt: instant)))
                writer.member("password", SimulatedStoreTests.secret)
            }
            return writer.bytes
        }

        func ask(_ host: String = "sandbox") async throws -> HTTPAnswer {
            try await client.post(question, to: "/\(host)/verifyReceipt")
        }
    }

    private static func with(
        faults: Double = 0, slowness: Duration = .seconds(60), _ test: (TestBundle) async throws -> Void
    ) async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: "com.example.magazine", sharedSecret: secret))
        settings.app.receiptCharacters = 2000
        settings.stories = [.refundReversed]
        settings.subscriptions = 3
        let simulation = try #require(Simulation(settings))
        let store = SimulatedStore(simulation, faults: faults, slowness: slowness)
        try await store.served { client in
            try await test(TestBundle(simulation: simulation, store: store, client: client))
        }
    }

    @Test("each host answers receipts of its environment, and other methods with 21000")
    func hosts() async throws {
        try await Self.with { bundle in
            let production = try await bundle.ask("production")
            let sandbox = try await bundle.ask("sandbox")
            let read = try await bundle.client.get("/sandbox/verifyReceipt")

            #expect(production.status == 200 && production.body == "{\"status\":21007}")
            #expect(sandbox.status == 200 && sandbox.json["status"] as? Int == 0)
            #expect(sandbox.headers["content-type"] == "application/json")
            #expect(read.status == 200 && read.body == "{\"status\":21000}")
        }
    }

    @Test("the clock is set in the process and over HTTP, and decides what is known")
    func clock() async throws {
        try await Self.with { bundle in
            func rows() async throws -> Int {
                (try await bundle.ask().json["latest_receipt_info"] as? [Any])?.count ?? 0
            }
            let first = bundle.account.firstPurchase
            let purchases = bundle.account.subscriptions[0].purchases.count

            #expect(try await bundle.client.get("/clock").body == "{\"now\":\"2026-06-30T23:59:59.000Z\"}\n")
            let all = try await rows()
            bundle.store.now = first
            let one = try await rows()
            let set = try await bundle.client.put("{\"now\":\"2024-12-31T00:00:00Z\"}", to: "/clock")
            let none = try await rows()
            let refused = try await bundle.client.put("{\"now\":\"yesterday\"}", to: "/clock")

            // One more if the user restored a purchase on another device.
            #expect((purchases...purchases + 1).contains(all))
            #expect(one == 1 && none == 0)
            #expect(set.body == "{\"now\":\"2024-12-31T00:00:00.000Z\"}\n")
            #expect(refused.status == 400 && bundle.store.now == Instant(iso8601: "2024-12-31")!)
        }
    }

    @Test("requests are counted by host, receipt and answer")
    func counts() async throws {
        try await Self.with { bundle in
            for _ in 0..<3 { _ = try await bundle.ask() }
            _ = try await bundle.ask("production")
            let later = bundle.question(createdAt: Simulation.end)
            _ = try await bundle.client.post(later, to: "/sandbox/verifyReceipt")
            _ = try await bundle.client.post(Array("{}".utf8), to: "/sandbox/verifyReceipt")

            let counts = bundle.store.counts
            #expect(counts.map(\.count) == [3, 1, 1, 1])
            #expect(counts.map(\.question.status) == [0, 21007, 0, 21002])
            #expect(counts.map(\.question.host) == [.sandbox, .production, .sandbox, .sandbox])
            #expect(counts[0].question.receipt == counts[1].question.receipt)
            #expect(counts[0].question.receipt?.count == 64 && counts[2].question.receipt?.count == 64)
            #expect(counts[0].question.receipt != counts[2].question.receipt && counts[3].question.receipt == nil)
            #expect(counts.prefix(3).allSatisfy { $0.question.subscriptions == [bundle.subscription] })

            let listed = try await bundle.client.get("/requests")
            let requests = try #require(listed.json["requests"] as? [[String: Any]])
            #expect(requests.map { $0["count"] as? Int } == [3, 1, 1, 1])
            #expect(requests[0]["host"] as? String == "sandbox" && requests[0]["status"] as? Int == 0)
            #expect(requests[0]["lastAt"] as? String == "2026-06-30T23:59:59.000Z")
            #expect(requests[3]["receipt"] == nil && requests[3]["subscriptions"] as? [String] == [])
        }
    }

    @Test("a port that is taken is an error with its number")
    func takenPort() async throws {
        try await Self.with { bundle in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let second = StoreListener(bundle.store, port: bundle.client.port, logger: logger) { _ in }

            let error = await #expect(throws: StoreListenError.self) { try await second.run() }

            let problem = "cannot serve the store on port \(bundle.client.port): "
            #expect(error?.description.hasPrefix(problem) == true)
        }
    }

    @Test("a deleted account is answered with 21010, and an unknown one cannot be deleted")
    func deletion() async throws {
        try await Self.with { bundle in
            let other = bundle.simulation.storyteller.accounts(ofStory: 1)[0].subscriptions[0].originalTransactionId

            let unknown = try await bundle.client.send("DELETE", "/accounts/2000010000009999")
            let otherDeleted = try await bundle.client.send("DELETE", "/accounts/\(other)")
            let before = try await bundle.ask()
            let deleted = bundle.store.deleteAccount(of: bundle.subscription)
            let after = try await bundle.ask()

            #expect(unknown.status == 404 && otherDeleted.status == 204 && deleted)
            #expect(before.json["status"] as? Int == 0)
            #expect(after.body == "{\"status\":21010}")
        }
    }
}

// MARK: - Faults

extension SimulatedStoreTests {
    @Test("an injected fault answers the given number of requests, then the store answers again")
    func injected() async throws {
        try await Self.with { bundle in
            bundle.store.inject(.status(21005, nil), requests: 2)
            bundle.store.inject(.overloaded)

            let first = try await bundle.ask()
            let second = try await bundle.ask()
            let third = try await bundle.ask()
            let fourth = try await bundle.ask()

            #expect(first.body == "{\"status\":21005}" && second.body == "{\"status\":21005}")
            #expect(third.status == 503 && third.headers["content-type"] == "text/html")
            #expect(fourth.json["status"] as? Int == 0)
            #expect(bundle.store.counts.map(\.question.fault) == ["status_21005", "overloaded", nil])
            #expect(bundle.store.counts.map(\.question.status) == [21005, nil, 0])
        }
    }

    @Test("a dropped request has no answer")
    func dropped() async throws {
        try await Self.with { bundle in
            // A client may try again on a new connection.
            bundle.store.inject(.dropped, requests: 10)

            await #expect(throws: (any Error).self) { try await bundle.ask() }
            #expect(bundle.store.counts.map(\.question.fault) == ["dropped"])
        }
    }

    @Test("a slow answer comes after the delay")
    func slow() async throws {
        try await Self.with(slowness: .milliseconds(50)) { bundle in
            bundle.store.inject(.slow)
            let asked = ContinuousClock.now

            let answer = try await bundle.ask()

            #expect(ContinuousClock.now - asked >= .milliseconds(50))
            #expect(answer.json["status"] as? Int == 0)
        }
    }

    @Test("the answer is cut off, marked as HTML, larger than 1 MiB or without purchases")
    func bodies() async throws {
        try await Self.with { bundle in
            for fault in [StoreFault.cutOff, .markedAsHTML, .padded, .withoutPurchases] { bundle.store.inject(fault) }

            let cutOff = try await bundle.ask()
            let html = try await bundle.ask()
            let padded = try await bundle.ask()
            let empty = try await bundle.ask()

            #expect(cutOff.status == 200 && cutOff.json.isEmpty && !cutOff.body.isEmpty)
            #expect(html.headers["content-type"] == "text/html" && html.json["status"] as? Int == 0)
            #expect(padded.body.utf8.count > 1 << 20 && padded.json["status"] as? Int == 0)
            #expect((empty.json["receipt"] as? [String: Any])?["in_app"] as? [String] == [])
        }
    }

    @Test("with faults, every request has one if the fraction is 1, and the same again at the same instant")
    func fraction() async throws {
        try await Self.with(faults: 1) { bundle in
            func names() -> [String?] {
                (0..<50).map { number in
                    bundle.store.now = Simulation.end.advanced(byMilliseconds: -Int64(number) * 600_000)
                    let before = Set(bundle.store.counts)
                    _ = bundle.store.reaction(to: bundle.question, host: .sandbox)
                    return bundle.store.counts.first { !before.contains($0) }?.question.fault
                }
            }

            let first = names()

            #expect(first.allSatisfy { $0 != nil } && Set(first).count > 4)
            #expect(first == names())
        }
    }
}
