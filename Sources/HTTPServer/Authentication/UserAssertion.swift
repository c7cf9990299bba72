import Crypto
import Encoding
import Foundation
import Subscriptions

/// The keys with which an app's backend signs assertions about its users.
package struct AssertionKeys: Sendable {
    /// For HS256.
    private let secrets: [SymmetricKey]
    /// For EdDSA.
    private let publicKeys: [Curve25519.Signing.PublicKey]

    /// Shortest secret: as long as the hash, as RFC 7518 requires.
    package static let secretBytesMin = 32

    /// - Parameters:
    ///   - secrets: Each of at least ``secretBytesMin`` bytes.
    ///   - publicKeys: Each 32 bytes in base64url.
    /// - Returns: Nil if one of them is not like that, or if there is none.
    package init?(secrets: [String], publicKeys: [String]) {
        let keys = publicKeys.map { text in
            Base64.decode(Array(text.utf8)[...], .url).flatMap {
                try? Curve25519.Signing.PublicKey(rawRepresentation: $0)
            }
        }
        guard secrets.allSatisfy({ $0.utf8.count >= Self.secretBytesMin }), !keys.contains(where: { $0 == nil }),
            !secrets.isEmpty || !keys.isEmpty
        else { return nil }
        self.secrets = secrets.map { SymmetricKey(data: Array($0.utf8)) }
        self.publicKeys = keys.compactMap(\.self)
    }

    fileprivate func areSigned(_ bytes: ArraySlice<UInt8>, by signature: [UInt8], algorithm: String) -> Bool {
        switch algorithm {
        // An algorithm has keys of its own, so that a public key never serves as a secret.
        case "HS256":
            secrets.contains {
                HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: bytes, using: $0)
            }
        case "EdDSA": publicKeys.contains { $0.isValidSignature(signature, for: bytes) }
        default: false
        }
    }
}

/// What an app's backend asserts about a user: a JWT with `sub`, the customer's id, and `exp`.
struct UserAssertion: Sendable, Hashable {
    let customerId: String

    /// Why a text is refused, in words for the app's developer.
    enum Refusal: String, Error, Hashable {
        case malformed = "the assertion is not a JWT in compact form with alg HS256 or EdDSA"
        case signature = "none of the app's keys signed the assertion"
        case subject = "the assertion's sub is not a customer's id"
        case expired = "the assertion has expired"
        case notYet = "the assertion is not valid yet"
        case lasting = "the assertion's exp is missing, or too far away"
        case otherApp = "the assertion's aud is another app"
    }

    init(_ text: String, of app: String, keys: AssertionKeys, at now: Instant) throws(Refusal) {
        let bytes = Array(text.utf8)
        guard bytes.count <= Limits.assertionBytesMax else { throw .malformed }
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let algorithm = header["alg"]?.string,
            // An extension that this server does not know must be refused (RFC 7515, section 4.1.11).
            header["crit"] == nil, let signature = Base64.decode(parts[2], .url)
        else { throw .malformed }
        let signed = bytes[..<parts[1].endIndex]
        guard keys.areSigned(signed, by: signature, algorithm: algorithm) else { throw .signature }
        guard let claims = Self.object(parts[1]) else { throw .malformed }
        guard let end = Self.instant(claims["exp"]) else { throw .lasting }
        guard now < end else { throw .expired }
        guard end <= now.advanced(by: Limits.assertionMax) else { throw .lasting }
        if let start = claims["nbf"], Self.instant(start).map({ now < $0 }) ?? true { throw .notYet }
        if let audience = claims["aud"] {
            let names = audience.isArray ? audience.elements : [audience]
            guard names.contains(where: { $0.string == app }) else { throw .otherApp }
        }
        guard let subject = claims["sub"]?.string else { throw .subject }
        do {
            try LinkStatement.check(subject, "sub")
        } catch {
            throw .subject
        }
        customerId = subject
    }

    private static func object(_ part: ArraySlice<UInt8>) -> JSONValue? {
        guard let bytes = Base64.decode(part, .url), let json = try? JSONDocument(bytes).root, json.isObject else {
            return nil
        }
        return json
    }

    /// Whole seconds since 1970.
    private static func instant(_ value: JSONValue?) -> Instant? {
        guard let value, let seconds = value.int64, (0...253_402_300_799).contains(seconds) else { return nil }
        return Instant(milliseconds: seconds * 1000)
    }
}
