import Encoding

/// A request for an access token. Its body is a form, with the content type ``contentType``.
package struct AccessTokenRequest: Sendable {
    package let url: String
    package let body: [UInt8]

    package static let contentType = "application/x-www-form-urlencoded"
    package static let scope = "https://www.googleapis.com/auth/androidpublisher"

    /// - Parameter now: Our clock.
    package init(_ account: ServiceAccount, at now: Instant) throws {
        url = account.tokenURL
        body = Self.form([
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", try account.assertion(at: now)),
        ])
    }

    package init(_ token: RefreshToken) {
        url = token.tokenURL
        body = Self.form([
            ("grant_type", "refresh_token"), ("client_id", token.clientId), ("client_secret", token.clientSecret),
            ("refresh_token", token.token),
        ])
    }

    private static func form(_ fields: [(String, String)]) -> [UInt8] {
        Array(fields.map { "\($0)=\(PercentEncoding.encoded($1))" }.joined(separator: "&").utf8)
    }
}
