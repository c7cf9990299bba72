import Encoding
import Simulation
import TestSupport
import Testing

@Suite("The simulated Server API validates and records what an app says about consumption")
struct ConsumptionTests {
    /// Members of a body, by name, as JSON text. Valid for a consumable.
    private static let valid = [
        "customerConsented": "true", "sampleContentProvided": "false", "deliveryStatus": "\"DELIVERED\"",
    ]
    private static let validV1 = [
        "customerConsented": "true", "sampleContentProvided": "false", "appAccountToken": "\"\"",
        "consumptionStatus": "3", "platform": "1", "deliveryStatus": "0", "accountTenure": "7", "playTime": "0",
        "lifetimeDollarsPurchased": "1", "lifetimeDollarsRefunded": "1", "userStatus": "1",
    ]

    private static func body(_ valid: [String: String], _ change: (name: String, value: String?)) -> String {
        var members = valid
        members[change.name] = change.value
        return "{" + members.sorted { $0.key < $1.key }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    }

    /// The account that bought a consumable.
    private static func consumable(_ bundle: ServerAPIBundle) throws -> String {
        let accounts = bundle.simulation.storyteller.accounts(ofStory: 0)
        let purchases = accounts.flatMap(\.subscriptions).flatMap(\.purchases)
        return try #require(purchases.first { $0.product.kind == .consumable }).transactionId
    }

    @Test("each rule for a body of version 2 has its error code; a valid one is answered 202 without a body")
    func consumables() async throws {
        let cases: [(name: String, value: String?, code: Int?)] = [
            ("customerConsented", "true", nil), ("customerConsented", "false", 4_000_035),
            ("customerConsented", nil, 4_000_035), ("sampleContentProvided", nil, 4_000_041),
            ("sampleContentProvided", "1", 4_000_041), ("deliveryStatus", "\"UNDELIVERED_OTHER\"", nil),
            ("deliveryStatus", "\"LOST\"", 4_000_036), ("deliveryStatus", nil, 4_000_036),
            ("consumptionPercentage", "0", nil), ("consumptionPercentage", "100000", nil),
            ("refundPreference", "\"DECLINE\"", nil), ("refundPreference", "\"GRANT_FULL\"", nil),
            ("refundPreference", "\"GRANT_PRORATED\"", 4_000_044), ("refundPreference", "\"MAYBE\"", 4_000_044),
            ("refundPreference", "2", 4_000_044),
        ]
        try await ServerAPIBundle.with([.oneTimePurchase]) { bundle in
            let path = "v2/transactions/consumption/\(try Self.consumable(bundle))"
            for (name, value, code) in cases {
                let answer = try await bundle.call("PUT", path, Self.body(Self.valid, (name, value)))

                #expect(answer.json["errorCode"] as? Int == code, "\(name): \(value ?? "")")
                #expect(code != nil || answer.status == 202 && answer.body.isEmpty, "\(name): \(value ?? "")")
            }
            #expect(bundle.store.api.consumptions.count == cases.count { $0.code == nil })
        }
    }

    @Test("the percentage is within its range, zero unless delivered, and partial for a prorated refund")
    func percentages() async throws {
        try await ServerAPIBundle.with([.oneTimePurchase]) { bundle in
            let path = "v2/transactions/consumption/\(try Self.consumable(bundle))"
            func status(_ percentage: Int, _ delivery: String, _ preference: String = "DECLINE") async throws -> Int {
                let body =
                    "{\"customerConsented\":true,\"sampleContentProvided\":true,\"deliveryStatus\":\"\(delivery)\","
                    + "\"consumptionPercentage\":\(percentage),\"refundPreference\":\"\(preference)\"}"
                return try await bundle.call("PUT", path, body).status
            }

            #expect(try await status(100_001, "DELIVERED") == 400)
            #expect(try await status(-1, "DELIVERED") == 400)
            #expect(try await status(1, "UNDELIVERED_SERVER_OUTAGE") == 400)
            #expect(try await status(0, "UNDELIVERED_SERVER_OUTAGE") == 202)
            #expect(try await status(1, "DELIVERED", "GRANT_PRORATED") == 202)
            #expect(try await status(99_999, "DELIVERED", "GRANT_PRORATED") == 202)
            #expect(try await status(0, "DELIVERED", "GRANT_PRORATED") == 400)
            #expect(try await status(100_000, "DELIVERED", "GRANT_PRORATED") == 400)
        }
    }

    @Test("an auto-renewable has no percentage, and a prorated refund needs none")
    func subscriptions() async throws {
        try await ServerAPIBundle.with([.renewals]) { bundle async throws in
            let path = "v2/transactions/consumption/\(bundle.originalTransactionId)"
            let prorated = Self.body(Self.valid, ("refundPreference", "\"GRANT_PRORATED\""))
            let percentage = Self.body(Self.valid, ("consumptionPercentage", "0"))

            #expect(try await bundle.call("PUT", path, prorated).status == 202)
            #expect(try await bundle.errorCode("PUT", path, percentage) == 4_000_209)
        }
    }

    @Test("version 1: each field has its error code")
    func version1() async throws {
        let cases: [(name: String, value: String?, code: Int?)] = [
            ("refundPreference", "2", nil), ("refundPreference", "4", 4_000_044), ("accountTenure", "8", 4_000_032),
            ("appAccountToken", "\"me\"", 4_000_033), ("appAccountToken", nil, 4_000_033),
            ("consumptionStatus", "4", 4_000_034), ("customerConsented", "false", 4_000_035),
            ("deliveryStatus", "6", 4_000_036), ("lifetimeDollarsPurchased", "-1", 4_000_037),
            ("lifetimeDollarsRefunded", nil, 4_000_038), ("platform", "3", 4_000_039), ("playTime", "8", 4_000_040),
            ("sampleContentProvided", nil, 4_000_041), ("userStatus", "5", 4_000_042),
        ]
        try await ServerAPIBundle.with([.oneTimePurchase]) { bundle in
            let path = "v1/transactions/consumption/\(try Self.consumable(bundle))"
            for (name, value, code) in cases {
                let answer = try await bundle.call("PUT", path, Self.body(Self.validV1, (name, value)))

                #expect(answer.json["errorCode"] as? Int == code, "\(name): \(value ?? "")")
                #expect(code != nil || answer.status == 202, "\(name)")
            }
        }
    }

    @Test("an answer is in time for twelve hours after the question, and is listed with its bytes")
    func deadline() async throws {
        try await ServerAPIBundle.with([.refundDeclined]) { bundle in
            let question = try #require(
                bundle.subscription.notifications.first { $0.version2?.type == "CONSUMPTION_REQUEST" })
            let id = question.subject.transactionId
            let body = "{\"deliveryStatus\":\"DELIVERED\",\"customerConsented\":true,\"sampleContentProvided\":true}"
            for milliseconds: Int64 in [0, 43_200_000, 43_200_001] {
                bundle.store.now = question.signedDate.advanced(byMilliseconds: milliseconds)
                #expect(try await bundle.call("PUT", "v2/transactions/consumption/\(id)", body).status == 202)
            }

            let recorded = bundle.store.api.consumptions
            #expect(recorded.map(\.isInTime) == [true, true, false])
            #expect(recorded.allSatisfy { $0.transactionId == id && $0.requestedAt == question.signedDate })
            #expect(recorded.allSatisfy { $0.body == Array(body.utf8) && $0.version == 2 })
            let listed = try await bundle.client.get("/requests").json["consumptions"] as? [[String: Any]]
            #expect(listed?.map { $0["isInTime"] as? Bool } == [true, true, false])
            #expect((listed?.first?["body"] as? [String: Any])?["deliveryStatus"] as? String == "DELIVERED")
        }
    }

    @Test("an answer without a question is never in time; a family member's purchase takes none")
    func withoutQuestion() async throws {
        try await ServerAPIBundle.with([.family]) { bundle in
            let accounts = bundle.simulation.storyteller.accounts(ofStory: 0)
            let member = try #require(accounts.first { $0.subscriptions[0].customer.isFamilyMember })
            func path(_ id: String) -> String { "v2/transactions/consumption/\(id)" }
            let body = Self.body(Self.valid, ("deliveryStatus", "\"DELIVERED\""))

            #expect(try await bundle.call("PUT", path(bundle.originalTransactionId), body).status == 202)
            let shared = path(member.subscriptions[0].originalTransactionId)
            #expect(try await bundle.errorCode("PUT", shared, body) == 4_000_185)
            #expect(try await bundle.errorCode("PUT", path(member.appTransactionId), body) == 4_000_048)
            #expect(bundle.store.api.consumptions.map(\.isInTime) == [false])
        }
    }
}
