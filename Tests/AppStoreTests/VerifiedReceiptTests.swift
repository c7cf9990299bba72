import AppStore
import Encoding
import Subscriptions
import TestSupport
import Testing

@Suite("An answer is a fact only if it is genuine and of the app")
struct VerifiedReceiptTests {
    private let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let receivedAt = day("2022-01-02")
    private var answer: JSON { receiptAnswer([row], pending: [pending()], at: "2022-01-02") }

    private func refusal(
        _ answer: JSON, by host: ReceiptHost = .production, subscriptions: [String] = [testSubscription],
        apps: [App] = [App(bundleId: testBundle)]
    ) throws -> ReceiptRefusal? {
        let given = try answer.given(by: host)
        do throws(ReceiptRefusal) {
            _ = try Apps(apps).verify(given, of: testBundle, subscriptions: subscriptions)
            return nil
        } catch {
            return error
        }
    }

    @Test("the stream is the app in the environment of the host", arguments: ReceiptHost.allCases)
    func stream(host: ReceiptHost) throws {
        let name = host == .production ? "Production" : "Sandbox"
        let verified = try receiptAnswer([row], at: "2022-01-02", environment: name).verifiedReceipt(by: host)

        #expect(verified.stream == StreamKey(app: testBundle, environment: host.environment))
        #expect(verified.event.environment == host.environment)
        #expect(verified.event.app == testBundle)
        #expect(verified.chain == nil && !verified.hasShortChain)
        #expect(verified.latestReceipt?.base64 == "MHBsYWlubHkgYSB0ZXN0IHJlY2VpcHQ=")
    }

    @Test(
        "only 0 and 21006 confirm a receipt",
        arguments: [
            21000, 21001, 21002, 21003, 21004, 21005, 21007, 21008, 21009, 21011, 21100, 21199, 1, -1,
        ])
    func status(number: Int) throws {
        let answer = answer.with(["status": .raw(String(number))])

        for host in ReceiptHost.allCases {
            #expect(try refusal(answer, by: host) == .status(ReceiptStatus(number: number)))
        }
    }

    @Test("a genuine receipt of another app is refused")
    func otherApp() throws {
        let both = [App(bundleId: testBundle), App(bundleId: "com.example.other")]

        #expect(try refusal(answer.withReceipt(["bundle_id": "com.example.other"]), apps: both) == .otherApp)
        #expect(try refusal(answer.withReceipt(["bundle_id": "com.example.Magazine"])) == .otherApp)
        #expect(
            try refusal(transactionAnswer(oldRow("1", "2019-01-01", "2019-02-01").with(["bid": "com.example.other"])))
                == .otherApp)
    }

    @Test("a receipt that names no app is refused", arguments: ["null", "\"\"", "\" \"", "{}"])
    func noApp(text: String) throws {
        #expect(try refusal(answer.withReceipt(["bundle_id": .raw(text)])) == .appMissing)
        #expect(try refusal(answer.with(["receipt": nil])) == .appMissing)
    }

    @Test("an answer that names another environment than that of its host is refused")
    func otherEnvironment() throws {
        #expect(try refusal(answer, by: .sandbox) == .wrongEnvironment)
        #expect(try refusal(answer.with(["environment": "Sandbox"])) == .wrongEnvironment)
        #expect(try refusal(answer.with(["environment": "Xcode"])) == .wrongEnvironment)
        #expect(try refusal(answer.without("environment")) == nil)
    }

    @Test("an environment that the app does not accept is refused")
    func environmentRefused() throws {
        let apps = [App(bundleId: testBundle, environments: [.production])]
        let sandbox = answer.with(["environment": "Sandbox"])

        #expect(try refusal(sandbox, by: .sandbox, apps: apps) == .environmentRefused(.sandbox))
        #expect(try refusal(answer, apps: apps) == nil)
    }

    @Test("an answer about an app that is not configured is refused")
    func unknownApp() throws {
        #expect(try refusal(answer, apps: []) == .appUnknown)
        #expect(try refusal(answer, apps: [App(bundleId: "com.example.other")]) == .appUnknown)
    }

    @Test("the stored answer is the one that arrived, and decodes to the same event")
    func evidence() throws {
        let verified = try answer.verifiedReceipt(receivedAt: receivedAt)

        #expect(verified.evidence.bytes == answer.bytes)
        #expect(
            try StoredAnswer(decoding: verified.evidence.bytes)
                .event(app: testBundle, environment: .production, receivedAt: receivedAt) == verified.event)
    }

    @Test(
        "a shared secret in any place is emptied before the answer is stored",
        arguments: [
            ["password": .text(testSecret)], ["exception": .text("bad secret \(testSecret)!")],
            ["environment": .text(testSecret)], [testSecret: 1],
            ["latest_receipt": .text(String(repeating: "A", count: 300) + testSecret)],
            ["exception": .text("\\u0030123456789abcdef0123456789abcdef")],
        ] as [JSON])
    func secrets(members: JSON) throws {
        guard case .object(let added) = members else { return }
        let expected = try self.answer.receiptEvent().transactions
        var answer = answer
        for (key, value) in added { answer[key] = value }

        let verified = try answer.verifiedReceipt(receivedAt: receivedAt)

        let text = String(decoding: verified.evidence.bytes, as: UTF8.self)
        #expect(!text.contains(testSecret) && !text.contains("u0030123456789"))
        #expect(verified.event.transactions == expected)
        #expect(
            try StoredAnswer(decoding: verified.evidence.bytes)
                .event(app: testBundle, environment: .production, receivedAt: receivedAt) == verified.event)
    }

    @Test("both secrets of an app are emptied while one is being replaced")
    func twoSecrets() throws {
        let old = "fedcba9876543210fedcba9876543210"
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: [testSecret, old])])

        let verified = try answer.with(["exception": .text(old)]).verifiedReceipt(apps: apps)

        #expect(!String(decoding: verified.evidence.bytes, as: UTF8.self).contains(old))
    }

    @Test("an app id that holds the secret is emptied, too, and then names no app")
    func secretAsApp() throws {
        let apps = Apps([App(bundleId: testBundle, sharedSecrets: ["com.example.magazine"])])

        #expect(throws: ReceiptRefusal.appMissing) { try answer.verifiedReceipt(apps: apps) }
    }
}

@Suite("An answer about a deleted account")
struct DeletedAccountTests {
    private let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
    private let deleted: JSON = ["status": 21010, "environment": "Production"]
    private let receivedAt = day("2022-01-15")

    @Test("is about the subscriptions that are known by the receipt")
    func subscriptions() throws {
        let verified = try deleted.verifiedReceipt(
            receivedAt: receivedAt, subscriptions: ["1000000000000002", testSubscription, testSubscription])

        #expect(verified.status.number == 21010)
        #expect(verified.event.source == .appleReceipt && verified.event.kind == .accountDeletion)
        #expect(verified.event.accountDeletions == [testSubscription, "1000000000000002"])
        #expect(verified.event.subscriptions.map(\.text).sorted() == [testSubscription, "1000000000000002"])
        #expect(verified.event.app == testBundle)
        #expect(verified.event.occurredAt == nil)
        #expect(
            String(decoding: verified.evidence.bytes, as: UTF8.self)
                == #"{"answer":{"status": 21010, "environment": "Production"},"#
                + #""subscriptions":["1000000000000001","1000000000000002"]}"#)
        #expect(
            try StoredAnswer(decoding: verified.evidence.bytes)
                .event(app: testBundle, environment: .production, receivedAt: receivedAt) == verified.event)
    }

    @Test("says nothing if no subscription is known")
    func nothingKnown() {
        #expect(throws: ReceiptRefusal.nothingKnown) { try deleted.verifiedReceipt() }
    }

    @Test("is refused if it names another app or environment")
    func others() {
        let other = deleted.with(["receipt": ["bundle_id": "com.example.other"]])

        #expect(throws: ReceiptRefusal.otherApp) { try other.verifiedReceipt(subscriptions: [testSubscription]) }
        #expect(throws: ReceiptRefusal.wrongEnvironment) {
            try deleted.verifiedReceipt(by: .sandbox, subscriptions: [testSubscription])
        }
    }

    @Test("does not use purchases that it contains all the same")
    func rows() throws {
        let event = try receiptAnswer([row], at: "2022-01-02", status: 21010)
            .receiptEvent(subscriptions: [testSubscription])

        #expect(event.transactions == [] && event.renewals == [])
    }

    @Test("closes access in every order of arrival, until a purchase is reported again")
    func order() throws {
        let bought = try newBody("INITIAL_BUY", rows: [row]).event(receivedAt: day("2022-01-01"))
        let signed = try V2Body(
            "SUBSCRIBED", "INITIAL_BUY", at: "2022-01-01",
            v2Row("1000000000000001", "2022-01-01", "2022-02-01"), v2Renewal()
        ).event()
        let checked = try receiptAnswer([row], at: "2022-01-10").receiptEvent()
        let deletion = try deleted.verifiedReceipt(receivedAt: receivedAt, subscriptions: [testSubscription]).event
        let renewed = try V2Body(
            "DID_RENEW", at: "2022-02-01", v2Row("1000000000000002", "2022-02-01", "2022-03-01"), v2Renewal()
        ).event()

        for order in permutations(of: [bought, signed, checked, deletion]) {
            let subscription = fold(at: receivedAt, order)
            #expect(subscription.access == [])
            #expect(subscription.transactions.map(\.transaction.revocationDate) == [receivedAt])
        }
        for order in permutations(of: [signed, checked, deletion, renewed]) {
            #expect(fold(at: receivedAt, order).spans == [Span("2022-02-01", "2022-03-01")])
        }
    }

    /// Folds events that were all received at one time.
    private func fold(at receivedAt: Instant, _ events: [Event]) -> Subscription {
        var facts = SubscriptionFacts(originalTransactionId: testSubscription)
        for (index, event) in events.enumerated() {
            facts.fold(
                event.facts, occurredAt: event.occurredAt, receivedAt: receivedAt, position: Int64(index + 1))
        }
        return Subscription(facts)
    }
}

@Suite("V1, V2 and receipts agree")
struct ReceiptAgreementTests {
    @Test("copies of a transaction from all sources are one period")
    func onePeriod() throws {
        let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
        let events = [
            try newBody("INITIAL_BUY", rows: [row]).event(receivedAt: day("2022-01-01")),
            try V2Body(
                "SUBSCRIBED", "INITIAL_BUY", at: "2022-01-01",
                v2Row("1000000000000001", "2022-01-01", "2022-02-01"), v2Renewal()
            ).event(),
            try receiptAnswer([row], own: [row], pending: [pending()], at: "2022-01-03").receiptEvent(),
            try transactionAnswer(oldRow("1000000000000001", "2022-01-01", "2022-02-01")).receiptEvent(),
        ]

        for order in permutations(of: events) {
            let subscription = fold(order)
            #expect(subscription.transactions.count == 1)
            #expect(subscription.access.map(\.start) == [day("2022-01-01")])
            #expect(subscription.access.map(\.end) == [day("2022-02-01")])
            #expect(subscription.transactions.first?.transaction.price == 480_000)
            #expect(subscription.renewal(at: .latest).recentSubscriptionStartDate == day("2018-02-20"))
        }
    }

    @Test("grace, retry and switching off are read from a receipt as from V1")
    func pendingRenewal() throws {
        let row = newRow("1000000000000001", "2022-01-01", "2022-02-01")
        let grace = pending().with([
            "is_in_billing_retry_period": "1", "expiration_intent": "2",
            "grace_period_expires_date": gmt("2022-02-17"), "grace_period_expires_date_ms": milliseconds("2022-02-17"),
        ])
        let retry = pending().with(["is_in_billing_retry_period": "1", "expiration_intent": "2"])

        let failing = fold([try receiptAnswer([row], pending: [grace], at: "2022-02-02").receiptEvent()])
        #expect(failing.status(at: day("2022-02-16")) == .grace)
        #expect(failing.status(at: day("2022-02-17")) == .retry)
        let retried = fold([try receiptAnswer([row], pending: [retry], at: "2022-02-02").receiptEvent()])
        #expect(retried.status(at: day("2022-02-02")) == .retry)
        let off = fold([
            try receiptAnswer([row], pending: [pending(autoRenew: "0")], at: "2022-01-10").receiptEvent()
        ])
        #expect(off.status(at: day("2022-01-10")) == .activeWillEnd)
        #expect(off.status(at: day("2022-02-01")) == .expired)
    }
}
