import Encoding
import EventLog
import HTTPTypes
import Hummingbird
import Subscriptions

/// What a customer is entitled to, as a signed text that can be passed on and checked without the server.
struct SignedEntitlements: Sendable {
    static let mediaType = "application/jwt"
    /// Header `typ`.
    static let type = "subledger-entitlements+jwt"

    let customerId: String
    let app: String
    let environment: Subscriptions.Environment
    let knownAs: CustomerKey.Kind
    /// Those that are active when the text is issued.
    let active: [Entitlement]
    /// In the stream of the app: the text contains at least what the events up to here say.
    let position: Int64
    let issued: Instant

    init(
        customerId: String, app: String, environment: Subscriptions.Environment, knownAs: CustomerKey.Kind,
        entitlements: [Entitlement], position: Int64, issued: Instant
    ) {
        self.customerId = customerId
        self.app = app
        self.environment = environment
        self.knownAs = knownAs
        active = entitlements.filter { $0.isActive(at: issued) }
        self.position = position
        self.issued = issued
    }

    /// The end of the text's validity: the latest end of its entitlements, and at most a week after it was issued, since
    /// a text that a refund made wrong cannot be taken back.
    ///
    /// A text without entitlements is valid for an hour: it protects no access, so it only needs to live as long as it takes
    /// to pass it on, and must not keep saying "nothing" after the next purchase.
    var validUntil: Instant {
        guard let end = active.map(\.until).max() else { return issued.advanced(by: Limits.signedNothingMax) }
        return min(end, issued.advanced(by: Limits.signedAnswerMax))
    }

    /// - Throws: If the key cannot sign.
    func text(_ key: HeadKey) throws -> String {
        try key.jwt(type: Self.type) { writer in
            writer.member("sub", customerId)
            writer.member("aud", app)
            writer.member("environment", environment.rawValue)
            writer.member("knownAs", knownAs.rawValue)
            writer.member("position", position)
            // Whole seconds, which all libraries accept. An end is rounded up, which prolongs no entitlement: each has its
            // own end to the millisecond.
            writer.member("iat", issued.milliseconds / 1000)
            writer.member("exp", (validUntil.milliseconds + 999) / 1000)
            writer.key("entitlements")
            writer.array(active) { writer, entitlement in
                writer.object { writer in
                    writer.member("entitlement", entitlement.entitlement)
                    writer.member("until", end: entitlement.until)
                }
            }
        }
    }

    /// What the tag of the answer contains besides the entitlements: the key, and a number that changes while the text is
    /// still valid for most of its time, so that a client which asks regularly always has a text that lasts.
    func tagText(_ key: HeadKey) -> String {
        let interval = active.isEmpty ? Limits.signedNothingMax / 6 : Limits.signedAnswerMax / 7
        return "\(key.publicKey.keyId) \(issued.milliseconds / 1000 / interval.components.seconds)"
    }

    /// Whether a request asks for the signed form: by `signed=true`, or by accepting it.
    static func areRequested(_ request: Request, _ query: RequestQuery) throws(RequestQuery.Malformed) -> Bool {
        switch try query.text("signed") {
        case "true": return true
        case "false": return false
        case nil: return request.headers[values: .accept].contains { accepts($0) }
        default: throw RequestQuery.Malformed(problem: "signed must be true or false", field: "signed")
        }
    }

    /// Whether a value of the header `Accept` names the media type, other than to refuse it.
    static func accepts(_ value: String) -> Bool {
        value.split(separator: ",").contains { range in
            let parts = range.split(separator: ";").map { part in
                part.lowercased().filter { $0 != " " && $0 != "\t" }
            }
            return parts.first == mediaType
                && !parts.dropFirst().contains { $0.hasPrefix("q=") && Double($0.dropFirst(2)) == 0 }
        }
    }
}
