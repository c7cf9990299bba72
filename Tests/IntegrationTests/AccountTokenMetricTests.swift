import Foundation
import TestSupport
import Testing

@Suite("Account tokens that identify nobody have metrics of their own")
struct AccountTokenMetricTests {
    @Test("the nil UUID is counted as an ignored token, and not as a field that could not be read")
    func counted() async throws {
        let folder = TestFolder.path("account-tokens")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var body = V1Body(type: "INITIAL_BUY")
        body["latest_receipt_info"] = [
            "transaction_id": "1000000000000001", "original_transaction_id": "1000000000000001",
            "product_id": "com.example.magazine.monthly",
            "app_account_token": "00000000-0000-0000-0000-000000000000",
        ]
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()

        let answer = try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try body.bytes).status
        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(answer == 200)
        #expect(metrics.contains("\nsubledger_account_tokens_ignored_total{reason=\"nil_uuid\"} 1\n"))
        #expect(metrics.contains("\nsubledger_defects_total 0\n"))
    }

    @Test("a token of eleven store accounts is counted once as shared")
    func shared() async throws {
        let folder = TestFolder.path("shared-tokens")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        let (apple, operations) = (HTTPClient(port: ports.public), HTTPClient(port: ports.private))
        for number in 1...12 {
            let id = "\(1_000_000_000_000_000 + number)"
            let row = V1Body.Row(
                id, subscription: id, purchase: 1_560_000_000_000, expires: 1_576_000_000_000,
                account: "cccccccc-0000-4000-8000-000000000003")
            let body = V1Body(type: "INITIAL_BUY", rows: [row], subscription: id, autoRenew: true)
            #expect(try await apple.post(try body.bytes).status == 200)
        }
        let counted = try await eventually("the token is counted") {
            let metrics = try await operations.get("/metrics").body
            return metrics.contains("\nsubledger_account_tokens_shared_total 0\n") ? nil : metrics
        }
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(counted.contains("\nsubledger_account_tokens_shared_total 1\n"))
    }
}
