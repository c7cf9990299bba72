import Crypto
import Encoding

/// The private key with which an app's requests to the App Store Server API are signed.
///
/// - Source: Apple, "Generating JSON Web Tokens for API requests".
package struct ServerAPIKey: Sendable {
    /// The issuer's UUID in App Store Connect.
    package let issuerId: String
    package let keyId: String
    private let privateKey: P256.Signing.PrivateKey

    package enum Problem: Error, Hashable, CustomStringConvertible {
        case noIssuer
        case noKeyId
        /// Not PEM, or of another kind or curve.
        case notAKey

        package var description: String {
            switch self {
            case .noIssuer: "the issuer id is empty"
            case .noKeyId: "the key id is empty"
            case .notAKey: "not a private key of App Store Connect (.p8): expected PEM with an EC key on P-256"
            }
        }
    }

    /// - Parameter pem: The content of the `.p8` file.
    package init(issuerId: String, keyId: String, pem: String) throws(Problem) {
        guard !issuerId.isEmpty else { throw .noIssuer }
        guard !keyId.isEmpty else { throw .noKeyId }
        guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else { throw .notAKey }
        self.issuerId = issuerId
        self.keyId = keyId
        privateKey = key
    }

    /// Returns a token for the requests about an app, valid on both hosts for five minutes.
    ///
    /// It is dated a minute back: Apple rejects tokens that are dated a second ahead of its clock.
    ///
    /// - Parameter now: Our clock.
    package func token(for bundleId: String, at now: Instant) throws -> String {
        let second = now.milliseconds / 1000
        return try signed { writer in
            writer.member("iss", issuerId)
            writer.member("iat", second - Self.secondsBack)
            writer.member("exp", second + Self.secondsValid)
            writer.member("aud", "appstoreconnect-v1")
            writer.member("bid", bundleId)
        }
    }

    /// A JSON Web Signature in compact form.
    ///
    /// - Parameter claims: Writes the members of the payload.
    func signed(_ claims: (inout JSONWriter) -> Void) throws -> String {
        let header = { (writer: inout JSONWriter) in
            writer.member("alg", "ES256")
            writer.member("kid", keyId)
            writer.member("typ", "JWT")
        }
        return try JSONWebToken.text(header: header, claims: claims) { signed in
            Array(try privateKey.signature(for: signed).rawRepresentation)
        }
    }

    /// An ECDSA signature of bytes with SHA-256, in DER.
    func signature(of bytes: [UInt8]) throws -> [UInt8] {
        Array(try privateKey.signature(for: bytes).derRepresentation)
    }

    private static let secondsBack: Int64 = 60
    private static let secondsValid: Int64 = 300
}

/// Two keys are different if their ids are.
extension ServerAPIKey: Hashable {
    package static func == (left: ServerAPIKey, right: ServerAPIKey) -> Bool {
        left.issuerId == right.issuerId && left.keyId == right.keyId
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(issuerId)
        hasher.combine(keyId)
    }
}
