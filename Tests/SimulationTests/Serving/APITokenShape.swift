import Crypto
import Encoding
import Foundation
import Simulation

/// A bearer token of the App Store Server API, valid unless a test changes it.
struct APITokenShape: Sendable {
    static let bundleId = "com.example.magazine"

    var algorithm = "ES256"
    var keyId = SimulatedAPIKey.standard.keyId
    var issuerId = SimulatedAPIKey.standard.issuerId
    var audience = "appstoreconnect-v1"
    var bundleId = APITokenShape.bundleId
    /// Seconds after the store's time; nil for no claim.
    var issuedAt: Int64? = -60
    /// Seconds after the store's time.
    var expiresAt: Int64 = 300
    var key = SimulatedAPIKey.standard.privateKey
    /// Signs in DER instead of r and s.
    var isDER = false

    func text(at now: Instant) throws -> String {
        let second = now.milliseconds / 1000
        var header = JSONWriter()
        header.object { writer in
            writer.member("alg", algorithm)
            writer.member("kid", keyId)
            writer.member("typ", "JWT")
        }
        var claims = JSONWriter()
        claims.object { writer in
            writer.member("iss", issuerId)
            writer.member("iat", issuedAt.map { second + $0 })
            writer.member("exp", second + expiresAt)
            writer.member("aud", audience)
            writer.member("bid", bundleId)
        }
        let signed = Self.segment(header.bytes) + "." + Self.segment(claims.bytes)
        let signature = try key.signature(for: Data(signed.utf8))
        let bytes = isDER ? Array(signature.derRepresentation) : Array(signature.rawRepresentation)
        return signed + "." + Self.segment(bytes)
    }

    private static func segment(_ bytes: [UInt8]) -> String { String(decoding: base64URL(bytes), as: UTF8.self) }
}
