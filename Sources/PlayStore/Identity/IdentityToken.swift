import Crypto
import CryptoExtras
import Encoding
import Subscriptions

/// A decoded OpenID Connect token of a Google service account. Not verified, so it must not be trusted.
package struct IdentityToken: Sendable {
    /// The id of the key that signed it.
    package let keyId: String
    private let signedText: [UInt8]
    private let signature: [UInt8]
    private let claims: JSONValue

    private static let issuers = ["https://accounts.google.com", "accounts.google.com"]

    /// The token of a header `Authorization: Bearer …`; nil if there is none.
    package static func text(ofAuthorization header: String?) -> String? {
        guard let header else { return nil }
        let parts = header.split(separator: " ", omittingEmptySubsequences: true)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }

    package init(_ text: String) throws(IdentityTokenFailure) {
        guard text.utf8.count <= Limits.identityTokenBytesMax else { throw .malformed }
        let parts = Array(text.utf8).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Base64.decode(parts[2], .url)
        else { throw .malformed }
        guard header.string("alg") == "RS256" else { throw .algorithm }
        guard let keyId = header.string("kid"), !keyId.isEmpty else { throw .malformed }
        self.keyId = keyId
        self.claims = claims
        self.signature = signature
        signedText = Array(parts[0]) + [UInt8(ascii: ".")] + Array(parts[1])
    }

    private static func object(_ segment: ArraySlice<UInt8>) -> JSONValue? {
        guard let bytes = Base64.decode(segment, .url), let root = try? JSONDocument(bytes).root, root.isObject else {
            return nil
        }
        return root
    }

    /// Checks that the account asked for the token for this audience, and that it is valid now.
    func verify(
        with key: _RSA.Signing.PublicKey, audience: String, email: String, now: Instant
    ) throws(IdentityTokenFailure) {
        let digest = SHA256.hash(data: signedText)
        let signature = _RSA.Signing.RSASignature(rawRepresentation: signature)
        guard key.isValidSignature(signature, for: digest, padding: .insecurePKCS1v1_5) else { throw .signature }
        guard let issuer = claims.string("iss"), Self.issuers.contains(issuer) else { throw .issuer }
        guard claims.string("aud") == audience else { throw .audience }
        guard claims.string("email") == email else { throw .email }
        guard claims["email_verified"]?.bool == true || claims.string("email_verified") == "true" else {
            throw .emailUnverified
        }
        guard let expiry = instant("exp"), now < expiry.advanced(by: Limits.clockSkew) else { throw .expired }
        if let issued = instant("iat"), issued > now.advanced(by: Limits.clockSkew) { throw .notYetValid }
    }

    private func instant(_ key: StaticString) -> Instant? {
        guard let seconds = claims[key]?.int64 ?? claims.string(key).flatMap({ Int64($0) }) else { return nil }
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? nil : Instant(milliseconds: milliseconds)
    }
}
