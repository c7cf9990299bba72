import Encoding

/// A token with which the Google Play Developer API is asked.
package struct AccessToken: Sendable, Hashable {
    /// For the header `Authorization: Bearer`.
    package let text: String
    /// When to request the next one: five minutes before this one expires.
    package let renewAt: Instant

    private static let secondsEarly: Int64 = 300

    /// Reads the answer to an ``AccessTokenRequest`` with status 200.
    ///
    /// - Parameter now: Our clock.
    package init(decoding body: [UInt8], receivedAt now: Instant) throws(AccessTokenRefusal) {
        guard let root = try? JSONDocument(body).root, let text = root.string("access_token"), !text.isEmpty else {
            throw AccessTokenRefusal(kind: .unreadable, error: nil)
        }
        self.text = text
        let seconds = root["expires_in"]?.int64 ?? root.string("expires_in").flatMap { Int64($0) } ?? 0
        // A short or missing time is used for half of it at least.
        let usable = max(seconds - Self.secondsEarly, min(seconds, 24 * 3600) / 2, 0)
        renewAt = now.advanced(byMilliseconds: min(usable, 24 * 3600) * 1000)
    }
}

/// Why no access token was given. It says nothing about any purchase.
package struct AccessTokenRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Kind: String, Sendable, Hashable {
        /// The account is gone, its key was deleted, the clock is wrong, or the consent was withdrawn: a person must
        /// repair it.
        case grant
        /// Client, scope or rights are configured wrongly.
        case configuration
        /// Google may answer later.
        case temporary
        /// Not a token, and not an error.
        case unreadable
    }

    package let kind: Kind
    /// Google's word, such as `invalid_grant`; nil if there is none.
    package let error: String?

    init(kind: Kind, error: String?) {
        self.kind = kind
        self.error = error
    }

    /// Reads an answer with a status other than 200.
    package init(httpStatus: Int, body: [UInt8]) {
        let word = (try? JSONDocument(body).root)?.string("error")
        // From a closed list, so that nothing else reaches a log.
        let known = [
            "invalid_grant", "invalid_scope", "unauthorized_client", "invalid_client", "access_denied",
            "invalid_request", "unsupported_grant_type",
        ]
        error = word.flatMap { known.contains($0) ? $0 : nil }
        switch (httpStatus, error) {
        case (500..., _), (429, _), (408, _): kind = .temporary
        case (_, "invalid_grant"): kind = .grant
        default: kind = .configuration
        }
    }

    package var description: String {
        let what =
            switch kind {
            case .grant: "Google rejects the account: check its key, the clock, and that the consent is in force"
            case .configuration: "Google rejects the request for a token: check client, scope and rights"
            case .temporary: "Google has a temporary failure"
            case .unreadable: "Google's answer is not an access token"
            }
        return what + (error.map { " (\($0))" } ?? "")
    }
}
