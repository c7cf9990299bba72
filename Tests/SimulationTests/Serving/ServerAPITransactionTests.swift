import Crypto
import Encoding
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated Server API answers about transactions and statuses from the store's books")
struct ServerAPITransactionTests {
    private static func history(_ bundle: ServerAPIBundle, _ query: [String] = []) async throws -> HTTPAnswer {
        let text = query.isEmpty ? "" : "?" + query.joined(separator: "&")
        return try await bundle.call("GET", "v2/history/\(bundle.originalTransactionId)\(text)")
    }

    /// Reads a history from the revision to its end.
    private static func walk(
        _ bundle: ServerAPIBundle, from revision: String? = nil
    ) async throws -> (pages: [[String]], revision: String) {
        var pages: [[String]] = []
        var next = revision
        while true {
            let answer = try await history(bundle, next.map { ["revision=\($0)"] } ?? [])
            pages.append(try answer.transactionIds)
            let revision = try #require(answer.json["revision"] as? String)
            next = revision
            guard answer.json["hasMore"] as? Bool == true else { return (pages, revision) }
        }
    }

    @Test("transaction info is the first purchase for an original id, signed under the root at the store's time")
    func transactionInfo() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle in
            let last = try #require(bundle.subscription.purchases.last)

            let first = try await bundle.call("GET", "v1/transactions/\(bundle.originalTransactionId)")
            let newest = try await bundle.call("GET", "v1/transactions/\(last.transactionId)")

            let payload = try first.payload("signedTransactionInfo")
            #expect(payload["transactionId"] as? String == bundle.originalTransactionId)
            #expect(payload["originalTransactionId"] as? String == bundle.originalTransactionId)
            #expect(payload["bundleId"] as? String == APITokenShape.bundleId)
            #expect(payload["environment"] as? String == "Production")
            #expect(payload["appTransactionId"] as? String == bundle.account.appTransactionId)
            #expect(payload.milliseconds("signedDate") == bundle.store.now.milliseconds)
            let renewal = try newest.payload("signedTransactionInfo")
            #expect(renewal["transactionId"] as? String == last.transactionId)
            #expect(renewal.milliseconds("expiresDate") == last.expiresDate?.milliseconds)

            let text = try #require(first.json["signedTransactionInfo"] as? String)
            let dot = try #require(text.lastIndex(of: "."))
            let bytes = try #require(Base64.decode(Array(text[dot...].dropFirst().utf8)[...], .url))
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: Data(bytes))
            let key = TestCertificates.standard.leafKey.publicKey
            #expect(key.isValidSignature(signature, for: Data(text[..<dot].utf8)))
        }
    }

    @Test("an id is malformed, unknown, of the other environment, of a deleted account, or not yet known")
    func ids() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.newIdDelay = .seconds(30)
        try await ServerAPIBundle.with([.renewals], count: 2, settings) { bundle async throws in
            func code(_ id: String, host: Subscriptions.Environment? = nil) async throws -> Int? {
                try await bundle.errorCode("GET", "v1/subscriptions/\(id)", host: host)
            }
            let id = bundle.originalTransactionId
            let other = bundle.simulation.storyteller.accounts(ofStory: 1)[0]
            let bought = bundle.account.firstPurchase

            #expect(try await code(id) == nil)
            #expect(try await code(bundle.account.appTransactionId) == nil)
            #expect(try await code("12ab") == 4_000_006)
            #expect(try await code(String(repeating: "2", count: 21)) == 4_000_006)
            #expect(try await code("2000010000009999") == 4_040_010)
            #expect(try await code(id, host: .sandbox) == 4_040_010)
            let info = "v1/transactions/\(bundle.account.appTransactionId)"
            #expect(try await bundle.errorCode("GET", info) == 4_000_048)
            #expect(bundle.store.deleteAccount(of: other.subscriptions[0].originalTransactionId))
            #expect(try await code(other.appTransactionId) == 4_040_001)
            bundle.store.now = bought.advanced(byMilliseconds: 29_999)
            #expect(try await code(id) == 4_040_010)
            bundle.store.now = bought.advanced(byMilliseconds: 30_000)
            #expect(try await code(id) == nil)
        }
    }

    @Test("a history comes in pages in the order of change; its last revision yields new rows only")
    func pages() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.pageItems = 5
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            let ids = bundle.subscription.purchases.map(\.transactionId)
            let known = bundle.subscription.history[6].at

            let all = try await Self.walk(bundle)
            let again = try await Self.walk(bundle, from: all.revision)
            bundle.store.now = known
            let early = try await Self.walk(bundle)
            bundle.store.now = Simulation.end
            let later = try await Self.walk(bundle, from: early.revision)

            #expect(ids.count == 12 && all.pages.map(\.count) == [5, 5, 2] && all.pages.flatMap(\.self) == ids)
            #expect(again.pages == [[]] && again.revision == all.revision)
            #expect(early.pages.flatMap(\.self) == Array(ids.prefix(7)))
            #expect(later.pages.flatMap(\.self) == Array(ids.dropFirst(7)))
        }
    }

    @Test("a refund brings its row again, after the last revision")
    func change() async throws {
        try await ServerAPIBundle.with([.refundOfOldPeriod]) { bundle in
            let refunded = try #require(bundle.subscription.purchases.first { $0.revocation != nil })
            let date = try #require(refunded.revocation?.date)

            bundle.store.now = date.advanced(byMilliseconds: -1)
            let before = try await Self.walk(bundle)
            let none = try await bundle.call("GET", "v2/refund/lookup/\(bundle.originalTransactionId)")
            bundle.store.now = date
            let answer = try await Self.history(bundle, ["revision=\(before.revision)"])
            let refunds = try await bundle.call("GET", "v2/refund/lookup/\(bundle.originalTransactionId)")

            #expect(before.pages.flatMap(\.self).contains(refunded.transactionId))
            let rows = try answer.payloads()
            #expect(rows.count == 1 && rows.first?["transactionId"] as? String == refunded.transactionId)
            #expect(rows.first?.milliseconds("revocationDate") == date.milliseconds)
            #expect(none.json["revision"] as? String == "0" && none.json["hasMore"] as? Bool == false)
            #expect(try none.transactionIds.isEmpty)
            #expect(try refunds.transactionIds == [refunded.transactionId])
        }
    }

    @Test("an order has its transaction; an unknown one is invalid, and the sandbox has no orders")
    func orders() async throws {
        try await ServerAPIBundle.with([.renewals]) { bundle in
            let id = try #require(bundle.subscription.purchases.last).transactionId
            let number = try #require(SimulatedOrder.number(of: id))

            let found = try await bundle.call("GET", "v1/lookup/\(number)")
            let unknown = try await bundle.call("GET", "v1/lookup/MK5TTTVWJH")
            let sandbox = try await bundle.call("GET", "v1/lookup/\(number)", host: .sandbox)
            let malformed = try await bundle.call("GET", "v1/lookup/\(String(repeating: "M", count: 65))")

            #expect(found.json["status"] as? Int == 0 && number.hasPrefix("M"))
            #expect(try found.transactionIds == [id])
            #expect(unknown.status == 200 && unknown.json["status"] as? Int == 1, "\(unknown.body)")
            #expect(unknown.json["signedTransactions"] == nil)
            #expect(sandbox.status == 404 && sandbox.json.isEmpty)
            #expect(malformed.json["errorCode"] as? Int == 4_000_000, "\(malformed.body)")
        }
    }

    @Test("a revision belongs to its id and its query")
    func revisions() async throws {
        try await ServerAPIBundle.with([.monthlyCommitment]) { bundle in
            let revision = try await Self.walk(bundle).revision
            let account = "v2/history/\(bundle.account.appTransactionId)?revision=\(revision)"

            #expect(try await Self.history(bundle, ["revision=\(revision)"]).status == 200)
            let otherQuery = try await Self.history(bundle, ["revision=\(revision)", "sort=DESCENDING"])
            #expect(otherQuery.json["errorCode"] as? Int == 4_000_005)
            #expect(try await Self.history(bundle, ["revision=latest"]).json["errorCode"] as? Int == 4_000_005)
            #expect(try await bundle.errorCode("GET", account) == 4_000_005)
        }
    }

    @Test(
        "a wrong filter of a history has its own error code",
        arguments: [
            ("sort=UP", 4_000_021), ("productType=SUBSCRIPTION", 4_000_022), ("inAppOwnershipType=SHARED", 4_000_026),
            ("revoked=yes", 4_000_030), ("startDate=today", 4_000_015), ("endDate=-1", 4_000_016),
        ])
    func wrongFilters(_ query: String, _ code: Int) async throws {
        try await ServerAPIBundle.with { bundle async throws in
            #expect(try await Self.history(bundle, [query]).json["errorCode"] as? Int == code)
        }
    }

    @Test("filters of a history: values of one are alternatives, several must all hold")
    func filters() async throws {
        try await ServerAPIBundle.with([.refundOfOldPeriod]) { bundle in
            func ids(_ query: String...) async throws -> [String] {
                try await Self.history(bundle, query).transactionIds
            }
            let all = try await ids()
            let purchases = bundle.subscription.purchases
            let refunded = purchases.filter { $0.revocation != nil }.map(\.transactionId)
            let second = purchases[1].purchaseDate.milliseconds

            #expect(Set(all) == Set(purchases.map(\.transactionId)) && refunded.count == 1)
            #expect(try await ids("sort=DESCENDING") == all.reversed())
            #expect(try await ids("revoked=true") == refunded)
            #expect(try await ids("revoked=false") == all.filter { !refunded.contains($0) })
            #expect(try await ids("startDate=\(second)").contains(purchases[1].transactionId))
            #expect(try await ids("endDate=\(second)") == [purchases[0].transactionId])
            #expect(try await ids("productType=CONSUMABLE").isEmpty)
            #expect(try await ids("productType=CONSUMABLE", "productType=AUTO_RENEWABLE") == all)
            #expect(try await ids("productType=AUTO_RENEWABLE", "inAppOwnershipType=FAMILY_SHARED").isEmpty)
            #expect(
                try await ids("subscriptionGroupIdentifier=21000001", "productId=\(purchases[0].product.id)") == all)
            #expect(try await ids("subscriptionGroupIdentifier=21000002").isEmpty)
        }
    }
}

// MARK: - Statuses

extension ServerAPITransactionTests {
    /// The rows of all groups.
    private static func rows(_ answer: HTTPAnswer) throws -> [[String: Any]] {
        let groups = try #require(answer.json["data"] as? [[String: Any]])
        return groups.flatMap { $0["lastTransactions"] as? [[String: Any]] ?? [] }
    }

    @Test("one request answers for every subscription of the Apple Account, with the newest transaction of each")
    func statuses() async throws {
        try await ServerAPIBundle.with([.sharedAppleAccount]) { bundle in
            let subscriptions = bundle.account.subscriptions

            let answer = try await bundle.call("GET", "v1/subscriptions/\(bundle.account.appTransactionId)")

            #expect(answer.json["environment"] as? String == "Production")
            #expect(answer.json["appAppleId"] as? Int == 1_400_000_001)
            let rows = try Self.rows(answer)
            #expect(subscriptions.count > 1 && rows.count == subscriptions.count)
            for subscription in subscriptions {
                let row = try #require(
                    rows.first { $0["originalTransactionId"] as? String == subscription.originalTransactionId })
                let transaction = try signedPayload(#require(row["signedTransactionInfo"] as? String))
                let renewal = try signedPayload(#require(row["signedRenewalInfo"] as? String))
                #expect(transaction["transactionId"] as? String == subscription.purchases.last?.transactionId)
                #expect(renewal["originalTransactionId"] as? String == subscription.originalTransactionId)
                #expect(renewal["autoRenewStatus"] is Int)
            }
        }
    }

    @Test("a purchaser with a shared subscription has two rows in one group, under any of the ids")
    func family() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.joinsFamilies = true
        try await ServerAPIBundle.with([.family], settings) { bundle in
            let accounts = bundle.simulation.storyteller.accounts(ofStory: 0)
            let ids = [
                accounts[0].appTransactionId, accounts[1].appTransactionId, bundle.originalTransactionId,
                accounts[1].subscriptions[0].originalTransactionId,
            ]
            for id in ids {
                let answer = try await bundle.call("GET", "v1/subscriptions/\(id)")

                #expect((answer.json["data"] as? [Any])?.count == 1)
                let transactions = try Self.rows(answer).map {
                    try signedPayload(#require($0["signedTransactionInfo"] as? String))
                }
                let ownerships = transactions.compactMap { $0["inAppOwnershipType"] as? String }
                #expect(ownerships.sorted() == ["FAMILY_SHARED", "PURCHASED"])
                #expect(Set(transactions.compactMap { $0["appTransactionId"] as? String }) == [ids[0]])
            }
        }
    }

    @Test("a subscription that was switched off has status 1 until its end and 2 from then on")
    func expired() async throws {
        try await ServerAPIBundle.with([.switchOffAndExpire]) { bundle in
            let path = "v1/subscriptions/\(bundle.originalTransactionId)"
            let end = try #require(bundle.subscription.purchases.last?.expiresDate)
            func status(_ query: String = "") async throws -> Int? {
                try await Self.rows(bundle.call("GET", path + query)).first?["status"] as? Int
            }

            bundle.store.now = end.advanced(byMilliseconds: -1)
            #expect(try await status() == 1)
            bundle.store.now = end
            #expect(try await status() == 2)
            #expect(try await status("?status=1") == nil)
            #expect(try await status("?status=1&status=2") == 2)
            #expect(try await bundle.errorCode("GET", path + "?status=6") == 4_000_031)
        }
    }

    @Test("after a renewal, the first answers may still show the time before it")
    func stale() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.staleStatuses = 2
        try await ServerAPIBundle.with([.monthlyCommitment], settings) { bundle in
            let ids = bundle.subscription.purchases.map(\.transactionId)
            bundle.store.now = bundle.subscription.history[3].at
            var shown: [String?] = []
            for _ in 0..<3 {
                let row = try await Self.rows(bundle.call("GET", "v1/subscriptions/\(ids[0])")).first
                let text = try #require(row?["signedTransactionInfo"] as? String)
                shown.append(try signedPayload(text)["transactionId"] as? String)
            }

            #expect(shown == [ids[2], ids[2], ids[3]])
        }
    }
}
