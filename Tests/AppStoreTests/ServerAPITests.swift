import AppStore
import Crypto
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

    @Test("refunds are asked for from the first page on, and then from the revision on")
    func refunds() {
        #expect(RefundHistoryRequest(id: "1", revision: nil).path == "/inApps/v2/refund/lookup/1")
        #expect(RefundHistoryRequest(id: "1", revision: "a_1+").path == "/inApps/v2/refund/lookup/1?revision=a_1%2B")
    }

    @Test("an order is valid with its transactions, or none of the app; any other answer is unreadable")
    func order() throws {
        let request = OrderLookupRequest(orderId: "MK5TTTVWJH")
        func answer(_ text: String) throws -> OrderLookupRequest.Answer {
            try request.answer(decoding: Array(text.utf8))
        }

        #expect(request.path == "/inApps/v1/lookup/MK5TTTVWJH")
        #expect(OrderLookupRequest(orderId: "a/b").path == "/inApps/v1/lookup/a%2Fb")
        #expect(
            try answer(#"{"status":0,"signedTransactions":["a.b.c","d.e.f"]}"#)
                == .valid([Array("a.b.c".utf8), Array("d.e.f".utf8)]))
        #expect(try answer(#"{"status":1}"#) == .invalid)
        for text in [
            #"{"status":0}"#, #"{"status":0,"signedTransactions":[]}"#, #"{"status":0,"signedTransactions":[7]}"#,
            #"{"status":2}"#, #"{"signedTransactions":["a.b.c"]}"#, "",
        ] {
            #expect(throws: UnreadableJSON.self) { try answer(text) }
        }
    }

    @Test(
        "an answer without what it must have is unreadable",
        arguments: [
            "", "[]", "{", #"{"data":{}}"#, #"{"data":[{}]}"#, #"{"data":[{"lastTransactions":[{"status":1}]}]}"#,
            #"{"data":[{"lastTransactions":[{"signedTransactionInfo":7}]}]}"#,
        ])
    func unreadable(text: String) {
        #expect(throws: UnreadableJSON.self) {
            try StatusesRequest(id: "1").answer(decoding: Array(text.utf8))
        }
        #expect(throws: UnreadableJSON.self) {
            try TransactionHistoryRequest(id: "1", revision: nil).answer(decoding: Array(text.utf8))
        }
        #expect(throws: UnreadableJSON.self) {
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

    @Test("a key of another kind is refused")
    func otherKey() {
        for pem in [P384.Signing.PrivateKey().pemRepresentation, P521.Signing.PrivateKey().pemRepresentation] {
            #expect(throws: ServerAPIKey.Problem.notAKey) {
                try ServerAPIKey(issuerId: "57246542-96fe-1a63-e053-0824d011072a", keyId: "ABCDE12345", pem: pem)
            }
        }
    }

    /// Apple's codes, and others in their form. The first three digits are the HTTP status.
    private static let kinds: [(ServerAPIRefusal.Kind, [ClosedRange<Int64>])] = [
        (.pageLost, [4_000_005...4_000_005, 4_000_014...4_000_014, 4_000_017...4_000_017]),
        (.rateLimited, [4_290_000...4_290_000]),
        (
            .temporary,
            [
                4_040_002...4_040_002, 4_040_004...4_040_004, 4_040_006...4_040_006, 5_000_000...5_000_001,
                5_030_000...5_030_000,
            ]
        ),
        (.notFound, [4_040_010...4_040_010]),
        (
            .final,
            [
                4_000_000...4_000_004, 4_000_006...4_000_013, 4_000_015...4_000_016, 4_000_018...4_000_048,
                4_000_161...4_000_164, 4_000_175...4_000_175, 4_000_183...4_000_187, 4_000_209...4_000_227,
                4_000_999...4_000_999, 4_030_004...4_030_028, 4_040_001...4_040_001, 4_040_003...4_040_003,
                4_040_005...4_040_005, 4_040_007...4_040_009, 4_040_014...4_040_022, 4_090_000...4_090_001,
            ]
        ),
    ]

    @Test("every error code leads to what Apple demands, and one that is not known to a retry from 500 on")
    func codes() {
        for (kind, ranges) in Self.kinds {
            for code in ranges.joined() {
                let body = Array(#"{"errorCode":\#(code),"errorMessage":"No."}"#.utf8)

                let refusal = ServerAPIRefusal(httpStatus: Int(code / 10_000), body: body)

                #expect(refusal.code == code && refusal.kind == kind, "\(code)")
                #expect("\(refusal)".contains("(error \(code))"))
            }
        }
    }

    @Test(
        "an error without a code counts by its status",
        arguments: [
            (401, ServerAPIRefusal.Kind.unauthorised), (429, .rateLimited), (500, .temporary), (503, .temporary),
            (400, .final), (403, .final), (404, .final),
        ])
    func withoutCode(status: Int, kind: ServerAPIRefusal.Kind) {
        for body in ["", "Unauthenticated", "<html>", "{}", #"{"errorCode":null}"#] {
            #expect(ServerAPIRefusal(httpStatus: status, body: Array(body.utf8)).kind == kind, "\(body)")
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
