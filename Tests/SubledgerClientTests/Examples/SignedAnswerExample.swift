import Crypto
import Foundation

// What follows is in the article SignedAnswers, to the letter.

struct Header: Decodable { let alg, typ: String }
struct Claims: Decodable {
    struct Entitlement: Decodable { let entitlement: String, until: String? }
    let sub, aud: String
    let exp: Int
    let entitlements: [Entitlement]
}

func base64URL(_ text: some StringProtocol) -> Data? {
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.count % 4) % 4))
}

func activeEntitlements(_ text: String, key: String, app: String, customer: String) throws -> [String]? {
    let parts = text.split(separator: ".")
    guard parts.count == 3, let header = base64URL(parts[0]), let claims = base64URL(parts[1]),
        let signature = base64URL(parts[2]), let key = base64URL(key),
        try Curve25519.Signing.PublicKey(rawRepresentation: key)
            .isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8))
    else { return nil }
    let kind = try JSONDecoder().decode(Header.self, from: header)
    let said = try JSONDecoder().decode(Claims.self, from: claims)
    guard kind.alg == "EdDSA", kind.typ == "subledger-entitlements+jwt", said.aud == app, said.sub == customer,
        Date().timeIntervalSince1970 < Double(said.exp)
    else { return nil }
    // The texts of instants have one form, so they are compared as texts.
    let format = ISO8601DateFormatter()
    format.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
    let now = format.string(from: Date())
    return said.entitlements.filter { $0.until.map { now < $0 } ?? true }.map(\.entitlement)
}
