import AppStore
import Crypto
import CryptoExtras
import Encoding
import Foundation
import HTTPServer
import PlayStore
import Simulation
import StoreClient
import Synchronization
import TestSupport

/// How a purchase can be handed in.
enum HandInWay: String, CaseIterable, Sendable {
    case receipt
    case transaction
    /// Only its id, about which the store is asked.
    case transactionId
    case purchaseToken
    case signedPurchase
    /// By an app, with a publishable token and the assertion of its backend.
    case appTransaction
    case appPurchase

    var path: String {
        switch self {
        case .receipt: "/receipts"
        case .transaction, .transactionId, .appTransaction: "/transactions"
        case .purchaseToken, .signedPurchase, .appPurchase: "/purchases"
        }
    }

    var app: String { path == "/purchases" ? ScriptedGoogle.app : SignedBody.app }

    var isOfApp: Bool { self == .appTransaction || self == .appPurchase }

    /// Whether a store is asked.
    var asks: Bool { self != .transaction && self != .appTransaction }

    /// The member of the body that contains the purchase.
    var field: String {
        switch self {
        case .receipt: "receipt"
        case .transaction, .appTransaction: "signedTransaction"
        case .transactionId: "transactionId"
        case .purchaseToken, .appPurchase: "purchaseToken"
        case .signedPurchase: "signedPurchase"
        }
    }
}

extension HandInWay {
    /// The member of the body with the account id that a backend gave the app.
    var accountMember: String { path == "/purchases" ? "obfuscatedAccountId" : "appAccountToken" }
}

/// A server with one app in each store, and stores that answer about a purchase of each way and number.
///
/// All purchases are of the sandbox, of which Apple's production host knows nothing.
struct HandInBundle: Sendable {
    let server: TestBundle
    let stores: ScriptedStores
    let clock: SetClock
    private let gateway: HTTPClient
    private let publishable: [String: HTTPClient]

    static func with(_ test: (HandInBundle) async throws -> Void) async throws {
        let stores = ScriptedStores(google: try ScriptedGoogle())
        let keys = AssertionKeys(secrets: [AssertionText.secret], publicKeys: [])
        let clock = SetClock()
        let now: @Sendable () -> Instant = { clock.now }
        try await TestBundle.withServer(
            apps: [
                App(bundleId: SignedBody.app, sharedSecrets: [V1Body.secret], serverAPIKey: try DeliveryBundle.key())
            ], roots: SignedBody.roots, store: stores,
            api: ServerAPIClient(
                transport: stores, addresses: .apple, clock: StoreClock(date: now), random: { 0 },
                logger: LogRecorder().logger),
            googleApps: [
                GoogleApp(
                    try ScriptedGoogle.configured().play, credentials: try ScriptedGoogle.account(),
                    licenseKey: try ScriptedGoogle.key().publicKey.derRepresentation.base64EncodedString())
            ], now: now, assertions: [SignedBody.app: keys, ScriptedGoogle.app: keys].compactMapValues(\.self)
        ) { server in
            var publishable: [String: HTTPClient] = [:]
            for app in [SignedBody.app, ScriptedGoogle.app] {
                let token = try await TestBundle.token(.publishable, server.database, app: app)
                publishable[app] = HTTPClient(
                    port: server.backend.port, token: token, patience: server.backend.patience)
            }
            try await test(
                HandInBundle(
                    server: server, stores: stores, clock: clock, gateway: try await server.client(with: .submit),
                    publishable: publishable))
        }
    }

    /// The id under which a purchase is known.
    static func id(_ way: HandInWay, _ number: Int) -> String {
        let place = (HandInWay.allCases.firstIndex(of: way) ?? 0) + 1
        return way.path == "/purchases" ? "token-\(place)-\(number)" : "20000000000\(place)0\(number)"
    }

    /// The member of the body with a purchase, after the stores know it.
    ///
    /// - Parameter account: The account id that it carries; nil for none.
    private func member(_ way: HandInWay, _ number: Int, _ account: String?) throws -> [String: String] {
        let id = Self.id(way, number)
        switch way {
        case .receipt:
            let receipt = ReceiptSample.receipt(UInt8(number))
            let token = account.map { "\"app_account_token\":\"\($0)\"," } ?? ""
            stores.receipts.answerInSandbox(
                receipt,
                ReceiptSample.answer(id).replacing("\"Production\"", with: "\"Sandbox\"")
                    .replacing("\"transaction_id\"", with: "\(token)\"transaction_id\""))
            return ["receipt": receipt]
        case .transaction, .appTransaction:
            return ["signedTransaction": DeviceText.transaction(id, subscription: id, account: account)]
        case .transactionId:
            stores.know(id, account: account)
            return ["transactionId": id]
        case .purchaseToken, .appPurchase:
            know(id, account)
            return ["purchaseToken": id]
        case .signedPurchase:
            know(id, account)
            let text = #"{"packageName":"\#(way.app)","productId":"premium","purchaseToken":"\#(id)"}"#
            let signature = try ScriptedGoogle.key().signature(
                for: Insecure.SHA1.hash(data: Data(text.utf8)), padding: .insecurePKCS1v1_5)
            return ["signedPurchase": text, "signature": signature.rawRepresentation.base64EncodedString()]
        }
    }

    private func know(_ token: String, _ account: String?) {
        stores.google.answer(
            "purchases/subscriptionsv2/tokens/\(token)",
            ScriptedGoogle.subscription(
                start: TestBundle.now.advanced(by: .seconds(-3600)), end: TestBundle.now.advanced(by: .seconds(86_400)),
                isTest: true,
                more: account.map {
                    #""externalAccountIdentifiers":{"obfuscatedExternalAccountId":"\#($0)"},"#
                } ?? ""))
    }

    /// Hands a purchase in.
    ///
    /// - Parameters:
    ///   - account: The account id that the purchase carries; nil for none.
    ///   - more: Members of the body that replace others.
    func handIn(
        _ way: HandInWay, _ number: Int = 1, customer: String? = "u-1", carrying account: String? = nil,
        query: String? = nil, more: [String: Any] = [:]
    ) async throws -> HTTPAnswer {
        var body: [String: Any] = try member(way, number, account)
        if let customer, !way.isOfApp { body["customerId"] = customer }
        body.merge(more) { $1 }
        return try await post(
            Array(JSONSerialization.data(withJSONObject: body)), way, customer: customer, query: query)
    }

    func post(
        _ body: [UInt8], _ way: HandInWay, customer: String? = "u-1", query: String? = nil
    ) async throws -> HTTPAnswer {
        let path = way.path + (query ?? "?app=\(way.app)&environment=any")
        guard way.isOfApp, let client = publishable[way.app] else { return try await gateway.post(body, to: path) }
        let assertion = AssertionText.hs256(AssertionText.claims(customer ?? "u-1"))
        return try await client.send("POST", path, headers: ["Subledger-Assertion": assertion], body: body)
    }

    /// Sets the ownership policy of both apps.
    func set(policy: String) async throws {
        try await script(
            """
            insert into subledger.app_ownership (app, policy)
            values ('\(SignedBody.app)', '\(policy)'), ('\(ScriptedGoogle.app)', '\(policy)')
            """)
    }

    func script(_ sql: String) async throws {
        let owner = try await TestCluster.connect(server.database)
        try await owner.script(sql, deadline: .now + .seconds(10))
        await owner.close()
    }
}

/// Both stores: verifyReceipt, the App Store Server API and Google's services.
final class ScriptedStores: StoreTransport {
    let receipts = ScriptedStore()
    let google: ScriptedGoogle
    private let state = Mutex<(known: [String: String?], isSilent: Bool)>(([:], false))

    init(google: ScriptedGoogle) { self.google = google }

    /// Lets the Server API answer about a transaction, which carries the account id.
    func know(_ transactionId: String, account: String? = nil) {
        state.withLock { $0.known[transactionId] = .some(account) }
    }

    /// Whether the next questions get no answer until they are given up.
    func beSilent(_ isSilent: Bool) { state.withLock { $0.isSilent = isSilent } }

    func send(
        _ sent: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        if state.withLock({ $0.isSilent }), !sent.url.hasSuffix("/token") {
            try? await Task.sleep(for: timeout)
            throw .unreachable
        }
        if sent.url.contains("google") { return try await google.send(sent, timeout: timeout, bytesMax: bytesMax) }
        guard let range = sent.url.range(of: "/inApps/v1/transactions/") else {
            guard !sent.url.contains("/inApps/") else { return Self.unknown }
            return try await receipts.send(sent, timeout: timeout, bytesMax: bytesMax)
        }
        let id = String(sent.url[range.upperBound...])
        guard sent.url.contains("sandbox"), let account = state.withLock({ $0.known[id] }) else { return Self.unknown }
        let text = DeviceText.transaction(id, subscription: id, account: account)
        return StoreResponse(status: 200, body: Array(#"{"signedTransactionInfo":"\#(text)"}"#.utf8))
    }

    private static let unknown = StoreResponse(
        status: 404, body: Array(#"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#.utf8))
}
