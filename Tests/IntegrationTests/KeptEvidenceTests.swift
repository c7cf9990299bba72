import AppStore
import Crypto
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("Every authentic body that is answered 200 is stored")
struct KeptEvidenceTests {
    /// SHA-256 of every stored body in hexadecimal, rebuilt from its stored form.
    private static let kept: StaticString = """
        select encode(sha256(body), 'hex')
        from (
          select subledger.event_body(stream_id, position) as body
          from subledger.event
          union all
          select subledger.rebuilt_body(stream_id, body)
          from subledger.event_conflict
        ) as kept
        """

    private static func digest(_ body: some Sequence<UInt8>) -> String {
        SHA256.hash(data: Array(body)).map { String(format: "%02x", $0) }.joined()
    }

    /// A body from a small set: repeats, equal facts with different receipts, bodies without a subscription, and
    /// different bytes under one notificationUUID.
    private static func body(using random: inout SeededGenerator) -> (sent: [UInt8], kept: String) {
        if random.chance(30) {
            let body = SignedBody.make(signedAt: 1_757_000_000_000 + Int64.random(in: 0...2, using: &random))
            return (body, digest(body))
        }
        let types = ["DID_CHANGE_RENEWAL_PREF", "CONSUMPTION_REQUEST", "REFUND"]
        var body = V1Body(
            type: types.randomElement(using: &random) ?? "", subscription: random.chance(50) ? "1" : "2",
            transaction: "3")
        body["environment"] = "Sandbox"
        body["auto_renew_product_id"] = random.chance(50) ? "gold" : "silver"
        if random.chance(30) {
            body["unified_receipt"] = ["latest_receipt": random.chance(50) ? "b25l" : "dHdv"]
        }
        let sent = (try? body.bytes) ?? []
        // The stored form, without the secret.
        let stored = String(decoding: sent, as: UTF8.self).replacingOccurrences(of: V1Body.secret, with: "")
        return (sent, digest(stored.utf8))
    }

    @Test(
        "each generated body answered 200 is stored, among repeats, similar bodies and conflicts",
        arguments: 0..<3)
    func generated(number: Int) async throws {
        var random = TestSeed.generator(100 + number)
        let app = App(bundleId: SignedBody.app, sharedSecrets: [V1Body.secret])
        try await TestBundle.withServer(apps: [app], roots: SignedBody.roots) { server in
            let bodies = (0..<120).map { _ in Self.body(using: &random) }
            let answered = try await withThrowingTaskGroup(of: String?.self) { group in
                for body in bodies {
                    group.addTask { try await server.apple.post(body.sent).status == 200 ? body.kept : nil }
                }
                return try await group.reduce(into: [String?]()) { $0.append($1) }
            }
            let customers = ["a", "b", "a"]
            for customer in customers {
                let answer = try await server.owner.put(
                    #"{"links":[{"originalTransactionId":"1"}]}"#,
                    to: "/customers/\(customer)/links?app=\(SignedBody.app)&environment=sandbox")
                #expect(answer.status == 200, "\(answer.body)")
            }

            #expect(answered.count == bodies.count && !answered.contains(nil))
            let kept = Set(try await server.sql(Self.kept))
            #expect(Set(answered.compactMap(\.self)).subtracting(kept).isEmpty, "seed \(TestSeed.value)")
            let links = try await server.sql(
                "select facts #>> '{link,backendCustomerId}' from subledger.event where source = 'backend' order by position"
            )
            #expect(links == ["a", "b"])
        }
    }
}
