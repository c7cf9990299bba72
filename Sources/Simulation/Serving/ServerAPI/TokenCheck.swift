import Crypto
import Encoding
import Foundation

/// Verifies the bearer tokens of requests, as strictly as Apple.
struct TokenCheck: Sendable {
    let key: SimulatedAPIKey
    let bundleId: String

    private static let secondsMax: Int64 = 3600
    /// Above every date that a token may name.
    private static let secondLast: Int64 = 1 << 40

    /// - Parameter authorization: The header of this name.
    func accepts(_ authorization: String?, at now: Instant) -> Bool {
        guard let authorization, authorization.hasPrefix("Bearer ") else { return false }
        let segments = authorization.dropFirst("Bearer ".count).split(
            separator: ".", omittingEmptySubsequences: false)
        guard segments.count == 3, let header = Self.object(segments[0]), let claims = Self.object(segments[1]),
            let signature = Base64.decode(Array(segments[2].utf8)[...], .url)
        else { return false }
        let signed = Data("\(segments[0]).\(segments[1])".utf8)
        return acceptsHeader(header) && acceptsClaims(claims, at: now) && isSignature(signature, of: signed)
    }

    private static func object(_ segment: Substring) -> JSONValue? {
        guard let bytes = Base64.decode(Array(segment.utf8)[...], .url), let root = try? JSONDocument(bytes).root,
            root.isObject
        else { return nil }
        return root
    }

    private func acceptsHeader(_ header: JSONValue) -> Bool {
        header.string("alg") == "ES256" && header.string("kid") == key.keyId && header.string("typ") == "JWT"
    }

    private func acceptsClaims(_ claims: JSONValue, at now: Instant) -> Bool {
        let second = now.milliseconds / 1000
        guard claims.string("iss") == key.issuerId, claims.string("aud") == "appstoreconnect-v1",
            claims.string("bid") == bundleId, let expires = claims["exp"]?.int64, expires > second,
            expires < Self.secondLast
        else { return false }
        // Apple's own libraries for Python and Java do not send this claim.
        guard let issued = claims["iat"] else { return expires - second <= Self.secondsMax }
        guard let issuedAt = issued.int64, (0...second).contains(issuedAt) else { return false }
        return expires - issuedAt <= Self.secondsMax
    }

    /// The signature must have the form of JWS, r and s of 32 bytes each. DER is not accepted.
    private func isSignature(_ bytes: [UInt8], of signed: Data) -> Bool {
        guard bytes.count == 64, let signature = try? P256.Signing.ECDSASignature(rawRepresentation: bytes) else {
            return false
        }
        return key.privateKey.publicKey.isValidSignature(signature, for: signed)
    }
}
