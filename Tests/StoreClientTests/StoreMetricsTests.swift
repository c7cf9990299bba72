import AppStore
import HTTPServer
import Testing

@testable import StoreClient

@Suite("Calls to the App Store are counted")
struct StoreMetricsTests {
    @Test("every series exists from the start")
    func start() {
        let bundle = ReceiptBundle(FakeStore())

        let text = bundle.metrics.prometheusText

        for host in ["production", "sandbox"] {
            for result in [
                "answered", "account_deleted", "other_host", "temporary_status", "malformed", "refused",
                "secret_rejected", "unreadable", "http_status", "timeout", "too_long", "unreachable", "cancelled",
            ] {
                #expect(text.contains("subledger_store_requests_total{host=\"\(host)\",result=\"\(result)\"} 0\n"))
            }
            #expect(text.contains("subledger_store_breaker_state{host=\"\(host)\"} 0.0\n"))
        }
        #expect(text.contains("subledger_store_budget_waits_total 0\n"))
        #expect(text.contains("subledger_store_request_seconds_count 0\n"))
    }

    @Test("each call is counted by host and result")
    func calls() async {
        let bundle = ReceiptBundle(
            FakeStore(
                production: [.status(21005), .status(21007), .status(21004), .failure(.tooLong)],
                sandbox: [.status(21002), .status(21006)]))

        for _ in 0..<3 { _ = await bundle.ask() }

        let lines = bundle.metrics.prometheusText.split(separator: "\n")
            .filter { $0.hasPrefix("subledger_store_requests_total") && !$0.hasSuffix(" 0") }
        #expect(
            lines == [
                "subledger_store_requests_total{host=\"production\",result=\"other_host\"} 1",
                "subledger_store_requests_total{host=\"production\",result=\"secret_rejected\"} 1",
                "subledger_store_requests_total{host=\"production\",result=\"temporary_status\"} 1",
                "subledger_store_requests_total{host=\"production\",result=\"too_long\"} 1",
                "subledger_store_requests_total{host=\"sandbox\",result=\"answered\"} 1",
                "subledger_store_requests_total{host=\"sandbox\",result=\"malformed\"} 1",
            ])
        #expect(bundle.metrics.prometheusText.contains("subledger_store_request_seconds_count 6\n"))
    }

    @Test("the state of a breaker is a number, and its changes are logged")
    func breaker() async {
        let bundle = ReceiptBundle(
            FakeStore(production: [FakeStore.Reply](repeating: .failure(.unreachable), count: 5) + [.status(0)]))
        let open = "subledger_store_breaker_state{host=\"production\"} 2.0\n"

        for _ in 0..<2 { _ = await bundle.ask() }
        let isOpen = bundle.metrics.prometheusText.contains(open)
        bundle.clock.advance(by: .seconds(15))
        _ = await bundle.ask()
        let isStillOpen = bundle.metrics.prometheusText.contains(open)

        #expect(isOpen && !isStillOpen)
        #expect(bundle.log.text.contains("warning calls to the App Store stopped"))
        #expect(bundle.log.text.contains("notice App Store answers again"))
    }
}
