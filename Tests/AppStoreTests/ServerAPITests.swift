import AppStore
import Encoding
import TestSupport
import Testing

@Suite("Requests and answers of the App Store Server API")
struct ServerAPITests {
    private static let now = Instant(iso8601: "2026-11-01T00:00:00Z")!

    @Test(
        "Retry-After is milliseconds or seconds since 1970, or seconds; at least a minute if it is of no use",
        arguments: [
            ("1793491230000", "30.0"), ("1793491230", "30.0"), ("45", "45.0"), ("1793491199000", "60.0"), ("0", "60.0"),
            ("-5", "60.0"), ("soon", "60.0"), ("1793577600000", "3600.0"), ("9223372036854775807", "3600.0"),
        ])
    func retryAfter(text: String, seconds: String) {
        #expect("\(RetryAfter.wait(text, at: Self.now))" == "\(seconds) seconds")
    }

    @Test("without Retry-After a minute is waited")
    func noRetryAfter() {
        #expect(RetryAfter.wait(nil, at: Self.now) == .seconds(60))
    }

    @Test(
        "ids are percent-encoded",
        arguments: [
            ("2000000123456789", "/inApps/v1/subscriptions/2000000123456789"),
            ("a/b?c=d e", "/inApps/v1/subscriptions/a%2Fb%3Fc%3Dd%20e"), ("ä", "/inApps/v1/subscriptions/%C3%A4"),
        ])
    func path(id: String, expected: String) {
        #expect(StatusesRequest(id: id).path == expected)
    }

    @Test("a history is asked for in ascending order, from the revision on")
    func history() {
        #expect(
            TransactionHistoryRequest(id: "1", revision: nil).path == "/inApps/v2/history/1?sort=ASCENDING")
        #expect(
            TransactionHistoryRequest(id: "1", revision: "a_1+").path
                == "/inApps/v2/history/1?sort=ASCENDING&revision=a_1%2B")
    }

    @Test(
        "an answer without what it must have is unreadable",
        arguments: [
            "", "[]", "{", #"{"data":{}}"#, #"{"data":[{}]}"#, #"{"data":[{"lastTransactions":[{"status":1}]}]}"#,
            #"{"data":[{"lastTransactions":[{"signedTransactionInfo":7}]}]}"#,
        ])
    func unreadable(text: String) {
        #expect(throws: UnreadableServerAnswer.self) {
            try StatusesRequest(id: "1").answer(decoding: Array(text.utf8))
        }
        #expect(throws: UnreadableServerAnswer.self) {
            try TransactionHistoryRequest(id: "1", revision: nil).answer(decoding: Array(text.utf8))
        }
        #expect(throws: UnreadableServerAnswer.self) {
            try TransactionInfoRequest(id: "1").answer(decoding: Array(text.utf8))
        }
    }

    @Test(
        "a key that is none is refused",
        arguments: ["", "-----BEGIN PRIVATE KEY-----\nMIGTAgEAMBMG\n-----END PRIVATE KEY-----\n", "no key"])
    func noKey(pem: String) {
        #expect(throws: ServerAPIKey.Problem.notAKey) {
            try ServerAPIKey(issuerId: "57246542-96fe-1a63-e053-0824d011072a", keyId: "ABCDE12345", pem: pem)
        }
    }

    @Test("an error is described in words with its code, and without its message")
    func description() {
        let body = Array(#"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#.utf8)

        let refusal = ServerAPIRefusal(httpStatus: 404, body: body)

        #expect(refusal.kind == .notFound)
        #expect("\(refusal)" == "the App Store does not know the transaction (error 4040010)")
        #expect(
            "\(ServerAPIRefusal(httpStatus: 404, body: Array("<html>".utf8)))"
                == "the App Store refuses the request (HTTP status 404)")
    }
}
