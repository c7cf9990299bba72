import AppStore
import Encoding
import Foundation
import Logging
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("SQL, HTTP and the fold in memory agree")
struct DifferentialTests {
    /// Bodies of random subscriptions with renewals, gaps, refunds, grace and switches. Each is a snapshot.
    private static func stories(_ count: Int, _ random: inout SeededGenerator) -> [V1Body] {
        let day: Int64 = 86_400_000
        return (0..<count).flatMap { number -> [V1Body] in
            let subscription = String(3_000_000_000_000_000 + number * 100)
            var rows: [V1Body.Row] = []
            var bodies: [V1Body] = []
            var clock = 1_519_084_800_000 + Int64(random.next() % 300) * day
            for period in 0..<Int.random(in: 1...5, using: &random) {
                rows.append(
                    V1Body.Row(
                        String(3_000_000_000_000_000 + number * 100 + period), subscription: subscription,
                        purchase: clock,
                        expires: clock + 30 * day))
                bodies.append(
                    V1Body(
                        type: period == 0 ? "INITIAL_BUY" : "DID_RENEW", rows: rows, subscription: subscription,
                        autoRenew: true
                    ))
                clock += 30 * day
                if random.chance(25) {
                    bodies.append(
                        V1Body(
                            type: "DID_FAIL_TO_RENEW", rows: rows, subscription: subscription, autoRenew: true,
                            graceUntil: clock + 6 * day))
                    clock += Int64(random.next() % 12) * day
                }
                if random.chance(20) {
                    let refunded = Int.random(in: 0...period, using: &random)
                    rows[refunded].cancelled = clock + 1000
                    bodies.append(
                        V1Body(
                            type: "CANCEL", rows: rows, subscription: subscription, autoRenew: false,
                            changed: clock + 1000))
                    clock += day
                }
                if random.chance(20) { clock += Int64(random.next() % 40) * day }
            }
            return bodies
        }
    }

    @Test("all three agree on shuffled, repeated stories at random instants")
    func agree() async throws {
        var random = TestSeed.generator()
        let bodies = Self.stories(40, &random)
        let deliveries = (bodies + bodies.filter { _ in random.chance(20) }).shuffled(using: &random)
        let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
        var ledger = MemoryLedger()
        for body in deliveries {
            let verified = try apps.verify(try body.bytes, receivedAt: TestBundle.now)
            ledger.append(verified.event, receivedAt: TestBundle.now)
        }

        try await TestBundle.withServer { server in
            for body in deliveries {
                let answer = try await server.apple.post(try body.bytes)
                #expect(answer.status == 200)
            }
            try await server.isFolded()
            let connection = try await TestCluster.connect(server.database.with(role: "subledger_reader"))
            for (_, subscription) in ledger.subscriptions(products: [:]) {
                for _ in 0..<8 {
                    let at =
                        Instant(milliseconds: 1_519_000_000_000 + Int64(random.next() % 60_000_000_000))
                        ?? .earliest
                    let id = subscription.originalTransactionId
                    let http = try await server.backend.get("/subscriptions/\(id)?at=\(at)").json
                    let sql = try await connection.query(
                        Self.activeAt, [Parameter(id), Parameter(at)], deadline: .now + .seconds(10))

                    #expect(http["active"] as? Bool == subscription.isActive(at: at), "\(id) at \(at)")
                    #expect(http["status"] as? String == subscription.status(at: at).rawValue, "\(id) at \(at)")
                    #expect(try sql[0].value(Bool.self, at: 0) == subscription.isActive(at: at), "\(id) at \(at)")
                }
            }
            await connection.close()
        }
    }

    private static let activeAt = Statement(
        "test_active_at",
        """
        select exists (
          select
          from subledger.access_period
          where original_transaction_id = $1
            and starts_at <= $2
            and ends_at > $2
        )
        """)

    @Test("the content route accepts several dates at once and rejects a malformed one")
    func content() async throws {
        try await TestBundle.withServer { server in
            for sent in ExampleBodies.magazine { _ = try await server.apple.post(try sent.body.bytes) }
            try await server.isFolded()
            let path = "/subscriptions/\(ExampleBodies.subscription)/content?at=2018-12-31&publishedAt="

            let answer = try await server.subscription(path + "2018-02-01,2018-05-01&publishedAt=2018-06-01")
            let malformed = try await server.backend.get(path + "May")
            let missing = try await server.backend.get(path)

            let issues = try #require(answer.json["issues"] as? [[String: Any]])
            #expect(issues.map { $0["readable"] as? Bool } == [true, false, true])
            #expect(issues[0]["rule"] as? String == "unlocked_at_start")
            #expect((issues[2]["period"] as? [String: Any])?["transactionId"] as? String == "1000000000000003")
            #expect(malformed.status == 400)
            #expect((malformed.json["detail"] as? String)?.hasPrefix("publishedAt must be") == true)
            #expect(missing.status == 400)
        }
    }
}
