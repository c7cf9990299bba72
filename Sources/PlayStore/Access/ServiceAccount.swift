import Crypto
import CryptoExtras
import Encoding

/// A Google service account that may ask the Google Play Developer API, from its key file.
package struct ServiceAccount: Sendable {
    package let email: String
    package let keyId: String
    /// Where access tokens are requested.
    package let tokenURL: String
    private let privateKey: _RSA.Signing.PrivateKey

    package enum Problem: Error, Hashable, CustomStringConvertible {
        case notJSON
        case missing(String)
        case notAKey

        package var description: String {
            switch self {
            case .notJSON: "not a key file of a service account: expected JSON"
            case .missing(let member): "not a key file of a service account: \(member) is missing"
            case .notAKey: "the private key of the service account is unreadable: expected PEM with an RSA key"
            }
        }
    }

    /// - Parameter keyFile: The JSON file that the Google Cloud console creates.
    package init(keyFile: [UInt8]) throws(Problem) {
        guard let root = try? JSONDocument(keyFile).root, root.isObject else { throw .notJSON }
        func required(_ key: StaticString) throws(Problem) -> String {
            guard let text = root.string(key), !text.isEmpty else { throw .missing(key.description) }
            return text
        }
        email = try required("client_email")
        keyId = try required("private_key_id")
        tokenURL = root.string("token_uri") ?? "https://oauth2.googleapis.com/token"
        let pem = try required("private_key")
        guard let key = try? _RSA.Signing.PrivateKey(unsafePEMRepresentation: pem) else { throw .notAKey }
        privateKey = key
    }

    /// Returns the signed claim with which an access token is requested.
    ///
    /// It is dated a minute back, and ends before the hour that Google allows: a clock that is a second fast would make
    /// every request fail.
    ///
    /// - Parameter now: Our clock.
    package func assertion(at now: Instant) throws -> String {
        let issued = now.milliseconds / 1000 - Self.secondsBack
        return try JSONWebToken.text { writer in
            writer.member("alg", "RS256")
            writer.member("typ", "JWT")
            writer.member("kid", keyId)
        } claims: { writer in
            writer.member("iss", email)
            writer.member("scope", AccessTokenRequest.scope)
            writer.member("aud", tokenURL)
            writer.member("iat", issued)
            writer.member("exp", issued + Self.secondsValid)
        } signature: { signed in
            let digest = SHA256.hash(data: signed)
            return Array(try privateKey.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
        }
    }

    private static let secondsBack: Int64 = 60
    private static let secondsValid: Int64 = 3000
}

/// Two accounts are equal if their addresses, key ids and token URLs are.
extension ServiceAccount: Hashable {
    package static func == (left: ServiceAccount, right: ServiceAccount) -> Bool {
        left.email == right.email && left.keyId == right.keyId && left.tokenURL == right.tokenURL
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(email)
        hasher.combine(keyId)
    }
}
