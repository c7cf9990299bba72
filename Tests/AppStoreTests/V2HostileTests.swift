import AppStore
import Subscriptions
import Testing

@Suite("Hostile values in signed notifications")
struct V2HostileTests {
    private static let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
    private static let deepObjects = String(repeating: #"{"a":"#, count: 40) + "1" + String(repeating: "}", count: 40)

    private static let values = [
        #""\u0000""#, #""a\u0000b""#, #""\ud800""#, #""\udc00\ud800""#, #""x\ud83d""#, "1e400", "-1e400", "1e-400",
        "1234567890123456789012345678901234567890", "-0", "0.1234567890123456789012345678901234567890", "null",
        deep, deepObjects, #"{"\u0000":1}"#, #"{"\ud800":1}"#, #"{"a":1,"a":2}"#, #"{"":""}"#, "\"\u{10FFFF}\"",
    ]

    @Test(
        "an unknown field with any value leaves the facts unchanged after they are written and read", arguments: values)
    func unknown(value: String) throws {
        let event = try V2FieldTests.body.changing {
            $0.payload["new"] = .raw(value)
            $0.payload["data", "new"] = .raw(value)
            $0.transaction?["new"] = .raw(value)
            $0.renewal?["new"] = .raw(value)
        }.event()

        #expect(event.transactions.first?.expiresDate == day("2024-06-01"))
        #expect(event.unknownFields.count == 4)
        #expect(try reread(event.facts) == event.facts)
        #expect(!(try text(event)).contains(#"\u0000"#))
    }

    @Test("a known field with any value does not affect the other facts", arguments: values)
    func known(value: String) throws {
        for key in V2OddBodyTests.transactionFields + ["commitmentInfo", "advancedCommerceInfo"] {
            let event = try V2FieldTests.body.changing { $0.transaction?[key] = .raw(value) }.event()

            #expect(event.transactions.map(\.transactionId) == ["2000000000000002"], "\(key)")
            #expect(try reread(event.facts) == event.facts, "\(key)")
        }
        for key in V2OddBodyTests.renewalFields + ["commitmentInfo", "advancedCommerceInfo"] {
            let event = try V2FieldTests.body.changing { $0.renewal?[key] = .raw(value) }.event()

            #expect(event.renewals.map(\.originalTransactionId) == [testSubscription], "\(key)")
            #expect(try reread(event.facts) == event.facts, "\(key)")
        }
    }

    @Test("ids and names with any value do not crash the decoder", arguments: values)
    func identities(value: String) throws {
        for key in ["transactionId", "originalTransactionId"] {
            let event = try V2FieldTests.body.changing { $0.transaction?[key] = .raw(value) }.event()
            #expect(try reread(event.facts) == event.facts)
        }
        // Without a type it is not a notification.
        let keys = ["subtype", "notificationUUID", "version", "signedDate", "data", "summary"]
        for key in keys + (value == "null" ? [] : ["notificationType"]) {
            let event = try V2FieldTests.body.changing { $0.payload[key] = .raw(value) }.event()
            #expect(try reread(event.facts) == event.facts)
            _ = try text(event)
        }
        for key in ["bundleId", "environment", "appAppleId", "status", "bundleVersion"] {
            let event = try V2FieldTests.body.changing { $0.payload["data", key] = .raw(value) }.event()
            #expect(event.transactions.count == 1)
            _ = try text(event)
        }
    }

    @Test("a notification with many unknown fields is decoded")
    func many() throws {
        let event = try V2FieldTests.body.changing { body in
            for number in 0..<2000 { body.payload["new\(number)"] = .raw(String(number)) }
        }.event()

        #expect(event.transactions.count == 1)
        #expect(event.unknownFields.count > 0)
    }
}
