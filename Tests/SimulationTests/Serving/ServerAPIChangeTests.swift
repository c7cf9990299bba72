import Encoding
import Simulation
import TestSupport
import Testing

@Suite("The simulated Server API extends subscriptions and sets account tokens in the store's books")
struct ServerAPIChangeTests {
    private static let dayMilliseconds: Int64 = 86_400_000

    private static func body(days: Int = 30, identifier: String = "outage-1", _ others: String = "") -> String {
        "{\"extendByDays\":\(days),\"extendReasonCode\":3,\"requestIdentifier\":\"\(identifier)\"\(others)}"
    }

    /// Sets the clock to the middle of the subscription's last period, and returns its end.
    private static func enterLastPeriod(_ bundle: ServerAPIBundle) throws -> Instant {
        let last = try #require(bundle.subscription.purchases.last)
        let end = try #require(last.expiresDate)
        bundle.store.now = end.advanced(byMilliseconds: -3_600_000)
        return end
    }

    private static func status(_ bundle: ServerAPIBundle) async throws -> [String: Any] {
        let answer = try await bundle.call("GET", "v1/subscriptions/\(bundle.originalTransactionId)")
        let groups = try #require(answer.json["data"] as? [[String: Any]])
        return try #require((groups.first?["lastTransactions"] as? [[String: Any]])?.first)
    }

    @Test("an extension moves the end of the period; the same request again changes nothing")
    func extend() async throws {
        try await ServerAPIBundle.with([.renewals]) { bundle in
            let end = try Self.enterLastPeriod(bundle)
            let path = "v1/subscriptions/extend/\(bundle.originalTransactionId)"

            let first = try await bundle.call("PUT", path, Self.body())
            let again = try await bundle.call("PUT", path, Self.body())

            let extended = end.advanced(byMilliseconds: 30 * Self.dayMilliseconds)
            #expect(first.json["success"] as? Bool == true && again.body == first.body)
            #expect(first.json.milliseconds("effectiveDate") == extended.milliseconds)
            #expect(first.json["originalTransactionId"] as? String == bundle.originalTransactionId)
            bundle.store.now = extended.advanced(byMilliseconds: -1)
            let row = try await Self.status(bundle)
            #expect(row["status"] as? Int == 1)
            let transaction = try signedPayload(#require(row["signedTransactionInfo"] as? String))
            #expect(transaction.milliseconds("expiresDate") == extended.milliseconds)
            bundle.store.now = extended
            #expect(try await Self.status(bundle)["status"] as? Int == 2)
            let sent = bundle.store.notifications.filter { $0.type == "RENEWAL_EXTENDED" }
            #expect(sent.map(\.signedDate) == [end.advanced(byMilliseconds: -3_600_000)])
        }
    }

    @Test("a subscription is extended twice a year at most, and only while it is active")
    func limits() async throws {
        try await ServerAPIBundle.with([.renewals]) { bundle in
            let end = try Self.enterLastPeriod(bundle)
            let path = "v1/subscriptions/extend/\(bundle.originalTransactionId)"
            func extend(_ identifier: String) async throws -> Int? {
                try await bundle.errorCode("PUT", path, Self.body(days: 1, identifier: identifier))
            }

            #expect(try await extend("1") == nil)
            #expect(try await extend("2") == nil)
            #expect(try await extend("3") == 4_030_005)
            bundle.store.now = end.advanced(byMilliseconds: 2 * Self.dayMilliseconds)
            #expect(try await extend("4") == 4_030_004)
        }
    }

    @Test("each defect of an extension has its own error code")
    func defects() async throws {
        try await ServerAPIBundle.with([.family]) { bundle in
            let accounts = bundle.simulation.storyteller.accounts(ofStory: 0)
            let member = try #require(accounts.first { $0.subscriptions[0].customer.isFamilyMember })
            let path = "v1/subscriptions/extend/\(bundle.originalTransactionId)"
            func code(_ body: String, _ path: String) async throws -> Int? {
                try await bundle.errorCode("PUT", path, body)
            }

            #expect(try await code(Self.body(days: 0), path) == 4_000_009)
            #expect(try await code(Self.body(days: 91), path) == 4_000_009)
            let reason = "{\"extendByDays\":1,\"extendReasonCode\":4,\"requestIdentifier\":\"1\"}"
            #expect(try await code(reason, path) == 4_000_010)
            #expect(try await code("{\"extendByDays\":1,\"requestIdentifier\":\"1\"}", path) == 5_000_000)
            #expect(try await code(Self.body(identifier: ""), path) == 4_000_011)
            #expect(try await code(Self.body(identifier: String(repeating: "a", count: 129)), path) == 4_000_011)
            #expect(try await code(Self.body(), "v1/subscriptions/extend/first") == 4_000_008)
            #expect(try await code(Self.body(), "v1/subscriptions/extend/2000010000009999") == 4_040_005)
            let shared = "v1/subscriptions/extend/\(member.subscriptions[0].originalTransactionId)"
            #expect(try await code(Self.body(), shared) == 4_030_007)
        }
    }

    @Test("an extension of all subscriptions of a product takes an hour, then has its counts and a summary")
    func extendAll() async throws {
        try await ServerAPIBundle.with([.renewals]) { bundle in
            let end = try Self.enterLastPeriod(bundle)
            let product = try #require(bundle.subscription.purchases.last).product.id
            let identifier = "0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31"
            let body = Self.body(days: 7, identifier: identifier, ",\"productId\":\"\(product)\"")
            let path = "v1/subscriptions/extend/mass/\(product)/\(identifier)"
            let notUUID = Self.body(identifier: "all", ",\"productId\":\"\(product)\"")
            let noCountries = Self.body(
                identifier: identifier, ",\"productId\":\"\(product)\",\"storefrontCountryCodes\":[]")

            let mass = "v1/subscriptions/extend/mass"
            #expect(try await bundle.errorCode("GET", path) == 4_040_009)
            #expect(try await bundle.errorCode("POST", mass, notUUID) == 4_000_011)
            #expect(try await bundle.errorCode("POST", mass, noCountries) == 4_000_027)
            let asked = try await bundle.call("POST", mass, body)
            let early = try await bundle.call("GET", path)
            bundle.store.now = end
            let late = try await bundle.call("GET", path)

            #expect(asked.json["requestIdentifier"] as? String == identifier)
            #expect(early.json["complete"] as? Bool == false && early.json["succeededCount"] == nil)
            #expect(late.json["complete"] as? Bool == true && late.json["succeededCount"] as? Int == 1)
            #expect(late.json["failedCount"] as? Int == 0)
            #expect(late.json.milliseconds("completeDate") == end.milliseconds)
            #expect(try await Self.status(bundle)["status"] as? Int == 1)
            #expect(bundle.store.notifications.last?.type == "RENEWAL_EXTENSION")
        }
    }

    @Test("an account token holds for the newest transaction, and is in lower case")
    func accountToken() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle in
            let id = bundle.originalTransactionId
            let last = try #require(bundle.subscription.purchases.last).transactionId
            let before = try await bundle.call("GET", "v1/transactions/\(id)").payload("signedTransactionInfo")

            let set = try await bundle.call(
                "PUT", "v1/transactions/\(id)/appAccountToken",
                "{\"appAccountToken\":\"7E3FB204-2A0C-4C5E-9D3C-0F5B3C8F4A11\"}")

            #expect(set.status == 200 && set.body.isEmpty)
            let newest = try await bundle.call("GET", "v1/transactions/\(last)").payload("signedTransactionInfo")
            let first = try await bundle.call("GET", "v1/transactions/\(id)").payload("signedTransactionInfo")
            #expect(newest["appAccountToken"] as? String == "7e3fb204-2a0c-4c5e-9d3c-0f5b3c8f4a11")
            #expect(first["appAccountToken"] as? String == before["appAccountToken"] as? String)
        }
    }

    @Test("each defect of an account token has its own error code")
    func accountTokenDefects() async throws {
        try await ServerAPIBundle.with([.family]) { bundle in
            let accounts = bundle.simulation.storyteller.accounts(ofStory: 0)
            let member = try #require(accounts.first { $0.subscriptions[0].customer.isFamilyMember })
            let valid = "{\"appAccountToken\":\"7e3fb204-2a0c-4c5e-9d3c-0f5b3c8f4a11\"}"
            func code(_ id: String, _ body: String) async throws -> Int? {
                try await bundle.errorCode("PUT", "v1/transactions/\(id)/appAccountToken", body)
            }

            #expect(try await code(bundle.originalTransactionId, "{\"appAccountToken\":\"user-1\"}") == 4_000_183)
            #expect(try await code(bundle.originalTransactionId, "{}") == 4_000_183)
            #expect(try await code("first", valid) == 4_000_006)
            #expect(try await code("2000010000009999", valid) == 4_040_005)
            #expect(try await code(bundle.account.appTransactionId, valid) == 4_000_048)
            #expect(try await code(member.subscriptions[0].originalTransactionId, valid) == 4_000_185)
        }
    }

    @Test("the id of a renewal cannot have an account token")
    func renewalToken() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle in
            let last = try #require(bundle.subscription.purchases.last).transactionId
            let body = "{\"appAccountToken\":\"7e3fb204-2a0c-4c5e-9d3c-0f5b3c8f4a11\"}"

            let path = "v1/transactions/\(last)/appAccountToken"
            #expect(try await bundle.errorCode("PUT", path, body) == 4_000_187)
        }
    }
}
