import Foundation
import TestSupport
import Testing

/// A body and its expected answer. Test output shows only its description.
struct BadBody: Sendable, CustomTestStringConvertible {
    let what: String
    let body: [UInt8]
    var status = 200
    var says = ""
    var defects: [String] = []

    var testDescription: String { what }
}

@Suite("Rejection of malformed input")
struct BadInputTests {
    /// A valid body except for one field, written as raw JSON.
    private static func body(_ extra: String) -> [UInt8] {
        Array(
            """
            {"notification_type":"DID_RENEW","environment":"PROD","bid":"\(V1Body.app)",\
            "password":"\(V1Body.secret)",\(extra)}
            """.utf8)
    }

    private static func nested(_ levels: Int) -> [UInt8] {
        body("\"x\":" + String(repeating: "[", count: levels) + String(repeating: "]", count: levels))
    }

    private static func row(_ members: String) -> String {
        "\"latest_receipt_info\":{\(members)}"
    }

    static let refused: [BadBody] = [
        refused("an empty body", "", 400, "the body is empty"),
        refused("not JSON", "hello", 400, "the body is not JSON: unexpected character at byte 0"),
        refused("truncated JSON", "{\"notification_type\":", 400, "the body is not JSON: unexpected end of text"),
        refused("an array", "[]", 400, "the body is JSON, but not an object"),
        refused("a string", "\"INITIAL_BUY\"", 400, "the body is JSON, but not an object"),
        refused("an empty object", "{}", 400, "it has neither notification_type nor a signedPayload"),
        BadBody(what: "UTF-16", body: [0xFF, 0xFE, 0x7B, 0, 0x7D, 0], status: 400, says: "the body is not JSON"),
        refused(
            "500,001 values", "[" + String(repeating: "0,", count: 499_999) + "0]", 400,
            "more than 500000 values and keys"),
        BadBody(what: "100,000 levels", body: nested(100_000), status: 400, says: "nested deeper than 512 levels"),
        refused(
            "an unsigned notification", "{\"signedPayload\":\"e30.eyJub3RpZmljYXRpb25UeXBlIjoiVEVTVCJ9.e30\"}",
            403,
            "is not signed with ES256"),
        refused(
            "a signed object without a type", "{\"signedPayload\":\"e30.e30.e30\"}", 400,
            "nor a signedPayload with a notificationType"),
        refused(
            "a wrong secret", "{\"notification_type\":\"CANCEL\",\"bid\":\"\(V1Body.app)\",\"password\":\"guess\"}",
            403,
            "does not contain the shared secret (password) of its app"),
        refused(
            "no secret", "{\"notification_type\":\"CANCEL\",\"bid\":\"\(V1Body.app)\"}", 403,
            "does not contain the shared secret (password) of its app"),
        refused(
            "an unknown app and a wrong secret",
            "{\"notification_type\":\"CANCEL\",\"bid\":\"com.example.no\",\"password\":\"guess\"}", 403,
            "does not contain the shared secret (password) of its app"),
        refused(
            "an unknown app with the secret of another",
            "{\"notification_type\":\"CANCEL\",\"bid\":\"com.example.no\",\"password\":\"\(V1Body.secret)\"}", 503,
            "the app (bundle id) is not configured"),
    ]

    private static func refused(_ what: String, _ text: String, _ status: Int, _ says: String) -> BadBody {
        BadBody(what: what, body: Array(text.utf8), status: status, says: says)
    }

    @Test("a body that is malformed or fails verification is rejected with its status and message", arguments: refused)
    func isRefused(_ input: BadBody) async throws {
        try await TestBundle.withServer { server in
            let answer = try await server.apple.post(input.body)

            #expect(answer.status == input.status, "\(input.what)")
            #expect(answer.body.hasSuffix("}\n"))
            #expect(answer.body.dropLast().contains("\n") == false)
            let problem = try #require(answer.json["error"] as? String)
            #expect(problem.contains(input.says), "\(input.what): \(problem)")
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["0"])
            #expect(try await server.apple.get("/health").status == 200)
        }
    }

    static let tolerated: [BadBody] = [
        BadBody(what: "ten levels of an unknown key", body: nested(10)),
        tolerated("a NUL in a needed field", "\"auto_renew_product_id\":\"a\\u0000b\"", ["auto_renew_product_id"]),
        tolerated("a NUL in an unread field", "\"remark\":\"a\\u0000b\"", []),
        tolerated("a lone surrogate", "\"auto_renew_product_id\":\"\\ud800\"", ["auto_renew_product_id"]),
        tolerated(
            "a repeated key", "\"auto_renew_status\":\"true\",\"auto_renew_status\":\"false\"", ["auto_renew_status"]),
        tolerated(
            "a date in the year 275760",
            row("\"transaction_id\":\"1\",\"original_transaction_id\":\"1\",\"purchase_date_ms\":\"8640000000000001\""),
            ["latest_receipt_info.purchase_date_ms"]),
        tolerated(
            "an id longer than an index entry",
            row("\"transaction_id\":\"1\",\"original_transaction_id\":\"\(String(repeating: "z", count: 6000))\""),
            ["latest_receipt_info.original_transaction_id"]),
        tolerated(
            "a quantity beyond the column's range",
            row("\"transaction_id\":\"1\",\"original_transaction_id\":\"1\",\"quantity\":\"9223372036854775807\""),
            ["latest_receipt_info.quantity"]),
        tolerated(
            "a number with a fraction as id", row("\"transaction_id\":1.5,\"original_transaction_id\":\"1\""),
            ["latest_receipt_info.transaction_id"]),
    ]

    private static func tolerated(_ what: String, _ members: String, _ defects: [String]) -> BadBody {
        BadBody(what: what, body: body(members), defects: defects)
    }

    @Test("a body with unusual fields is stored, with a defect for each lost field", arguments: tolerated)
    func isTolerated(_ input: BadBody) async throws {
        try await TestBundle.withServer { server in
            let answer = try await server.apple.post(input.body)

            #expect(answer.status == 200, "\(input.what): \(answer.body)")
            let page = try await server.backend.get("/events?app=\(V1Body.app)").json
            let event = try #require((page["events"] as? [[String: Any]])?.first)
            let paths = (event["defects"] as? [[String: Any]])?.compactMap { $0["path"] as? String } ?? []
            #expect(Set(paths).isSuperset(of: input.defects), "\(input.what): \(paths)")
            #expect(input.defects.isEmpty == paths.isEmpty, "\(input.what): \(paths)")
        }
    }

    @Test("numeric ids beyond 2^53 keep every digit")
    func bigIds() async throws {
        try await TestBundle.withServer { server in
            let body = Self.body(
                Self.row("\"transaction_id\":9007199254740993,\"original_transaction_id\":9007199254740993"))

            _ = try await server.apple.post(body)

            #expect(try await server.subscription("/subscriptions/9007199254740993").status == 200)
        }
    }

    @Test("a byte that is not UTF-8 loses its field, not the notification")
    func invalidUTF8() async throws {
        try await TestBundle.withServer { server in
            var body = Self.body("\"auto_renew_product_id\":\"@@@\"")
            let place = try #require(body.firstIndex(of: UInt8(ascii: "@")))
            body[place] = 0xC3

            let answer = try await server.apple.post(body)

            #expect(answer.status == 200)
            let page = try await server.backend.get("/events?app=\(V1Body.app)").body
            #expect(page.contains("\"path\": \"auto_renew_product_id\""))
        }
    }

    @Test("a body of 5 MiB is accepted, and one byte more is answered 413")
    func size() async throws {
        try await TestBundle.withServer { server in
            var body = Self.body("\"remark\":\"\(String(repeating: "x", count: (5 << 20) - 170))\"")
            body += Array(repeating: UInt8(ascii: " "), count: (5 << 20) - body.count)

            let largest = try await server.apple.post(body)
            let larger = try await server.apple.post(body + [UInt8(ascii: " ")])

            #expect(largest.status == 200)
            #expect(larger.status == 413)
            #expect(larger.json["error"] as? String == "the body is larger than 5242880 bytes")
            #expect(try await server.apple.get("/health").status == 200)
        }
    }

    @Test("senders of unfinished large bodies do not block other requests and get 408 or 503")
    func silentSenders() async throws {
        try await TestBundle.withServer { server in
            let head = "POST /apple/notifications HTTP/1.1\r\nHost: x\r\nContent-Length: \(5 << 20)\r\n\r\n"
            let silent = try (0..<40).map { _ in try RawConnection(port: server.apple.port) }
            let part = String(repeating: "x", count: 1 << 16)
            for connection in silent {
                connection.write(head)
                for _ in 0..<40 { connection.write(part) }
            }

            let answer = try await server.apple.post(try V1Body(number: 1).bytes)
            let refusal = try await eventually(within: .seconds(40), "a silent sender is answered") {
                let text = silent[0].read()
                return text.isEmpty ? nil : text
            }

            #expect(answer.status == 200)
            #expect(refusal.hasPrefix("HTTP/1.1 408 ") || refusal.hasPrefix("HTTP/1.1 503 "), "\(refusal)")
        }
    }

    @Test("an unknown path and a wrong method are answered with 404 and 405")
    func routes() async throws {
        try await TestBundle.withServer { server in
            let unknown = try await server.apple.get("/subscriptions/1")
            let wrongMethod = try await server.apple.get("/apple/notifications")

            #expect(unknown.status == 404)
            #expect(unknown.json["error"] as? String == "not found")
            #expect(wrongMethod.status == 405)
            #expect(wrongMethod.headers["allow"] == "POST")
        }
    }

    static let malformedQueries: [(path: String, says: String)] = [
        ("/events", "app must be"),
        ("/events?app=a&environment=prod", "environment must be"),
        ("/events?app=a&after=-1", "after must be"),
        ("/events?app=a&limit=0", "limit must be"),
        ("/events?app=a&limit=1001", "limit must be"),
        ("/subscriptions/1?at=yesterday", "at must be"),
        ("/subscriptions/1?environment=Sandbox", "environment must be"),
        ("/events?app=%00", "app must not"),
        ("/events?app=", "app must not be empty"),
        ("/subscriptions/1?at=", "at must not be empty"),
        ("/events?app=a&receivedFrom=2019", "receivedFrom must be"),
        ("/events?app=a&after=x", "after must be a position or a cursor"),
        ("/events?app=a&after=MiA1ICBwcm9kdWN0aW9uIGI", "after must belong to the requested app"),
        ("/subscriptions/%00", "originalTransactionId must not"),
    ]

    @Test("a malformed query is answered 400 with the name of the field", arguments: malformedQueries)
    func malformedQuery(_ query: (path: String, says: String)) async throws {
        try await TestBundle.withServer { server in
            let answer = try await server.backend.get(query.path)

            #expect(answer.status == 400)
            #expect(answer.headers["content-type"] == "application/problem+json")
            #expect((answer.json["detail"] as? String)?.hasPrefix(query.says) == true)
            #expect(answer.json["field"] as? String == query.says.split(separator: " ").first.map(String.init))
        }
    }

    @Test("unknown ids and apps are answered 404, whatever characters they contain")
    func unknownIds() async throws {
        try await TestBundle.withServer { server in
            for path in ["/subscriptions/1", "/subscriptions/'%20or%201=1--", "/events?app=%27;drop%20table"] {
                let answer = try await server.backend.get(path)
                #expect(answer.status == 404, "\(path)")
            }
        }
    }
}
