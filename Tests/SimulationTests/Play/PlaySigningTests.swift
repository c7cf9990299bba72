import Crypto
import CryptoExtras
import Encoding
import Foundation
import Simulation
import Testing

@Suite("The simulated Google signs with keys of the process")
struct PlaySigningTests {
    private let token = OIDCToken(
        audience: "https://ledger.example.com/google/notifications", email: "push@example.com")
    private let second: Int64 = 1_760_000_000

    private func claims(_ text: String) throws -> [String: Any] {
        let bytes = try #require(Base64.decode(Array(text.split(separator: ".")[1].utf8)[...], .url))
        return try #require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    @Test("a push token has Google's claims, under a published key", arguments: OIDCToken.Issuer.allCases)
    func valid(issuer: OIDCToken.Issuer) throws {
        var token = token
        token.issuer = issuer
        let key = RSATestKeys.push[0]

        let text = try #require(token.text(key, second: second))

        let claims = try claims(text)
        #expect(key.isSigner(of: text) && !RSATestKeys.push[1].isSigner(of: text))
        #expect(Set(claims.keys) == ["aud", "azp", "email", "email_verified", "exp", "iat", "iss", "sub"])
        #expect(claims["aud"] as? String == token.audience && claims["iss"] as? String == issuer.rawValue)
        #expect((claims["sub"] as? String)?.count == 21 && claims["exp"] as? Int == Int(second) + 3600)
        #expect(claims["email_verified"] as? Bool == true)
    }

    @Test("each defect changes what it names", arguments: OIDCToken.Defect.allCases)
    func defects(defect: OIDCToken.Defect) throws {
        let key = RSATestKeys.push[0]
        guard defect != .missing else {
            #expect(token.text(key, second: second, defect: defect) == nil)
            return
        }
        let good = try claims(#require(token.text(key, second: second)))
        let text = try #require(token.text(key, second: second, defect: defect))

        let changed = try claims(text).filter { "\($0.value)" != "\(good[$0.key] ?? "")" }.keys.sorted()

        let expected: [String]
        switch defect {
        case .otherAudience: expected = ["aud"]
        case .otherEmail: expected = ["email"]
        case .unverifiedEmail: expected = ["email_verified"]
        case .otherIssuer: expected = ["iss"]
        case .expired, .issuedLater: expected = ["exp", "iat"]
        case .unknownKey, .forged, .otherAlgorithm, .missing: expected = []
        }
        #expect(changed == expected)
        #expect(key.isSigner(of: text) == ![.unknownKey, .forged].contains(defect))
        let header = Base64.decode(Array(text.split(separator: ".")[0].utf8)[...], .url) ?? []
        let names = String(decoding: header, as: UTF8.self)
        #expect(names.contains(key.keyId) == (defect != .unknownKey))
        #expect(names.contains("RS256") == (defect != .otherAlgorithm))
    }

    @Test("a JSON Web Key and a key file lead back to the same keys")
    func keyFiles() throws {
        let key = RSATestKeys.serviceAccount
        var writer = JSONWriter()
        key.writeJWK(to: &writer)
        let jwk = try #require(JSONSerialization.jsonObject(with: Data(writer.bytes)) as? [String: String])
        let file = PlayServiceAccount.standard.keyFile(tokenURI: "http://127.0.0.1/token")
        let json = try #require(JSONSerialization.jsonObject(with: Data(file)) as? [String: String])

        let modulus = try #require(Base64.decode(Array((jwk["n"] ?? "").utf8)[...], .url))
        let read = try _RSA.Signing.PrivateKey(pemRepresentation: json["private_key"] ?? "")

        #expect(jwk["kty"] == "RSA" && jwk["alg"] == "RS256" && jwk["kid"] == key.keyId && jwk["e"] == "AQAB")
        #expect(Data(modulus) == (try key.privateKey.publicKey.getKeyPrimitives().modulus))
        #expect(read.publicKey.derRepresentation == key.privateKey.publicKey.derRepresentation)
        #expect(json["token_uri"] == "http://127.0.0.1/token" && json["type"] == "service_account")
        #expect(json["private_key"]?.hasPrefix("-----BEGIN PRIVATE KEY-----") == true)
    }

    @Test("a purchase is signed over its exact bytes, with SHA-1 and the license key")
    func purchase() throws {
        let handIn = try #require(PlayStoryteller().story(at: 0).handIns.first)
        let signed = SignedPlayPurchase(handIn, packageName: "com.example.app")
        let der = try #require(Base64.decode(Array(SignedPlayPurchase.publicKey().utf8)[...], .standard))
        let key = try _RSA.Signing.PublicKey(derRepresentation: Data(der))
        let signature = try #require(Base64.decode(Array(signed.signature.utf8)[...], .standard))

        func isValid(_ text: [UInt8]) -> Bool {
            key.isValidSignature(
                .init(rawRepresentation: signature), for: Insecure.SHA1.hash(data: text),
                padding: .insecurePKCS1v1_5)
        }
        #expect(isValid(signed.text) && !isValid(signed.text + [UInt8(ascii: " ")]))
        #expect(String(decoding: signed.text, as: UTF8.self).contains(handIn.purchaseToken))
    }
}
