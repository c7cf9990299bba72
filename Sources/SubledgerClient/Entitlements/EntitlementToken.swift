import Crypto
import Foundation

/// A signed answer of the server about one customer.
///
/// Only checking a text makes one, so what is granted by it was signed.
struct EntitlementToken: Sendable, Hashable {
    struct Grant: Sendable, Hashable {
        let id: String
        let until: Date?

        func isActive(at time: Date) -> Bool { until.map { time < $0 } ?? true }
    }

    /// The text that was checked.
    let text: String
    let customerId: String
    let environment: String
    let position: Int64
    let issued: Date
    /// What the token grants, it grants before this instant.
    let validUntil: Date
    let grants: [Grant]

    /// Why a text is refused.
    enum Refusal: String, Error, Hashable {
        /// Not three parts of base64url with JSON inside, or members are missing.
        case malformed
        /// Signed with another algorithm, or of another kind.
        case otherKind
        /// None of the app's keys made the signature.
        case signature
        case otherCustomer
        case otherApp
        case otherEnvironment
        /// Its validity has ended.
        case expired
    }

    /// Whom a token must be about.
    struct Expectation: Sendable {
        let keys: [ServerKey]
        let app: String
        let customerId: String
        let environment: String
    }

    private struct Header: Decodable {
        let alg: String
        let typ: String
        let kid: String?
    }

    private struct Claims: Decodable {
        let sub: String
        let aud: String
        let environment: String
        let position: Int64
        let iat: Int64
        let exp: Int64
        let entitlements: [Claim]

        struct Claim: Decodable {
            let entitlement: String
            let until: String?
        }
    }

    /// Checks signature, kind, customer, app and environment. The caller compares the validity with its clock.
    init(_ text: String, _ expected: Expectation) throws(Refusal) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header: Header = Self.decode(parts[0]), let signature = Self.bytes(parts[2]) else {
            throw .malformed
        }
        guard header.alg == "EdDSA", header.typ == "subledger-entitlements+jwt" else { throw .otherKind }
        let signed = Data("\(parts[0]).\(parts[1])".utf8)
        guard expected.keys.contains(where: { $0.isSignature(signature, of: signed) }) else { throw .signature }
        guard let claims: Claims = Self.decode(parts[1]) else { throw .malformed }
        guard claims.sub == expected.customerId else { throw .otherCustomer }
        guard claims.aud == expected.app else { throw .otherApp }
        guard claims.environment == expected.environment else { throw .otherEnvironment }
        var grants: [Grant] = []
        for claim in claims.entitlements {
            let until = claim.until.map { Timestamp.date($0) }
            // An end that cannot be read must not become access without an end.
            if case .some(nil) = until { throw .malformed }
            grants.append(Grant(id: claim.entitlement, until: until ?? nil))
        }
        self.text = text
        customerId = claims.sub
        environment = claims.environment
        position = claims.position
        issued = Date(timeIntervalSince1970: TimeInterval(claims.iat))
        validUntil = Date(timeIntervalSince1970: TimeInterval(claims.exp))
        self.grants = grants
    }

    private static func decode<Value: Decodable>(_ part: Substring) -> Value? {
        bytes(part).flatMap { try? JSONDecoder().decode(Value.self, from: $0) }
    }

    /// Decodes base64url without padding.
    private static func bytes(_ part: Substring) -> Data? {
        guard !part.isEmpty, part.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "/") }) else {
            return nil
        }
        let standard = part.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        let padding = String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: standard + padding) else { return nil }
        // Unused bits must be zero: a signature has one text.
        let canonical = data.base64EncodedString().replacingOccurrences(of: "=", with: "")
        return canonical == standard ? data : nil
    }
}

/// A public key of the server's signed answers.
public struct ServerKey: Sendable {
    private let key: Curve25519.Signing.PublicKey

    /// - Parameter text: Member `x` of the server's key set (`GET /.well-known/jwks.json`): 32 bytes in base64url. Nil for
    ///   anything else.
    public init?(_ text: String) {
        let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        let padding = String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let bytes = Data(base64Encoded: standard + padding),
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes)
        else { return nil }
        self.key = key
    }

    func isSignature(_ signature: Data, of signed: Data) -> Bool { key.isValidSignature(signature, for: signed) }
}

/// Instants in ISO 8601, as the server writes them: `2025-09-26T21:18:25.000Z`.
enum Timestamp {
    /// Nil for any other form.
    static func date(_ text: String) -> Date? {
        let digits = Array(text.utf8)
        let form = Array("0000-00-00T00:00:00.000Z".utf8)
        let zero = UInt8(ascii: "0")
        guard digits.count == form.count,
            zip(digits, form).allSatisfy({ $1 == zero ? (zero...UInt8(ascii: "9")).contains($0) : $0 == $1 })
        else { return nil }
        func number(_ range: Range<Int>) -> Int { digits[range].reduce(0) { $0 * 10 + Int($1 - zero) } }
        let (year, month, day) = (number(0..<4), number(5..<7), number(8..<10))
        let (hour, minute, second) = (number(11..<13), number(14..<16), number(17..<19))
        guard year >= 1970, (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second < 60 else {
            return nil
        }
        // Days since 1970 in years that begin in March, so that the leap day is the last one.
        let march = month > 2 ? year : year - 1
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        let days = march * 365 + march / 4 - march / 100 + march / 400 + dayOfYear - 719_468
        let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
        return Date(timeIntervalSince1970: TimeInterval(seconds) + TimeInterval(number(20..<23)) / 1000)
    }
}
