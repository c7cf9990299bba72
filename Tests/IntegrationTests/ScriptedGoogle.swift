import Crypto
import CryptoExtras
import Encoding
import Foundation
import PlayStore
import StoreClient
import Synchronization
import TestSupport

/// Google's services as a test says: access tokens, signing keys and the Play Developer API. An unknown purchase is 404.
final class ScriptedGoogle: StoreTransport {
    struct Reply: Sendable {
        var status = 200
        var body: String
        var retryAfter: String?
    }

    private struct State: Sendable {
        var replies: [String: [Reply]] = [:]
        var failures = 0
        var requests: [String] = []
        var bodies: [String] = []
        var keys: [UInt8]?
        var tokens = 0
        var isTokenRefused = false
        var held: Set<String> = []
    }

    private let state: Mutex<State>

    init() throws { state = Mutex(State(keys: try Self.keySet())) }

    /// Method and path of each request to the API, in order, without the part that all have.
    var requests: [String] { state.withLock { $0.requests } }
    /// The bodies of the requests that had one, in order.
    var bodies: [String] { state.withLock { $0.bodies } }
    /// The number of requests for an access token.
    var tokens: Int { state.withLock { $0.tokens } }

    /// Lets each request whose path ends with this get the replies in order, and the last one for ever.
    func answer(_ path: String, _ replies: Reply...) {
        state.withLock { $0.replies[path] = replies }
    }

    /// Lets the next calls to the API fail without an answer.
    func fail(_ calls: Int) { state.withLock { $0.failures = calls } }

    /// Lets requests for a path wait for their replies, or no longer.
    func hold(_ path: String, _ isHeld: Bool = true) {
        state.withLock { state in
            if isHeld { state.held.insert(path) } else { state.held.remove(path) }
        }
    }

    /// Sets the signing keys; nil if they cannot be fetched.
    func publish(_ keys: [UInt8]?) { state.withLock { $0.keys = keys } }

    func refuseTokens(_ isRefused: Bool) { state.withLock { $0.isTokenRefused = isRefused } }

    func send(
        _ sent: StoreRequest, timeout: Duration, bytesMax: Int
    ) async throws(TransportFailure) -> StoreResponse {
        if sent.url == "https://www.googleapis.com/oauth2/v3/certs" {
            guard let keys = state.withLock({ $0.keys }) else { throw .unreachable }
            return StoreResponse(status: 200, cacheControl: "public, max-age=22000", body: keys)
        }
        if sent.url == "https://oauth2.googleapis.com/token" {
            let (number, isRefused) = state.withLock { state in
                state.tokens += 1
                return (state.tokens, state.isTokenRefused)
            }
            if isRefused { return StoreResponse(status: 400, body: Array(#"{"error":"invalid_grant"}"#.utf8)) }
            return StoreResponse(
                status: 200, body: Array(#"{"access_token":"access-\#(number)","expires_in":3599}"#.utf8))
        }
        let base = "https://androidpublisher.googleapis.com/androidpublisher/v3/applications/"
        let app = [Self.app, Self.secondApp].first { sent.url.hasPrefix("\(base)\($0)/") }
        guard let app, sent.token?.hasPrefix("access-") == true else { throw .unreachable }
        let path = String(sent.url.dropFirst(base.count + app.count + 1).prefix { $0 != "?" })
        let reply = state.withLock { state -> Reply? in
            state.requests.append("\(sent.method) \(path)")
            if let body = sent.body { state.bodies.append(String(decoding: body, as: UTF8.self)) }
            if state.failures > 0 {
                state.failures -= 1
                return nil
            }
            guard var replies = state.replies[path], let next = replies.first else { return Self.notFound }
            if replies.count > 1 { replies.removeFirst() }
            state.replies[path] = replies
            return next
        }
        while state.withLock({ $0.held.contains(path) }) {
            guard (try? await Task.sleep(for: .milliseconds(5))) != nil else { throw .cancelled }
        }
        guard let reply else { throw .unreachable }
        return StoreResponse(status: reply.status, retryAfter: reply.retryAfter, body: Array(reply.body.utf8))
    }
}

// MARK: - Samples

extension ScriptedGoogle {
    static let app = "com.example.play"
    /// Has the same purchases.
    static let secondApp = "com.example.second"
    static let audience = "https://ledger.example.com/google/notifications"
    static let email = "push@example.iam.gserviceaccount.com"
    static let notFound = error(404, "purchaseTokenNotFound")

    /// Google's key, and one that is not published.
    static func key() throws -> _RSA.Signing.PrivateKey { try keys.get().google }
    static func otherKey() throws -> _RSA.Signing.PrivateKey { try keys.get().other }

    private static let keys = Result {
        (
            google: try _RSA.Signing.PrivateKey(keySize: .bits2048),
            other: try _RSA.Signing.PrivateKey(keySize: .bits2048)
        )
    }

    static func account() throws -> GoogleCredentials {
        let file = try JSONSerialization.data(withJSONObject: [
            "type": "service_account", "client_email": "ledger@example.iam.gserviceaccount.com",
            "private_key_id": "1", "private_key": try key().pemRepresentation,
            "token_uri": "https://oauth2.googleapis.com/token",
        ])
        return .serviceAccount(try ServiceAccount(keyFile: Array(file)))
    }

    static func configured(
        _ authentication: PushAuthentication = .identity(audience: audience, email: email), packageName: String = app,
        acknowledges: Bool = true, polling: Bool = true
    ) throws -> GoogleApp {
        GoogleApp(
            PlayApp(packageName: packageName, pushAuthentication: authentication), credentials: try account(),
            acknowledges: acknowledges, polling: polling)
    }

    static func error(_ status: Int, _ reason: String, domain: String = "androidpublisher") -> Reply {
        Reply(
            status: status,
            body: """
                {"error":{"code":\(status),"message":"Said Google.","errors":[{"domain":"\(domain)",\
                "reason":"\(reason)","message":"Said Google."}]}}
                """)
    }

    /// An answer of subscriptionsv2.
    static func subscription(
        _ state: String = "ACTIVE", order: String = "GPA.1", start: Instant, end: Instant, isAcknowledged: Bool = true,
        isTest: Bool = false, more: String = ""
    ) -> Reply {
        Reply(
            body: """
                {"kind":"androidpublisher#subscriptionPurchaseV2","startTime":"\(start)","regionCode":"DE",\
                "subscriptionState":"SUBSCRIPTION_STATE_\(state)","latestOrderId":"\(order)",\(more)\
                \(isTest ? #""testPurchase":{},"# : "")\
                "acknowledgementState":"ACKNOWLEDGEMENT_STATE_\(isAcknowledged ? "ACKNOWLEDGED" : "PENDING")",\
                "lineItems":[{"productId":"premium","expiryTime":"\(end)","latestSuccessfulOrderId":"\(order)",\
                "autoRenewingPlan":{"autoRenewEnabled":\(state == "ACTIVE"),\
                "recurringPrice":{"currencyCode":"USD","units":"9"}},"offerDetails":{"basePlanId":"monthly"}}]}
                """)
    }

    /// A push about a subscription.
    static func push(
        _ type: Int, _ token: String, id: String, at eventTime: Instant, app: String = app
    ) -> [UInt8] {
        push(
            """
            {"version":"1.0","packageName":"\(app)","eventTimeMillis":"\(eventTime.milliseconds)",\
            "subscriptionNotification":{"version":"1.0","notificationType":\(type),"purchaseToken":"\(token)",\
            "subscriptionId":"premium"}}
            """, id: id)
    }

    /// A push with the question about a chargeback.
    static func review(_ order: String, token: String?, id: String, at eventTime: Instant) -> [UInt8] {
        push(
            """
            {"version":"1.0","packageName":"\(app)","eventTimeMillis":"\(eventTime.milliseconds)",\
            "pendingRefundReviewNotification":{"version":"1.0",\(token.map { #""pendingRefundToken":"\#($0)","# } ?? "")\
            "orderId":"\(order)","refundReason":7}}
            """, id: id)
    }

    /// A push about a voided purchase.
    static func void(_ token: String, order: String, id: String, at eventTime: Instant) -> [UInt8] {
        push(
            """
            {"version":"1.0","packageName":"\(app)","eventTimeMillis":"\(eventTime.milliseconds)",\
            "voidedPurchaseNotification":{"purchaseToken":"\(token)","orderId":"\(order)","productType":1,\
            "refundType":1}}
            """, id: id)
    }

    /// A push with any data.
    static func push(_ data: String, id: String) -> [UInt8] {
        let text = Data(data.utf8).base64EncodedString()
        return Array(
            """
            {"message":{"data":"\(text)","messageId":"\(id)","message_id":"\(id)",\
            "publishTime":"2026-11-01T00:00:00.2Z"},"subscription":"projects/p/subscriptions/s"}
            """.utf8)
    }

    /// A token of a push, with one claim replaced.
    static func identity(
        _ claim: String? = nil, _ value: Any? = nil, kid: String = "k1", isForged: Bool = false, at now: Instant
    ) throws -> String {
        let second = now.milliseconds / 1000
        var claims: [String: Any] = [
            "iss": "https://accounts.google.com", "aud": audience, "email": email, "email_verified": true,
            "sub": "100000000000000000001", "iat": second, "exp": second + 3600,
        ]
        if let claim { claims[claim] = value }
        let header = try JSONSerialization.data(withJSONObject: ["alg": "RS256", "kid": kid, "typ": "JWT"])
        let body = try JSONSerialization.data(withJSONObject: claims)
        let signed = base64url(Array(header)) + "." + base64url(Array(body))
        let signature = try (isForged ? otherKey() : key()).signature(
            for: SHA256.hash(data: Data(signed.utf8)), padding: .insecurePKCS1v1_5)
        return signed + "." + base64url(Array(signature.rawRepresentation))
    }

    static func keySet() throws -> [UInt8] {
        let numbers = try key().publicKey.getKeyPrimitives()
        return Array(
            """
            {"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"k1",\
            "n":"\(base64url(Array(numbers.modulus)))","e":"\(base64url(Array(numbers.publicExponent)))"}]}
            """.utf8)
    }

    private static func base64url(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        Base64.append(bytes[...], .url, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

extension TestBundle {
    /// Posts a push with a token.
    ///
    /// - Parameter identity: Nil for a push without one.
    func push(_ body: [UInt8], identity: String?) async throws -> HTTPAnswer {
        try await apple.send(
            "POST", "/google/notifications", headers: identity.map { ["authorization": "Bearer \($0)"] } ?? [:],
            body: body)
    }

    /// Posts a push with a genuine token.
    func push(_ body: [UInt8], at now: Instant = Self.now) async throws -> HTTPAnswer {
        try await push(body, identity: try ScriptedGoogle.identity(at: now))
    }
}
