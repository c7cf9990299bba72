import Encoding
import Subscriptions
import Testing

@testable import PlayStore

@Suite("Verifying a push")
struct PushVerifierTests {
    let app = PlayApp(
        packageName: "com.example.app",
        pushAuthentication: .identity(audience: TestKeys.audience, email: TestKeys.email))

    func verify(
        _ authorization: String?, _ body: [UInt8] = push(subscriptionNotification("2")), apps: [PlayApp]? = nil,
        now: Instant = TestKeys.now
    ) throws -> VerifiedPush {
        try PushVerifier(apps: apps ?? [app]).verify(
            PushMessage(decoding: body), authorization: authorization, keys: try TestKeys.keys(), now: now)
    }

    func refusal(_ authorization: String?, now: Instant = TestKeys.now) -> PushRefusal? {
        #expect(throws: PushRefusal.self) { try verify(authorization, now: now) }
    }

    @Test("accepts a token of the configured account for the configured audience, with either spelling of the issuer")
    func accepts() throws {
        let verified = try verify("Bearer \(TestKeys.token())")
        let other = try verify(
            "bearer \(TestKeys.token(kid: "k2", key: TestKeys.second) { $0["iss"] = "accounts.google.com" })")

        #expect(verified.stream == StreamKey(app: "com.example.app", environment: .unknown))
        #expect(verified.evidence.bytes == push(subscriptionNotification("2")))
        #expect(verified.notification != nil)
        #expect(other.bodyDigest == verified.bodyDigest)
    }

    @Test("rejects a request without a token", arguments: [nil, "", "Basic abc", "Bearer", "Bearer a b"])
    func missing(authorization: String?) {
        #expect(refusal(authorization) == .tokenMissing)
    }

    @Test(
        "rejects a token of another kind, issuer, audience or account",
        arguments: [
            (IdentityTokenFailure.issuer, "iss", "https://accounts.example.com"),
            (.audience, "aud", "https://ledger.example.com/google/notifications"),
            (.email, "email", "other@example.com"),
            (.emailUnverified, "email_verified", false),
        ] as [(IdentityTokenFailure, String, any Sendable)])
    func claims(failure: IdentityTokenFailure, claim: String, value: any Sendable) {
        #expect(refusal("Bearer \(TestKeys.token { $0[claim] = value })") == .tokenInvalid(failure))
    }

    @Test("rejects an unverified address even if the claim is missing")
    func missingClaim() {
        #expect(
            refusal("Bearer \(TestKeys.token { $0["email_verified"] = nil })") == .tokenInvalid(.emailUnverified))
    }

    @Test("rejects an expired token, with a minute for the clocks")
    func expiry() throws {
        let token = "Bearer \(TestKeys.token())"
        let end = TestKeys.now.advanced(byMilliseconds: 3_590_000)

        _ = try verify(token, now: end.advanced(byMilliseconds: 59_999))
        #expect(refusal(token, now: end.advanced(byMilliseconds: 60_000)) == .tokenInvalid(.expired))
        #expect(refusal("Bearer \(TestKeys.token { $0["exp"] = nil })") == .tokenInvalid(.expired))
        #expect(
            refusal(token, now: TestKeys.now.advanced(byMilliseconds: -71_000)) == .tokenInvalid(.notYetValid))
    }

    @Test("tells a key that is not known yet apart from a wrong signature")
    func keys() {
        #expect(refusal("Bearer \(TestKeys.token(kid: "k3"))") == .keyUnknown)
        #expect(refusal("Bearer \(TestKeys.token(kid: "k2"))") == .tokenInvalid(.signature))
        #expect(refusal("Bearer \(TestKeys.token(algorithm: "HS256"))") == .tokenInvalid(.algorithm))
        #expect(refusal("Bearer \(TestKeys.token(algorithm: "none"))") == .tokenInvalid(.algorithm))
        let token = TestKeys.token()
        #expect(refusal("Bearer \(token.dropLast(4))AAAA") == .tokenInvalid(.signature))
        #expect(refusal("Bearer a.b.c") == .tokenInvalid(.malformed))
    }

    @Test("lets a push about an app that is not configured come again, if its sender is genuine")
    func unknownApp() throws {
        let body = push(subscriptionNotification("2").replacing("com.example.app", with: "com.example.other"))

        #expect(throws: PushRefusal.appUnknown) { try verify("Bearer \(TestKeys.token())", body) }
        #expect(throws: PushRefusal.tokenMissing) { try verify(nil, body) }
    }

    @Test("accepts malformed data from a genuine sender for a configured app")
    func malformed() throws {
        let body = Array(#"{"message":{"data":"%%%","messageId":"1"}}"#.utf8)
        let verified = try verify("Bearer \(TestKeys.token())", body)

        #expect(verified.stream.app == "com.example.app")
        #expect(verified.notification == nil)
        #expect(throws: PushRefusal.tokenMissing) { try verify(nil, body) }
    }

    @Test("accepts pushes without a token only where the app's settings say so")
    func unauthenticated() throws {
        let open = PlayApp(packageName: "com.example.app", pushAuthentication: .none)

        _ = try verify(nil, apps: [open])
        #expect(throws: PushRefusal.appUnknown) {
            try verify(
                nil, push(subscriptionNotification("2").replacing("com.example.app", with: "x")), apps: [open])
        }
    }

    @Test("compares the Pub/Sub subscription if one is configured")
    func subscription() throws {
        var apps = [
            PlayApp(
                packageName: "com.example.app", pushAuthentication: .none,
                pushSubscription: "projects/p/subscriptions/other")
        ]
        #expect(throws: PushRefusal.subscriptionWrong) { try verify(nil, apps: apps) }
        apps = [
            PlayApp(
                packageName: "com.example.app", pushAuthentication: .none,
                pushSubscription: "projects/p/subscriptions/s")
        ]
        _ = try verify(nil, apps: apps)
    }

    @Test("reads only a whole key set")
    func keySet() throws {
        #expect(throws: JSONWebKeySet.Unreadable.self) { try JSONWebKeySet(decoding: Array("{\"keys\":[".utf8)) }
        #expect(throws: JSONWebKeySet.Unreadable.self) { try JSONWebKeySet(decoding: Array("{}".utf8)) }
        #expect(try JSONWebKeySet(decoding: Array(#"{"keys":[{"kty":"EC","kid":"a"}]}"#.utf8)).isEmpty)
        #expect(try TestKeys.keys().contains("k2"))
    }
}
