import AppStore
import Testing

@testable import StoreClient

@Suite("Each status of Apple's table leads to its outcome")
struct ReceiptStatusTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let body: String
        let calls: Int
        let outcome: String

        init(_ body: String, calls: Int, _ outcome: String) {
            self.body = body
            self.calls = calls
            self.outcome = outcome
        }

        var testDescription: String { body }
    }

    static let temporary = "unavailable temporary_status, 30.0 seconds"

    static let rows = [
        Row("{\"status\":0}", calls: 1, "answered by production"),
        Row("{\"status\":21006}", calls: 1, "answered by production"),
        Row("{\"status\":21010}", calls: 1, "account deleted, production"),
        Row("{\"status\":21000}", calls: 1, "refused 21000"),
        Row("{\"status\":21001}", calls: 4, "refused 21001"),
        Row("{\"status\":21002}", calls: 4, "refused 21002"),
        Row("{\"status\":21003}", calls: 1, "refused 21003"),
        Row("{\"status\":21004}", calls: 1, "secret rejected"),
        Row("{\"status\":21005}", calls: 4, temporary),
        Row("{\"status\":21009}", calls: 4, temporary),
        Row("{\"status\":21100,\"is-retryable\":true}", calls: 4, temporary),
        Row("{\"status\":21150,\"is_retryable\":\"1\"}", calls: 4, temporary),
        Row("{\"status\":21199}", calls: 4, temporary),
        Row("{\"status\":21199,\"is-retryable\":false}", calls: 1, "refused 21199"),
        Row("{\"status\":21150,\"is_retryable\":0}", calls: 1, "refused 21150"),
        // Statuses that Apple does not document are temporary failures.
        Row("{\"status\":21011}", calls: 4, temporary),
        Row("{\"status\":1}", calls: 4, temporary),
        Row("<html>", calls: 4, "unreadable"),
        Row("{\"status\":0", calls: 4, "unreadable"),
        Row("{}", calls: 4, "unreadable"),
        Row("", calls: 4, "unreadable"),
    ]

    @Test("a status is accepted, retried or refused", arguments: rows)
    func status(_ row: Row) async {
        let bundle = ReceiptBundle(
            FakeStore(production: [FakeStore.Reply](repeating: .body(row.body), count: row.calls)))

        let outcome = await bundle.ask()

        #expect(outcome.text == row.outcome)
        #expect(bundle.store.requests.count == row.calls)
    }

    @Test("an answer after temporary failures counts", arguments: [21005, 21002, 21009])
    func recovered(number: Int) async throws {
        let bundle = ReceiptBundle(FakeStore(production: [.status(number), .status(0)]))

        let outcome = await bundle.ask()

        guard case .answered(let answer) = outcome else {
            Issue.record("\(outcome.text)")
            return
        }
        #expect(answer.receipt == ReceiptBundle.receipt())
        #expect(answer.receivedAt == ManualClock.date)
        #expect(answer.host == .production)
    }

    @Test(
        "a failed call is retried, and the question then is unavailable",
        arguments: [
            (TransportFailure.timeout, 4, "unavailable timeout, 30.0 seconds"),
            (TransportFailure.unreachable, 4, "unavailable unreachable, 30.0 seconds"),
            (TransportFailure.tooLong, 1, "unavailable too_long, 3600.0 seconds"),
            (TransportFailure.cancelled, 1, "unavailable cancelled, 0.0 seconds"),
        ])
    func failure(_ failure: TransportFailure, calls: Int, expected: String) async {
        let replies = [FakeStore.Reply](repeating: .failure(failure), count: calls)
        let bundle = ReceiptBundle(FakeStore(production: replies))

        let outcome = await bundle.ask()

        #expect(outcome.text == expected)
        #expect(bundle.store.requests.count == calls)
    }

    @Test(
        "an HTTP error is never a fact, and a body that explains it as a refusal counts",
        arguments: [
            ("<html>", 4, "unavailable http_status, 30.0 seconds"),
            ("{\"status\":0}", 4, "unavailable http_status, 30.0 seconds"),
            ("{\"status\":21006}", 4, "unavailable http_status, 30.0 seconds"),
            ("{\"status\":21010}", 4, "unavailable http_status, 30.0 seconds"),
            ("{\"status\":500}", 4, "unavailable http_status, 30.0 seconds"),
            ("{\"status\":21003}", 1, "refused 21003"),
            ("{\"status\":21004}", 1, "secret rejected"),
        ])
    func httpStatus(body: String, calls: Int, expected: String) async {
        let reply = FakeStore.Reply.body(body, httpStatus: 500)
        let bundle = ReceiptBundle(FakeStore(production: [FakeStore.Reply](repeating: reply, count: calls)))

        let outcome = await bundle.ask()

        #expect(outcome.text == expected)
        #expect(bundle.store.requests.count == calls)
    }

    @Test("an answer of 5 MiB is accepted and one byte more is not", arguments: [0, 1])
    func size(excess: Int) async {
        let start = "{\"status\":0"
        let spaces = String(repeating: " ", count: 5 * 1_048_576 + excess - start.utf8.count - 1)
        let bundle = ReceiptBundle(FakeStore(production: [.body(start + spaces + "}")]))

        let outcome = await bundle.ask()

        #expect(outcome.text == (excess == 0 ? "answered by production" : "unavailable too_long, 3600.0 seconds"))
        #expect(bundle.store.requests.map(\.bytesMax) == [5 * 1_048_576])
    }
}
