import AppStore
import Encoding
import Simulation
import Subscriptions
import Testing

/// Signed texts as StoreKit 2 gives them to an app.
private enum DeviceText {
    static let start = "2025-03-01"
    static let end = "2025-04-01"

    static func transaction(
        _ id: String = "2000000000000001", signedAt: String = "2025-03-02", environment: String = "Production",
        bundle: String = testBundle, subscription: String = testSubscription
    ) -> JSON {
        v2Row(id, start, end, subscription: subscription).with([
            "bundleId": .text(bundle), "environment": .text(environment), "signedDate": ms(signedAt),
            "deviceVerification": "ZGV2aWNlIHZlcmlmaWNhdGlvbg==",
            "deviceVerificationNonce": "48ccfa42-7431-4f22-9908-7e88983e105a",
        ])
    }

    static func renewal(
        signedAt: String = "2025-03-02", environment: String = "Production", subscription: String = testSubscription
    ) -> JSON {
        v2Renewal(autoRenew: false, subscription: subscription).with([
            "environment": .text(environment), "signedDate": ms(signedAt),
        ])
    }

    static func signed(_ payload: JSON, by signer: JWSSigner = .standard) -> ArraySlice<UInt8> {
        signer.sign(payload.bytes)[...]
    }
}

@Suite("Signed data of devices")
struct SignedStatementTests {
    private let receiver = V2Receiver()

    /// Nil if the texts are accepted.
    private func problem(
        _ transaction: ArraySlice<UInt8>, renewal: ArraySlice<UInt8>? = nil, of app: String = testBundle,
        by receiver: V2Receiver? = nil
    ) async -> String? {
        do throws(StatementRefusal) {
            let statement = try SignedStatement(transaction: transaction, renewal: renewal)
            _ = try await (receiver ?? self.receiver).verifier.verify(
                statement, of: app, receivedAt: V2Receiver.receivedAt)
            return nil
        } catch {
            return error.description
        }
    }

    @Test("a transaction that names no app, as some old ones, is accepted from the App Store's own answer only")
    func withoutApp() async throws {
        let text = DeviceText.signed(DeviceText.transaction().without("bundleId"))

        let verified = try await receiver.verifier.verify(
            try SignedStatement(transaction: text, source: .appleAPI), of: testBundle,
            receivedAt: V2Receiver.receivedAt)

        #expect(verified.stream == StreamKey(app: testBundle, environment: .production))
        #expect(verified.event.transactions.map(\.transactionId) == ["2000000000000001"])
        #expect(await problem(text) != nil)
    }

    @Test("a signed transaction becomes an event with its chain, without the fields of the device")
    func transaction() async throws {
        let text = DeviceText.signed(DeviceText.transaction())

        let verified = try await receiver.verifier.verify(
            try SignedStatement(transaction: text), of: testBundle, receivedAt: V2Receiver.receivedAt)

        #expect(verified.stream == StreamKey(app: testBundle, environment: .production))
        #expect(verified.event.source == .appleDevice && verified.event.kind == .transaction)
        #expect(verified.event.occurredAt == day("2025-03-02"))
        #expect(verified.event.transactions.map(\.transactionId) == ["2000000000000001"])
        #expect(verified.event.transactions.map(\.signedDate) == [day("2025-03-02")])
        #expect(verified.event.transactions.map(\.additional) == [nil])
        #expect(verified.event.defects.isEmpty && verified.event.unknownFields.isEmpty)
        #expect(verified.chain != nil && !verified.hasShortChain)
        #expect(
            verified.evidence.bytes == Array("{\"signedTransaction\":\"".utf8) + text + Array("\"}".utf8))
    }

    @Test("a transaction has the same facts from a device as in a notification")
    func agreement() throws {
        let row = DeviceText.transaction()
        let plain = row.without("deviceVerification").without("deviceVerificationNonce")

        let handedIn = try SignedStatement(transaction: DeviceText.signed(row)).event()
        let notified = try V2Body("DID_RENEW", at: "2025-03-02", plain).event()

        #expect(handedIn.transactions == notified.transactions)
    }

    @Test("renewal info is stored with the transaction that proves its app")
    func renewal() async throws {
        let statement = try SignedStatement(
            transaction: DeviceText.signed(DeviceText.transaction()),
            renewal: DeviceText.signed(DeviceText.renewal()))

        let verified = try await receiver.verifier.verify(
            statement, of: testBundle, receivedAt: V2Receiver.receivedAt)
        let stored = try SignedStatement(decoding: verified.evidence.bytes)

        #expect(verified.event.renewals.map(\.autoRenewStatus) == [false])
        #expect(stored?.event() == verified.event)
    }

    @Test("an app transaction is an event without a subscription, and the same one whenever it is signed")
    func appTransaction() async throws {
        func statement(_ date: String, _ version: String) throws -> SignedStatement {
            let payload = v2AppTransaction(at: date).with([
                "applicationVersion": .text(version), "deviceVerificationNonce": .text(uuid(of: date)),
            ])
            return try SignedStatement(appTransaction: DeviceText.signed(payload))
        }

        let first = try await receiver.verifier.verify(
            try statement("2025-03-01", "42"), of: testBundle, receivedAt: V2Receiver.receivedAt)
        let repeated = try statement("2025-03-05", "42").event()
        let updated = try statement("2025-03-05", "43").event()

        #expect(first.event.kind == .appTransaction && first.event.subscriptions.isEmpty)
        #expect(first.event.dedupeKey == repeated.dedupeKey)
        #expect(first.event.dedupeKey != updated.dedupeKey)
    }

    @Test("the same signed text is the same event, and another time of signing is another one")
    func dedupe() throws {
        func key(_ signedAt: String) throws -> DedupeKey {
            try SignedStatement(transaction: DeviceText.signed(DeviceText.transaction(signedAt: signedAt)))
                .event().dedupeKey
        }

        #expect(try key("2025-03-02") == key("2025-03-02"))
        #expect(try key("2025-03-02") != key("2025-03-03"))
    }

    @Test("a transaction of another app or environment is rejected")
    func otherApp() async {
        let otherApp = await problem(DeviceText.signed(DeviceText.transaction(bundle: "com.example.other")))
        let local = await problem(DeviceText.signed(DeviceText.transaction(environment: "Xcode")))
        let unknown = await problem(
            DeviceText.signed(DeviceText.transaction(bundle: "com.example.unknown")), of: "com.example.unknown")

        #expect(otherApp == "signedTransaction is of another app")
        #expect(local == "signedTransaction is of an environment that the app does not accept")
        #expect(unknown == "signedTransaction is of an app that is not configured")
    }

    @Test("a root that is not trusted and a changed byte are rejected")
    func forged() async {
        let text = DeviceText.signed(DeviceText.transaction())
        var changed = Array(text)
        let place = changed.count - 20
        changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")

        let forged = await problem(changed[...])
        let untrusted = await problem(text, by: V2Receiver(roots: .apple))

        #expect(forged == "signedTransaction has a signature that does not match")
        #expect(untrusted == "signedTransaction has certificates that do not lead to a trusted root")
    }

    @Test("a text that was cut off, is empty or too long is rejected")
    func malformed() async {
        let whole = DeviceText.signed(DeviceText.transaction())
        let cut = whole[..<(whole.lastIndex(of: UInt8(ascii: ".")) ?? 0)]
        let long = [UInt8](repeating: UInt8(ascii: "e"), count: SignedStatement.textBytesMax + 1)

        let problems = [await problem(cut), await problem([]), await problem(long[...])]

        let segments = "signedTransaction does not consist of three segments separated by dots"
        #expect(problems == [segments, segments, "signedTransaction is longer than 131072 bytes"])
    }

    @Test("a signed text of another kind is rejected, although Apple signed it")
    func otherKind() async {
        let transaction = DeviceText.signed(DeviceText.transaction())
        let renewal = DeviceText.signed(DeviceText.renewal())
        let notification = V2Body("DID_RENEW", at: "2025-03-02", DeviceText.transaction()).jws()[...]

        let asTransaction = [await problem(renewal), await problem(notification)]
        let asRenewal = [
            await problem(transaction, renewal: transaction), await problem(transaction, renewal: notification),
        ]

        #expect(asTransaction.allSatisfy { $0?.hasPrefix("signedTransaction is not a transaction: ") == true })
        #expect(asRenewal.allSatisfy { $0?.hasPrefix("signedRenewalInfo is not renewal info: ") == true })
        #expect(throws: StatementRefusal.self) { try SignedStatement(appTransaction: transaction) }
        #expect(throws: StatementRefusal.self) { try SignedStatement(appTransaction: notification) }
    }

    @Test("renewal info of another subscription or environment is rejected: it names no app itself")
    func otherPurchase() async {
        let transaction = DeviceText.signed(DeviceText.transaction())
        let subscription = DeviceText.signed(DeviceText.renewal(subscription: "2000000000009999"))
        let environment = DeviceText.signed(DeviceText.renewal(environment: "Sandbox"))

        let problems = [
            await problem(transaction, renewal: subscription), await problem(transaction, renewal: environment),
        ]

        let expected = "signedRenewalInfo is not of the subscription and environment of signedTransaction"
        #expect(problems == [expected, expected])
    }

    @Test("an error names the place of its text in a list")
    func places() async throws {
        let first = DeviceText.signed(DeviceText.transaction("2000000000000001"))
        let other = DeviceText.signed(DeviceText.transaction("2000000000000002", bundle: "com.example.other"))

        let statements = try SignedStatement.decode(transactions: [first, other], renewals: [], appTransaction: nil)
        var problem: String?
        do throws(StatementRefusal) {
            _ = try await receiver.verifier.verify(
                statements[1], of: testBundle, receivedAt: V2Receiver.receivedAt)
        } catch {
            problem = error.description
        }

        #expect(problem == "signedTransaction[1] is of another app")
    }

    @Test("renewal info joins the first transaction of its subscription")
    func joined() throws {
        let second = "1000000000000002"
        let transactions = [
            DeviceText.transaction("2000000000000001"),
            DeviceText.transaction("2000000000000002", subscription: second),
            DeviceText.transaction("2000000000000003", subscription: second),
        ]

        let statements = try SignedStatement.decode(
            transactions: transactions.map { DeviceText.signed($0) },
            renewals: [DeviceText.signed(DeviceText.renewal(subscription: second))],
            appTransaction: DeviceText.signed(v2AppTransaction(at: "2025-03-01")))

        #expect(statements.map { $0.event().renewals.count } == [0, 1, 0, 0])
        #expect(statements.map { $0.event().kind } == [.transaction, .transaction, .transaction, .appTransaction])
    }
}
