import Encoding
import Foundation

/// The simulated token endpoint of Google's OAuth 2.0: access tokens for service accounts and refresh tokens.
package struct PlayTokenEndpoint: Sendable {
    package struct Settings: Sendable {
        /// Known accounts. One that is removed is gone.
        package var accounts = [PlayServiceAccount.standard]
        package var consent: PlayUserConsent? = .standard
        /// Keys that were deleted, by id.
        package var deletedKeys: Set<String> = []
        /// The `aud` that assertions must have; nil for Google's address or any that ends in `/token`.
        package var audience: String?
        /// Access tokens are refused after this many seconds, though `expires_in` says 3599.
        package var lifeSeconds: Int64 = 3599
        /// The endpoint answers 503.
        package var isAway = false

        package init() {}
    }

    package var settings: Settings
    private var expiries: [String: Int64] = [:]
    private var issued = 0
    /// The number of requests by answer: the status and the error.
    package private(set) var counts: [String: Int] = [:]

    init(_ settings: Settings) {
        self.settings = settings
    }

    private struct Refusal: Error {
        let status: Int
        let error: String
        let description: String

        init(_ error: String, _ description: String, status: Int = 400) {
            self.status = status
            self.error = error
            self.description = description
        }
    }

    /// Whether the API accepts the access token.
    func accepts(_ accessToken: Substring, atSecond second: Int64) -> Bool {
        expiries[String(accessToken)].map { second < $0 } ?? false
    }

    /// Refuses all access tokens that were issued until now.
    package mutating func revokeAll() { expiries = [:] }

    /// Answers a POST.
    mutating func response(contentType: String?, body: [UInt8], atSecond second: Int64) -> PlayResponse {
        guard !settings.isAway else { return .page(503, "Service Unavailable") }
        do throws(Refusal) {
            guard let type = contentType?.lowercased(), type.hasPrefix("application/x-www-form-urlencoded") else {
                throw Refusal("invalid_request", "The request must be form-encoded.")
            }
            try check(Self.form(body), atSecond: second)
            issued += 1
            let token = "ya29.simulated-\(issued)"
            expiries[token] = second + settings.lifeSeconds
            counts["200", default: 0] += 1
            return .json(Self.grant(token))
        } catch {
            counts["\(error.status) \(error.error)", default: 0] += 1
            return .json(Self.body(error), status: error.status)
        }
    }

    private static func grant(_ token: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("access_token", token)
            writer.member("expires_in", 3599)
            writer.member("token_type", "Bearer")
        }
        return writer.bytes
    }

    private static func body(_ refusal: Refusal) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("error", refusal.error)
            writer.member("error_description", refusal.description)
        }
        return writer.bytes
    }

    /// The fields of a form. A field that is stated twice counts as missing.
    private static func form(_ body: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        var repeated: Set<String> = []
        for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let texts = parts.map {
                $0.replacingOccurrences(of: "+", with: " ").removingPercentEncoding ?? ""
            }
            guard texts.count == 2 else { continue }
            if fields.updateValue(texts[1], forKey: texts[0]) != nil { repeated.insert(texts[0]) }
        }
        return fields.filter { !repeated.contains($0.key) }
    }

    private func check(_ form: [String: String], atSecond second: Int64) throws(Refusal) {
        switch form["grant_type"] {
        case "urn:ietf:params:oauth:grant-type:jwt-bearer":
            guard let assertion = form["assertion"] else {
                throw Refusal("invalid_request", "Missing required parameter: assertion")
            }
            try checkAssertion(assertion, atSecond: second)
        case "refresh_token": try checkConsent(form)
        case nil: throw Refusal("invalid_request", "Required parameter is missing: grant_type")
        default: throw Refusal("unsupported_grant_type", "Invalid grant_type")
        }
    }

    private func checkConsent(_ form: [String: String]) throws(Refusal) {
        guard let consent = settings.consent else {
            throw Refusal("invalid_grant", "Token has been expired or revoked.")
        }
        guard form["client_id"] == consent.clientId, form["client_secret"] == consent.clientSecret else {
            throw Refusal("invalid_client", "The OAuth client was not found.", status: 401)
        }
        guard form["refresh_token"] == consent.refreshToken else {
            throw Refusal("invalid_grant", "Bad Request")
        }
    }

    // MARK: - Assertions

    private func checkAssertion(_ assertion: String, atSecond second: Int64) throws(Refusal) {
        let segments = assertion.split(separator: ".", omittingEmptySubsequences: false)
        guard segments.count == 3, let header = Self.object(segments[0]), let claims = Self.object(segments[1]) else {
            throw Refusal("invalid_grant", "Invalid JWT: the assertion is malformed.")
        }
        guard header.string("alg") == "RS256" else {
            throw Refusal("invalid_grant", "Invalid JWT: the algorithm must be RS256.")
        }
        guard let account = settings.accounts.first(where: { $0.clientEmail == claims.string("iss") }) else {
            throw Refusal("invalid_grant", "Not a valid email or user ID.")
        }
        let keyId = header.string("kid")
        guard keyId == nil || keyId == account.key.keyId, !settings.deletedKeys.contains(account.key.keyId),
            account.key.isSigner(of: assertion)
        else { throw Refusal("invalid_grant", "Invalid JWT Signature.") }
        guard claims["sub"] == nil else {
            throw Refusal("unauthorized_client", "Client is unauthorized to retrieve access tokens.", status: 401)
        }
        try checkTimes(claims, atSecond: second)
        guard let audience = claims.string("aud"), isAudience(audience) else {
            throw Refusal("invalid_grant", "Invalid JWT: the audience is not the token endpoint.")
        }
        let scopes = claims.string("scope")?.split(separator: " ").map(String.init) ?? []
        guard scopes.contains(PlayServiceAccount.scope) else {
            throw Refusal("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        }
    }

    private func isAudience(_ audience: String) -> Bool {
        if let expected = settings.audience { return audience == expected }
        return audience == "https://oauth2.googleapis.com/token"
            || audience.hasPrefix("http://127.0.0.1:") && audience.hasSuffix("/token")
    }

    private func checkTimes(_ claims: JSONValue, atSecond second: Int64) throws(Refusal) {
        let isShort: Bool =
            if let issued = claims["iat"]?.int64, let expires = claims["exp"]?.int64 {
                issued <= second && expires > second && expires > issued && expires - issued <= 3600
            } else {
                false
            }
        guard isShort else {
            throw Refusal(
                "invalid_grant",
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                    + "Check your iat and exp values in the JWT claim.")
        }
    }

    private static func object(_ segment: Substring) -> JSONValue? {
        guard let bytes = Base64.decode(Array(segment.utf8)[...], .url), let root = try? JSONDocument(bytes).root,
            root.isObject
        else { return nil }
        return root
    }
}
