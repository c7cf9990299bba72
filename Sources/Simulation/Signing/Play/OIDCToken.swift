import Encoding

/// The bearer token of a push, which Google signs for the service account of the push subscription.
package struct OIDCToken: Sendable, Hashable {
    /// How a token differs from a valid one.
    package enum Defect: String, Sendable, Hashable, CaseIterable {
        case otherAudience = "other_audience"
        case otherEmail = "other_email"
        case unverifiedEmail = "unverified_email"
        case otherIssuer = "other_issuer"
        case expired
        case issuedLater = "issued_later"
        /// A key that is not published, under an id of its own.
        case unknownKey = "unknown_key"
        /// A key that is not published, under the id of one that is.
        case forged
        /// Signed with RS256, but the header states another algorithm.
        case otherAlgorithm = "other_algorithm"
        /// No token at all.
        case missing
    }

    /// The spellings of the issuer in genuine tokens.
    package enum Issuer: String, Sendable, Hashable, CaseIterable {
        case address = "https://accounts.google.com"
        case host = "accounts.google.com"
    }

    package var audience: String
    package var email: String
    package var issuer = Issuer.address

    package init(audience: String, email: String) {
        self.audience = audience
        self.email = email
    }

    /// 21 digits.
    private static let subject = "100000000000000000001"

    /// - Parameters:
    ///   - key: A published one.
    ///   - second: When it is issued, in seconds since 1970.
    /// - Returns: Nil for a missing token.
    package func text(_ key: RSATestKey, second: Int64, defect: Defect? = nil) -> String? {
        guard defect != .missing else { return nil }
        let issued =
            switch defect {
            case .expired: second - 7200
            case .issuedLater: second + 7200
            default: second
            }
        var claims = JSONWriter()
        claims.object { writer in
            writer.member("aud", defect == .otherAudience ? "https://other.example.com/push" : audience)
            writer.member("azp", Self.subject)
            writer.member("email", defect == .otherEmail ? "other@example.iam.gserviceaccount.com" : email)
            writer.member("email_verified", defect != .unverifiedEmail)
            writer.member("exp", issued + 3600)
            writer.member("iat", issued)
            writer.member("iss", defect == .otherIssuer ? "https://accounts.example.com" : issuer.rawValue)
            writer.member("sub", Self.subject)
        }
        switch defect {
        case .unknownKey: return RSATestKeys.unpublished.token(claims.bytes)
        case .forged: return RSATestKeys.unpublished.renamed(key.keyId).token(claims.bytes)
        case .otherAlgorithm: return key.token(claims.bytes, algorithm: "HS256")
        default: return key.token(claims.bytes)
        }
    }
}
