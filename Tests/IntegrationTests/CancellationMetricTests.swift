import Foundation
import TestSupport
import Testing

@Suite("Metric of cancellations without a purchase")
struct CancellationMetricTests {
    @Test("a CANCEL without its purchase in the receipt is counted; a REFUND that names its purchase is not")
    func counted() async throws {
        let folder = TestFolder.path("cancellations")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var refund = V1Body(type: "REFUND")
        refund["original_transaction_id"] = "1000000000000500"
        refund["cancellation_date_ms"] = "1520000000000"
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        let apple = HTTPClient(port: ports.public)

        let refunded = try await apple.post(try refund.bytes).status
        let cancelled = try await apple.post(try V1Body(type: "CANCEL").bytes).status
        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(refunded == 200 && cancelled == 200)
        #expect(metrics.contains("\nsubledger_cancellations_without_purchase_total 1\n"))
    }
}
