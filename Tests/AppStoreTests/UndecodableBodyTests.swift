import AppStore
import Subscriptions
import Testing

@Suite("Undecodable V1 bodies and damaged V1 notifications")
struct UndecodableBodyTests {
    private func refusal(_ bytes: [UInt8]) -> UndecodableBody? {
        do {
            _ = try AppleNotification(decoding: bytes)
            return nil
        } catch {
            return error
        }
    }

    private func refusal(_ text: String) -> UndecodableBody? {
        refusal(Array(text.utf8))
    }

    @Test(
        "text that is not JSON is rejected as not JSON",
        arguments: [
            "hello", "notification_type=RENEWAL", "{", "{\"notification_type\": \"RENEWAL\"", "<xml/>",
            "{\"notification_type\": \"RENEWAL\",}",
        ])
    func notJSON(text: String) {
        guard case .notJSON = refusal(text) else {
            Issue.record("\(String(describing: refusal(text)))")
            return
        }
    }

    @Test("an empty body is rejected as empty")
    func empty() {
        guard case .notJSON(let error) = refusal("") else {
            Issue.record("expected notJSON")
            return
        }
        #expect(error.problem == .empty)
    }

    @Test(
        "JSON that is not an object is rejected as not an object",
        arguments: ["[]", "\"a\"", "1", "null", "true", "[{}]"])
    func notAnObject(text: String) {
        #expect(refusal(text) == .notAnObject)
    }

    @Test(
        "an object without a type is rejected as not a notification",
        arguments: [
            "{}", #"{"a": 1}"#, #"{"environment": "PROD"}"#, #"{"notification_type": null}"#,
            #"{"notificationType": "DID_RENEW"}"#, #"{"unified_receipt": {"notification_type": "RENEWAL"}}"#,
        ])
    func noType(text: String) {
        #expect(refusal(text) == .notANotification)
    }

    @Test(
        "a body with signedPayload is decoded as version 2, even if it has a type",
        arguments: [
            #"{"signedPayload": "eyJ.eyJ.sig"}"#, #"{"notification_type": "TEST", "signedPayload": "eyJ.eyJ.sig"}"#,
        ])
    func signed(text: String) {
        #expect(refusal(text) == .malformed(.notBase64, .notification))
    }

    @Test("error descriptions quote nothing from the body")
    func quotesNothing() {
        let texts = ["{\"secret-value\"", "\"secret-value\"", "{\"a\": \"secret-value\"}", "secret-value"]

        for text in texts {
            let description = refusal(text)?.description ?? "accepted"
            #expect(!description.contains("secret") && description != "accepted")
        }
    }

    @Test(
        "an event with an unreadable type has an unknown kind and keeps its facts",
        arguments: [
            #""\uD800""#, "7", "{}", "[]",
        ])
    func unreadableType(type: String) throws {
        let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .with(["notification_type": .raw(type)])

        let event = try body.event()

        #expect(event.kind == .other)
        #expect(event.transactions.count == 1)
    }

    @Test("a string with a NUL is a defect, and the rest of the row is kept")
    func nul() throws {
        let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .withRow(["product_id": .raw(#""com.example\u0000.monthly""#)])

        let event = try body.event()

        #expect(event.transactions.first?.productId == nil)
        #expect(event.transactions.first?.purchaseDate == day("2022-01-01"))
        #expect(event.defects.map(\.path) == ["unified_receipt.latest_receipt_info[0].product_id"])
    }

    @Test("a string with a lone surrogate is a defect, and the rest of the row is kept")
    func loneSurrogate() throws {
        let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .withRow(["product_id": .raw(#""com.example\uD83D.monthly""#)])

        let event = try body.event()

        #expect(event.transactions.first?.productId == nil)
        #expect(event.transactions.first?.expiresDate == day("2022-02-01"))
        #expect(event.defects.map(\.path) == ["unified_receipt.latest_receipt_info[0].product_id"])
    }

    @Test("a string that is not UTF-8 is a defect, and the rest of the row is kept")
    func invalidUTF8() throws {
        let text = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .withRow(["product_id": "@"]).written
        let bytes = Array(text.utf8).map { $0 == UInt8(ascii: "@") ? 0xFF : $0 }

        let event = try AppleNotification(decoding: bytes).event(receivedAt: day("2026-01-01"))

        #expect(event.transactions.first?.productId == nil)
        #expect(event.transactions.first?.expiresDate == day("2022-02-01"))
        #expect(event.defects.map(\.path).contains("unified_receipt.latest_receipt_info[0].product_id"))
    }

    @Test("the last of several equal keys is used")
    func duplicateKeys() throws {
        let body: JSON = [
            "notification_type": "DID_RENEW", "environment": "Sandbox", "bid": "com.example.first",
            "environment": "PROD", "bid": "com.example.last", "notification_type": "CANCEL",
        ]

        let event = try body.event()

        #expect(event.type == "CANCEL")
        #expect(event.environment == .production)
        #expect(event.app == "com.example.last")
    }

    @Test(
        "an invalid date is a defect at its path, and the rest of the row is kept",
        arguments: [
            "99999999999999999999", "-1", "253402300800000", "9223372036854775808", "1e12", "soon", "12.5",
            "2022-02-30 00:00:00 Etc/GMT",
        ])
    func absurdDates(text: String) throws {
        let row = newRow("1000000000000002", "2022-01-01", "2022-02-01")
            .without("expires_date").with(["expires_date_ms": .text(text)])

        let event = try newBody("DID_RENEW", rows: [row]).event()

        let transaction = try #require(event.transactions.first)
        #expect(transaction.purchaseDate == day("2022-01-01"))
        #expect(transaction.transactionId == "1000000000000002")
        #expect(transaction.expiresDate == nil)
        #expect(event.defects.map(\.path) == ["unified_receipt.latest_receipt_info[0].expires_date_ms"])
    }

    @Test(
        "values of the wrong type are defects at their paths and affect nothing else",
        arguments: [
            "[]", "{}", "true", "1.5", "[[[]]]", #"{"a": 1}"#,
        ])
    func wrongKinds(value: String) throws {
        let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .withRow(["quantity": .raw(value), "web_order_line_item_id": .raw(value), "is_trial_period": .raw("7")])

        let event = try body.event()

        let transaction = try #require(event.transactions.first)
        let prefix = "unified_receipt.latest_receipt_info[0]."
        #expect(transaction.quantity == nil && transaction.webOrderLineItemId == nil)
        #expect(transaction.isTrialPeriod == nil)
        #expect(transaction.expiresDate == day("2022-02-01"))
        #expect(
            Set(event.defects.map(\.path))
                == ["\(prefix)quantity", "\(prefix)web_order_line_item_id", "\(prefix)is_trial_period"])
    }

    @Test(
        "containers of the wrong type do not prevent decoding",
        arguments: ["1", "\"text\"", "true", "[]", "[1]", "[[]]", "{}"])
    func wrongContainers(value: String) throws {
        let body = newBody("DID_RENEW", rows: [])

        for key in ["unified_receipt", "latest_receipt_info", "latest_expired_receipt_info"] {
            let event = try body.with([key: .raw(value)]).event()
            #expect(event.type == "DID_RENEW" && event.transactions.isEmpty)
        }
        for key in ["latest_receipt_info", "pending_renewal_info"] {
            let event = try body.withUnified([key: .raw(value)]).event()
            #expect(event.type == "DID_RENEW" && event.transactions.isEmpty)
        }
    }

    @Test("a row without an id is a defect, and the other rows are kept")
    func rowWithoutId() throws {
        let rows = [
            newRow("1000000000000003", "2022-02-01", "2022-03-01").without("transaction_id"),
            newRow("1000000000000002", "2022-01-01", "2022-02-01"),
        ]

        let event = try newBody("DID_RENEW", rows: rows).event()

        #expect(event.transactions.map(\.transactionId) == ["1000000000000002"])
        #expect(event.defects.count == 1)
        #expect(event.defects.first?.path.hasPrefix("unified_receipt.latest_receipt_info[0]") == true)
    }

    @Test("defects never quote the value")
    func defectsQuoteNothing() throws {
        let body = newBody("DID_RENEW", rows: [newRow("1000000000000002", "2022-01-01", "2022-02-01")])
            .withRow(["purchase_date_ms": "private-value", "quantity": "private-value"])

        let event = try body.event()

        #expect(!event.defects.isEmpty)
        #expect(event.defects.allSatisfy { !$0.problem.contains("private") && !$0.path.contains("private") })
    }
}
