import Encoding
import Foundation
import Simulation
import Subscriptions
import Testing

@Suite("The simulated store answers receipts with Apple's statuses")
struct VerifyReceiptTests {
    private struct TestBundle {
        let simulation: Simulation
        let account: SimulatedAccount
        let receipt: [UInt8]

        static func setup(
            _ stories: [Story] = [.refundReversed], app: SimulatedApp = testApp, style: ReceiptStyle = .app
        ) throws -> TestBundle {
            var settings = Simulation.Settings(app: app)
            settings.app.receiptCharacters = 1000
            settings.stories = stories
            settings.subscriptions = 60
            let simulation = try #require(Simulation(settings))
            let account = try #require(
                (0..<60).flatMap { simulation.storyteller.accounts(ofStory: $0) }.first { $0.style == style })
            return TestBundle(
                simulation: simulation, account: account,
                receipt: simulation.receipt(of: account, createdAt: account.firstPurchase))
        }

        func answer(
            _ receipt: [UInt8]? = nil, password: String? = testApp.sharedSecret,
            host: Subscriptions.Environment = .production, at instant: Instant = day("2026-06-30"),
            deleted: Set<SimulatedAccount.Key> = [], fault: StoreFault? = nil
        ) -> VerifyReceipt.Answer {
            simulation.verifyReceipt.answer(
                to: receiptRequest(receipt ?? self.receipt, password: password), host: host, at: instant,
                deleted: deleted, fault: fault)
        }
    }

    private static func text(_ answer: VerifyReceipt.Answer) -> String { String(decoding: answer.body, as: UTF8.self) }

    @Test("no POST and no JSON object are 21000, a receipt that is missing or not base64 is 21002")
    func malformed() throws {
        let store = try TestBundle.setup().simulation.verifyReceipt
        func status(_ body: String?) -> Int {
            store.answer(to: body.map { Array($0.utf8) }, host: .production, at: day("2026-06-30")).status
        }

        #expect(status(nil) == 21000)
        #expect(status("") == 21000)
        #expect(status("{\"receipt-data\":\"MI") == 21000)
        #expect(status("[]") == 21000)
        #expect(status("{}") == 21002)
        #expect(status("{\"receipt-data\":\"\"}") == 21002)
        #expect(status("{\"receipt-data\":7}") == 21002)
        #expect(status("{\"receipt-data\":\"MII not base64\"}") == 21002)
        #expect(status("{\"receipt-data\":\"b25seSB0ZXh0\"}") == 21002)
    }

    @Test("a plus sign that form encoding turned into a blank makes a receipt malformed")
    func blankInsteadOfPlus() throws {
        let bundle = try TestBundle.setup()
        let body = String(decoding: receiptRequest(bundle.receipt), as: UTF8.self)
        try #require(body.contains("+"))

        let answer = bundle.simulation.verifyReceipt.answer(
            to: Array(body.replacing("+", with: " ").utf8), host: .production, at: day("2026-06-30"))

        #expect(answer.status == 21002)
        #expect(Self.text(answer) == "{\"status\":21002}")
    }

    @Test("an altered receipt and one of another store are 21003")
    func altered() throws {
        let bundle = try TestBundle.setup()
        var altered = bundle.receipt
        altered[300] ^= 1

        #expect(bundle.answer(altered).status == 21003)
        #expect(
            bundle.answer(
                ReceiptSeal(seed: 99).receipt(of: bundle.account.key, app: testApp, createdAt: day("2025-01-01"))
            )
            .status == 21003)
    }

    @Test("a missing or wrong password and another developer's receipt are 21004")
    func password() throws {
        let bundle = try TestBundle.setup()
        var other = testApp
        other.bundleId = "com.example.other"
        let foreign = bundle.simulation.seal.receipt(
            of: bundle.account.key, app: other, createdAt: bundle.account.firstPurchase)

        #expect(bundle.answer().status == 0)
        #expect(bundle.answer(password: nil).status == 21004)
        #expect(bundle.answer(password: "0123456789abcdef0123456789abcdee").status == 21004)
        #expect(bundle.answer(foreign).status == 21004)
    }

    @Test("without subscriptions no password is needed, but a wrong one is rejected")
    func passwordOfOneTimePurchase() throws {
        let bundle = try TestBundle.setup([.oneTimePurchase])

        #expect(bundle.answer(password: nil).status == 0)
        #expect(bundle.answer(password: "wrong").status == 21004)
    }

    @Test("each host refuses receipts of the other environment, before it looks at the password")
    func hosts() throws {
        var sandbox = testApp
        sandbox.environment = .sandbox
        let production = try TestBundle.setup()
        let test = try TestBundle.setup(app: sandbox)

        #expect(production.answer(host: .sandbox).status == 21008)
        #expect(test.answer(password: nil, host: .production).status == 21007)
        #expect(test.answer(host: .sandbox).status == 0)
        #expect(production.answer(host: .production).status == 0)
    }

    @Test("a deleted account is 21010, and the others of the run are not")
    func deleted() throws {
        let bundle = try TestBundle.setup()
        let other = try #require(bundle.simulation.storyteller.accounts(ofStory: 59).first)

        #expect(bundle.answer(deleted: [bundle.account.key]).status == 21010)
        #expect(Self.text(bundle.answer(deleted: [bundle.account.key])) == "{\"status\":21010}")
        #expect(bundle.answer(deleted: [other.key]).status == 0)
    }

    @Test("an answer has the members of an iOS 7 receipt with their types, in production and in the sandbox")
    func receipt() throws {
        var sandbox = testApp
        sandbox.environment = .sandbox
        let real = try TestBundle.setup()
        let test = try TestBundle.setup(app: sandbox)
        let instant = day("2026-06-01T10:20:30.456Z")

        func json(_ answer: VerifyReceipt.Answer) throws -> [String: Any] {
            try #require(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any])
        }
        let production = try json(real.answer(at: instant))
        let tested = try json(test.answer(host: .sandbox, at: instant))
        let receipt = try #require(production["receipt"] as? [String: Any])
        let testReceipt = try #require(tested["receipt"] as? [String: Any])

        #expect(production["environment"] as? String == "Production" && tested["environment"] as? String == "Sandbox")
        #expect(production["status"] as? Int == 0)
        #expect(receipt["receipt_type"] as? String == "Production")
        #expect(testReceipt["receipt_type"] as? String == "ProductionSandbox")
        #expect(receipt["adam_id"] as? Int64 == testApp.appAppleId && testReceipt["adam_id"] as? Int == 0)
        #expect(receipt["bundle_id"] as? String == testApp.bundleId)
        #expect(receipt["request_date_ms"] as? String == "1780309230456")
        #expect(receipt["request_date"] as? String == "2026-06-01 10:20:30 Etc/GMT")
        #expect(
            receipt["receipt_creation_date_ms"] as? String == String(real.account.firstPurchase.milliseconds))
        #expect(testReceipt["original_purchase_date_ms"] as? String == "1375340400000")
        #expect(testReceipt["original_application_version"] as? String == "1.0")
        let inApp = try #require(receipt["in_app"] as? [[String: Any]])
        #expect(inApp.count == 1 && inApp[0]["subscription_group_identifier"] == nil)
        let rows = try #require(production["latest_receipt_info"] as? [[String: Any]])
        #expect(rows.allSatisfy { $0["subscription_group_identifier"] as? String == "21000001" })
        let latest = try #require(production["latest_receipt"] as? String)
        let next = try #require(Base64.decode(Array(latest.utf8)[...], .standard))
        #expect(real.answer(next, at: instant).status == 0)
    }

    @Test("the rows come in any order, the same for the same seed and instant")
    func order() throws {
        let bundle = try TestBundle.setup([.monthlyCommitment])
        let again = try TestBundle.setup([.monthlyCommitment])

        func ids(_ answer: VerifyReceipt.Answer) throws -> [String] {
            try #require(try JSONDocument(answer.body).root["latest_receipt_info"]).elements
                .compactMap { $0.string("transaction_id") }
        }
        let first = try ids(bundle.answer(at: day("2026-06-29")))
        let second = try ids(bundle.answer(at: day("2026-06-30")))

        #expect(bundle.receipt == again.receipt)
        #expect(bundle.answer().body == again.answer().body)
        #expect(first.count >= 12 && first != second && first.sorted() == second.sorted())
        #expect(first != first.sorted() && first != first.sorted().reversed())
    }

    @Test("exclude-old-transactions leaves the newest row of each subscription")
    func newestOnly() throws {
        let bundle = try TestBundle.setup([.monthlyCommitment])
        let receipt = Base64.text(bundle.receipt)
        let secret = try #require(testApp.sharedSecret)
        let body =
            "{\"receipt-data\":\"\(receipt)\",\"password\":\"\(secret)\",\"exclude-old-transactions\":true}"

        let answer = bundle.simulation.verifyReceipt.answer(
            to: Array(body.utf8), host: .production, at: day("2026-06-30"))

        let rows = try #require(try JSONDocument(answer.body).root["latest_receipt_info"]).elements
        let newest = try #require(bundle.account.subscriptions[0].purchases.last)
        #expect(rows.count == 1)
        #expect(rows.first?.string("purchase_date_ms") == String(newest.purchaseDate.milliseconds))
    }

    @Test("a transaction receipt has flat objects: 0 while the subscription runs, 21006 after its end")
    func transactionReceipt() throws {
        let bundle = try TestBundle.setup([.switchOffAndExpire], style: .transaction)
        let subscription = bundle.account.subscriptions[0]
        let last = try #require(subscription.purchases.last)
        let end = try #require(last.expiresDate)

        let running = bundle.answer(at: end.advanced(byMilliseconds: -1))
        let expired = bundle.answer(at: end)

        #expect(running.status == 0 && expired.status == 21006)
        let before = try JSONDocument(running.body).root
        let after = try JSONDocument(expired.body).root
        #expect(before["latest_receipt_info"]?.isObject == true && before["latest_expired_receipt_info"] == nil)
        #expect(after["latest_expired_receipt_info"]?.isObject == true && after["latest_receipt_info"] == nil)
        #expect(after["latest_receipt"] == nil)
        let row = try #require(after["latest_expired_receipt_info"])
        #expect(row.string("bid") == testApp.bundleId)
        #expect(row.string("transaction_id") == last.transactionId)
        #expect(row.string("expires_date") == String(end.milliseconds))
        #expect(row.string("expires_date_formatted") == V1Date.gmt(end))
        #expect(row.string("unique_identifier")?.count == 40)
        #expect(after["receipt"]?.string("transaction_id") == subscription.originalTransactionId)
        #expect(before["auto_renew_status"]?.int64 == 0 && before["expiration_intent"] == nil)
        #expect(after["auto_renew_status"]?.int64 == 0 && after.string("expiration_intent") == "1")
    }

    @Test("a subscription that nobody renewed or switched off expires by itself")
    func endOfStory() throws {
        let bundle = try TestBundle.setup([.renewals])
        let end = try #require(bundle.account.subscriptions[0].purchases.last?.expiresDate)

        func pending(_ instant: Instant) throws -> JSONValue {
            let answer = try JSONDocument(bundle.answer(at: instant).body).root
            return try #require(answer["pending_renewal_info"]?.elements.first)
        }

        let before = try pending(end.advanced(byMilliseconds: -1))
        let after = try pending(end)
        #expect(before.string("auto_renew_status") == "1" && before.string("expiration_intent") == nil)
        #expect(after.string("auto_renew_status") == "0" && after.string("expiration_intent") == "5")
    }
}

// MARK: - Faults

extension VerifyReceiptTests {
    @Test("a forced status is answered instead, with is-retryable in each of its spellings")
    func statuses() throws {
        let bundle = try TestBundle.setup()
        let spellings: [(StoreFault.IsRetryable.Spelling, String)] = [
            (.flag, "\"is-retryable\":true"), (.number, "\"is-retryable\":1"), (.text, "\"is-retryable\":\"1\""),
            (.underscore, "\"is_retryable\":true"),
        ]

        #expect(Self.text(bundle.answer(fault: .status(21005, nil))) == "{\"status\":21005}")
        #expect(Self.text(bundle.answer(fault: .status(21009, nil))) == "{\"status\":21009}")
        for (spelling, text) in spellings {
            let fault = StoreFault.status(21199, StoreFault.IsRetryable(true, spelling: spelling))
            #expect(Self.text(bundle.answer(fault: fault)) == "{\(text),\"status\":21199}")
        }
        let refused = StoreFault.status(21104, StoreFault.IsRetryable(false, spelling: .text))
        #expect(Self.text(bundle.answer(fault: refused)) == "{\"is-retryable\":\"0\",\"status\":21104}")
    }

    @Test("an answer that is cut off is no JSON text")
    func cutOff() throws {
        let bundle = try TestBundle.setup()
        let whole = bundle.answer().body

        let answer = bundle.answer(fault: .cutOff).body

        #expect(!answer.isEmpty && whole.starts(with: answer))
        #expect(throws: JSONError.self) { try JSONDocument(answer) }
    }

    @Test("an answer without purchases is status 0 with an empty in_app")
    func withoutPurchases() throws {
        let answer = try JSONDocument(try TestBundle.setup().answer(fault: .withoutPurchases).body).root

        #expect(answer["status"]?.int64 == 0)
        #expect(answer["receipt"]?["in_app"]?.elements.isEmpty == true)
        #expect(answer["latest_receipt_info"] == nil && answer["pending_renewal_info"] == nil)
    }

    @Test("an answer of an old sandbox account is larger than 1 MiB, and its other rows are all there")
    func padded() throws {
        var sandbox = testApp
        sandbox.environment = .sandbox
        let bundle = try TestBundle.setup(app: sandbox)

        let body = bundle.answer(host: .sandbox, fault: .padded).body

        #expect(body.count > 1 << 20)
        func ids(_ body: [UInt8]) throws -> Set<String> {
            let rows = try #require(try JSONDocument(body).root["latest_receipt_info"]).elements
            let ids = Set(rows.compactMap { $0.string("transaction_id") })
            #expect(ids.count == rows.count)
            return ids
        }
        let plain = try ids(bundle.answer(host: .sandbox).body)
        #expect(try ids(body).isSuperset(of: plain))
        #expect(try TestBundle.setup().answer(fault: .padded).body.count < 1 << 17)
    }

    @Test("faults depend on seed and clock only, last ten minutes, and are as frequent as asked")
    func draws() {
        let faults = StoreFaults(seed: 5, fraction: 0.4)
        let same = StoreFaults(seed: 5, fraction: 0.4)
        let start = day("2026-01-01")
        let instants = (0..<2000).map { start.advanced(byMilliseconds: Int64($0) * 600_000) }

        let drawn = instants.map { faults.fault(at: $0, host: .production, receipt: 1) }

        #expect(drawn == instants.map { same.fault(at: $0, host: .production, receipt: 1) })
        #expect(
            drawn
                == instants.map {
                    faults.fault(at: $0.advanced(byMilliseconds: 599_999), host: .production, receipt: 1)
                })
        #expect(drawn != instants.map { faults.fault(at: $0, host: .sandbox, receipt: 1) })
        #expect(drawn != instants.map { faults.fault(at: $0, host: .production, receipt: 2) })
        #expect((700...900).contains(drawn.count { $0 != nil }))
        let names = Set(drawn.compactMap { $0?.name })
        #expect(
            names == [
                "dropped", "overloaded", "slow", "status_21005", "status_21009", "status_21199", "cut_off",
                "marked_as_html", "padded", "without_purchases",
            ])
        #expect(
            instants.allSatisfy {
                StoreFaults(seed: 5, fraction: 0).fault(at: $0, host: .production, receipt: 1) == nil
            })
    }
}
