import Encoding
import Foundation
import TestSupport
import Testing

@Suite("What events say about customers besides purchases reaches the log, the metrics and the customer")
struct CustomerNoticeTests {
    private static let subscription = "1000000000000001"

    /// A question about a refund whose receipt has no rows.
    private static func question(about subscription: String) -> V1Body {
        var body = V1Body(type: "CONSUMPTION_REQUEST", subscription: subscription)
        body["original_transaction_id"] = subscription
        body["auto_renew_status"] = nil
        body["unified_receipt"] =
            [
                "status": 0, "environment": "Production", "latest_receipt": "b25l",
                "latest_receipt_info": [String](), "pending_renewal_info": [String](),
            ] as [String: Any]
        return body
    }

    @Test("a version 1 question without rows: a log line, and history and feed of the customer that it leads to")
    func unanswerable() async throws {
        try await TestBundle.withServer { server in
            #expect(try await server.apple.post(try V1Body(type: "INITIAL_BUY").bytes).status == 200)
            for id in [Self.subscription, ""] {
                #expect(try await server.apple.post(try Self.question(about: id).bytes).status == 200)
            }
            try await server.isFolded()

            let history = try await server.backend.get(
                "/customers/\(Self.subscription)/history?as=subscription&app=\(V1Body.app)")
            let changes = try await server.sql(
                "select concat_ws(' ', kind, original_transaction_id, position, customer_kind) from subledger.change")

            #expect(history.body.contains(#""kind":"unanswerable_request""#), "\(history.body)")
            #expect(history.body.contains(#""position":2"#), "\(history.body)")
            #expect(changes.contains("unanswerable_request \(Self.subscription) 2 subscription"), "\(changes)")
            let lines = server.logs.text.split(separator: "\n").filter {
                $0.contains("consumption request names no purchase")
            }
            #expect(lines.count == 2, "\(lines)")
        }
    }

    @Test("values that this release does not know are counted by name, 50 of them with a series of their own")
    func unknownValues() async throws {
        let folder = TestFolder.path("unknown-values")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        let apple = HTTPClient(port: ports.public, patience: .seconds(60))
        for reason in 101...160 {
            var body = V1Body(type: "CANCEL")
            body["latest_receipt_info"] = [
                "transaction_id": "\(1_000_000_000_000_000 + reason)",
                "original_transaction_id": "\(1_000_000_000_000_000 + reason)",
                "product_id": "com.example.magazine.monthly", "cancellation_date_ms": "1519084800000",
                "cancellation_reason": "\(reason)",
            ]
            #expect(try await apple.post(try body.bytes).status == 200)
        }

        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        let series = metrics.split(separator: "\n").filter { $0.hasPrefix("subledger_unknown_values_total{") }
        #expect(series.count == 51, "\(series)")
        #expect(series.contains { $0.contains("revocationReason") && $0.contains("\"101\"") }, "\(series.prefix(3))")
        #expect(series.contains { $0.contains("\"other\"") && $0.hasSuffix(" 10") }, "\(series.suffix(3))")
    }
}
