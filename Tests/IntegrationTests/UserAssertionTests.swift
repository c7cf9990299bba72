import Crypto
import Encoding
import Foundation
import Testing

@testable import HTTPServer

/// Texts of an app's backend about its users.
enum AssertionText {
    static let secret = "a secret of the app's backend, 32+ bytes"
    /// 2019-11-08T08:14:00Z, in seconds.
    static let now = TestBundle.now.milliseconds / 1000

    static func claims(_ sub: String = "u-1", exp: Int64? = now + 60, _ more: String = "") -> String {
        "{\"sub\":\"\(sub)\"" + (exp.map { ",\"exp\":\($0)" } ?? "") + more + "}"
    }

    static func hs256(
        _ claims: String = claims(), secret: String = secret, header: String = #"{"alg":"HS256","typ":"JWT"}"#
    ) -> String {
        text(header, claims) { signed in
            Array(HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: Data(secret.utf8))))
        }
    }

    static func eddsa(_ claims: String = claims(), by key: Curve25519.Signing.PrivateKey) throws -> String {
        try text(#"{"alg":"EdDSA"}"#, claims) { Array(try key.signature(for: $0)) }
    }

    static func text(_ header: String, _ claims: String, _ sign: ([UInt8]) throws -> [UInt8]) rethrows -> String {
        let signed = "\(Base64.text(Array(header.utf8), .url)).\(Base64.text(Array(claims.utf8), .url))"
        return "\(signed).\(Base64.text(try sign(Array(signed.utf8)), .url))"
    }
}

@Suite("Assertions of an app's backend about its users")
struct UserAssertionTests {
    private static let key = Curve25519.Signing.PrivateKey()

    private static func keys() throws -> AssertionKeys {
        try #require(
            AssertionKeys(
                secrets: ["another secret, which is being replaced", AssertionText.secret],
                publicKeys: [Base64.text(Array(key.publicKey.rawRepresentation), .url)]))
    }

    private static func outcome(_ text: String) throws -> String {
        let keys = try keys()
        do throws(UserAssertion.Refusal) {
            return try UserAssertion(text, of: "com.example.magazine", keys: keys, at: TestBundle.now).customerId
        } catch {
            return "\(error)"
        }
    }

    @Test("both algorithms are accepted, with each of the app's keys")
    func accepted() throws {
        #expect(try Self.outcome(AssertionText.hs256()) == "u-1")
        #expect(try Self.outcome(AssertionText.eddsa(by: Self.key)) == "u-1")
        #expect(
            try Self.outcome(
                AssertionText.hs256(
                    AssertionText.claims("ü/1", exp: AssertionText.now + 3600, #","aud":["x","com.example.magazine"]"#))
            )
                == "ü/1")
    }

    @Test(
        "what is expired, lasting, of another app, of nobody or malformed is refused",
        arguments: [
            (AssertionText.claims(exp: AssertionText.now), "expired"),
            (AssertionText.claims(exp: AssertionText.now - 1), "expired"),
            (AssertionText.claims(exp: AssertionText.now + 3601), "lasting"),
            (AssertionText.claims(exp: .max), "lasting"), (AssertionText.claims(exp: nil), "lasting"),
            (AssertionText.claims(exp: nil, #","exp":"1""#), "lasting"),
            (AssertionText.claims("", exp: AssertionText.now + 1), "subject"),
            (AssertionText.claims(String(repeating: "x", count: 257)), "subject"),
            ("{\"exp\":\(AssertionText.now + 60)}", "subject"),
            (AssertionText.claims("u", exp: AssertionText.now + 1, #","aud":"com.example.other""#), "otherApp"),
            (AssertionText.claims("u", exp: AssertionText.now + 1, #","aud":[]"#), "otherApp"),
            (AssertionText.claims("u", exp: AssertionText.now + 9, ",\"nbf\":\(AssertionText.now + 1)"), "notYet"),
            (AssertionText.claims("u", exp: AssertionText.now + 9, #","nbf":null"#), "notYet"), ("[]", "malformed"),
            ("{", "malformed"),
        ])
    func refused(_ claims: String, _ refusal: String) throws {
        #expect(try Self.outcome(AssertionText.hs256(claims)) == refusal)
    }

    @Test("a signature of another key, algorithm or text is refused")
    func signatures() throws {
        let publicKey = Base64.text(Array(Self.key.publicKey.rawRepresentation), .url)
        let genuine = AssertionText.hs256()
        let parts = genuine.split(separator: ".")
        let other = AssertionText.hs256(AssertionText.claims("u-2")).split(separator: ".")

        for text in [
            AssertionText.hs256(secret: "a secret of another app's backend, 32 bytes"),
            // The public key as a secret.
            AssertionText.hs256(secret: publicKey), AssertionText.hs256(header: #"{"alg":"EdDSA"}"#),
            AssertionText.hs256(header: #"{"alg":"none"}"#), AssertionText.hs256(header: #"{"alg":"HS512"}"#),
            try AssertionText.eddsa(by: Curve25519.Signing.PrivateKey()), "\(parts[0]).\(other[1]).\(parts[2])",
            "\(parts[0]).\(parts[1]).",
        ] {
            #expect(try Self.outcome(text) == "signature", "\(text)")
        }
        for text in [
            "", "a.b", genuine + ".", genuine + "=", String(genuine.dropLast(2)),
            AssertionText.hs256(header: #"{"alg":"HS256","crit":["x"]}"#),
            AssertionText.hs256(header: #"{"typ":"JWT"}"#),
            String(repeating: "a", count: 5000),
        ] where text != String(genuine.dropLast(2)) {
            #expect(try Self.outcome(text) == "malformed", "\(text)")
        }
    }

    @Test("short secrets, other keys and no keys at all are no keys")
    func noKeys() {
        #expect(AssertionKeys(secrets: [], publicKeys: []) == nil)
        #expect(AssertionKeys(secrets: [String(repeating: "x", count: 31)], publicKeys: []) == nil)
        #expect(AssertionKeys(secrets: [AssertionText.secret], publicKeys: ["AAAA"]) == nil)
        #expect(AssertionKeys(secrets: [String(repeating: "x", count: 32)], publicKeys: []) != nil)
    }
}
