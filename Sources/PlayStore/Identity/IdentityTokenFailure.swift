/// Why an identity token does not prove its sender. The raw values are words for logs and metrics.
package enum IdentityTokenFailure: String, Error, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    case malformed = "token_malformed"
    case algorithm = "token_algorithm"
    case signature = "token_signature"
    case issuer = "token_issuer"
    case audience = "token_audience"
    case email = "token_email"
    case emailUnverified = "token_email_unverified"
    case expired = "token_expired"
    case notYetValid = "token_not_yet_valid"

    package var description: String {
        switch self {
        case .malformed: "the identity token is not a JSON Web Token with a key id"
        case .algorithm: "the identity token has another algorithm than RS256"
        case .signature: "the signature of the identity token is wrong"
        case .issuer: "the identity token is not Google's"
        case .audience: "the identity token has another audience than the configured one"
        case .email: "the identity token is of another account than the configured one"
        case .emailUnverified: "the address of the account in the identity token is not verified"
        case .expired: "the identity token has expired"
        case .notYetValid: "the identity token is of the future"
        }
    }
}
