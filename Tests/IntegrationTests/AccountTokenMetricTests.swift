import Foundation
import TestSupport
import Testing

@Suite("Account tokens that are ignored have a metric of their own")
struct AccountTokenMetricTests {
    @Test("the nil UUID is counted as an ignored token, and not as a field that could not be read")
    func counted() async throws {
        let folder = "/tmp/subledger-account-tokens-\(getpid())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var body = V1Body(type: "INITIAL_BUY")
        body["latest_receipt_info"] = [
            "transaction_id": "1000000000000001", "original_transaction_id": "1000000000000001",
            "product_id": "com.example.magazine.monthly",
            "app_account_token": "00000000-0000-0000-0000-000000000000",
        ]
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()

        let answer = try await HTTPClient(port: ports.public).post(try body.bytes).status
        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(answer == 200)
        #expect(metrics.contains("\nsubledger_account_tokens_ignored_total{reason=\"nil_uuid\"} 1\n"))
        #expect(metrics.contains("\nsubledger_defects_total 0\n"))
    }
}
