import Encoding
import Foundation
import Simulation
import Testing

/// A simulated Google Play with an access token of its API.
struct PlayBundle {
    static let packageName = "com.example.magazine"

    let play: SimulatedPlay
    let accessToken: String

    var story: RenderedPlayStory { play.story(0) }
    var life: PlayLife { story.subscriptions[0] }
    /// The first purchase token.
    var token: String { life.tokens[0].token }

    init(
        _ stories: [PlayStory] = [.renewals], count: Int = 1, isAcknowledgedByApp: Bool = true, now: Instant? = nil,
        _ change: (inout SimulatedPlay.Settings) -> Void = { _ in }
    ) throws {
        var simulated = PlayStoryteller.Settings()
        simulated.stories = stories
        simulated.packageName = Self.packageName
        simulated.isAcknowledgedByApp = isAcknowledgedByApp
        var settings = SimulatedPlay.Settings(packageName: Self.packageName)
        // Access tokens do not age with the clock of the stories, unless a test sets this.
        settings.tokenClock = { 1_760_000_000 }
        change(&settings)
        play = SimulatedPlay(PlayStoryteller(simulated), stories: count, now: now, settings)
        let second = settings.tokenClock?() ?? play.now.milliseconds / 1000
        let response = play.tokenResponse(
            contentType: AssertionShape.formType, body: AssertionShape().form(second: second))
        accessToken = try #require(PlayJSON(response.body)["access_token"])
    }

    /// - Parameter path: After the package, with `%` escapes resolved.
    func call(
        _ method: String = "GET", _ path: String, query: [(name: String, value: String)] = [], body: String = "",
        packageName: String = PlayBundle.packageName, authorization: String?? = nil
    ) -> PlayResponse? {
        let call = PlayCall(
            method: method,
            path: [packageName] + path.split(separator: "/", omittingEmptySubsequences: false).map(String.init),
            query: query, authorization: authorization ?? "Bearer \(accessToken)", body: Array(body.utf8))
        if case .response(let response) = play.reaction(to: call) { return response }
        return nil
    }

    func subscription(_ token: String? = nil) -> PlayResponse? {
        call("purchases/subscriptionsv2/tokens/\(token ?? self.token)")
    }

    func acknowledge(_ token: String? = nil, product: String = "") -> PlayResponse? {
        call("POST", "purchases/subscriptions/\(product)/tokens/\(token ?? self.token):acknowledge", body: "{}")
    }

    /// The instant of the first message of a type.
    func time(of type: PlayMessage.SubscriptionType) throws -> Instant {
        try #require(life.messages.first { $0.subscriptionType == type }).eventTime
    }
}

extension PlayBundle {
    func call(_ path: String, query: [(name: String, value: String)] = []) -> PlayResponse? {
        call("GET", path, query: query)
    }
}

extension PlayResponse {
    var json: [String: Any] { PlayJSON(body).json }

    /// Status, reason and Google's status of an error.
    var problem: String {
        let error = json["error"] as? [String: Any]
        let reason = (error?["errors"] as? [[String: Any]])?.first?["reason"] as? String
        return "\(status) \(reason ?? "-")"
    }

    /// Without `SUBSCRIPTION_STATE_`.
    var state: String? { (json["subscriptionState"] as? String).map { String($0.dropFirst(19)) } }
}

/// The request of a service account for an access token, valid unless a test changes it.
struct AssertionShape {
    static let formType = "application/x-www-form-urlencoded"

    var key = RSATestKeys.serviceAccount
    var algorithm = "RS256"
    var issuer = PlayServiceAccount.standard.clientEmail
    var audience = "https://oauth2.googleapis.com/token"
    var scope = PlayServiceAccount.scope
    /// Seconds after the endpoint's time.
    var issuedAt: Int64 = -60
    var expiresAt: Int64 = 3000
    var subject: String?
    var grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    func assertion(second: Int64) -> String {
        var claims = JSONWriter()
        claims.object { writer in
            writer.member("iss", issuer)
            writer.member("scope", scope)
            writer.member("aud", audience)
            writer.member("iat", second + issuedAt)
            writer.member("exp", second + expiresAt)
            writer.member("sub", subject)
        }
        return key.token(claims.bytes, algorithm: algorithm)
    }

    func form(second: Int64) -> [UInt8] {
        let grant = grantType.replacingOccurrences(of: ":", with: "%3A")
        return Array("grant_type=\(grant)&assertion=\(assertion(second: second))".utf8)
    }
}
