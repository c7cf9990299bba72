import Crypto
import CryptoExtras
import Encoding
import Foundation

@testable import PlayStore

/// Keys and tokens of a make-believe Google. The keys are made for each run.
enum TestKeys {
    static let first = made { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    static let second = made { try _RSA.Signing.PrivateKey(keySize: .bits2048) }
    static let audience = "https://ledger.example.com/google/notifications?key=1"
    static let email = "push@example.iam.gserviceaccount.com"
    static let now = Instant(iso8601: "2025-10-21T05:00:00Z")!

    static func keySet(_ keys: [(id: String, key: _RSA.Signing.PrivateKey)]) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("keys")
            writer.array(keys) { writer, entry in
                writer.object { writer in
                    let numbers = made { try entry.key.publicKey.getKeyPrimitives() }
                    writer.member("kty", "RSA")
                    writer.member("alg", "RS256")
                    writer.member("use", "sig")
                    writer.member("kid", entry.id)
                    writer.member("n", base64url(Array(numbers.modulus)))
                    writer.member("e", base64url(Array(numbers.publicExponent)))
                }
            }
        }
        return writer.bytes
    }

    static func keys() throws -> JSONWebKeySet {
        try JSONWebKeySet(decoding: keySet([("k1", first), ("k2", second)]))
    }

    /// A token that is valid at ``now`` unless the claims are changed.
    static func token(
        kid: String = "k1", key: _RSA.Signing.PrivateKey = first, algorithm: String = "RS256",
        change: (inout [String: Any]) -> Void = { _ in }
    ) -> String {
        let seconds = now.milliseconds / 1000
        var claims: [String: Any] = [
            "aud": audience, "azp": "1", "sub": "1", "email": email, "email_verified": true,
            "iss":
                "https://accounts.google.com", "iat": seconds - 10, "exp": seconds + 3590,
        ]
        change(&claims)
        let header = made {
            try JSONSerialization.data(withJSONObject: ["alg": algorithm, "kid": kid, "typ": "JWT"])
        }
        let body = made { try JSONSerialization.data(withJSONObject: claims) }
        let signed = base64url(Array(header)) + "." + base64url(Array(body))
        let signature = made {
            try key.signature(for: SHA256.hash(data: Array(signed.utf8)), padding: .insecurePKCS1v1_5)
        }
        return signed + "." + base64url(Array(signature.rawRepresentation))
    }
}

/// The value of something that cannot fail in a test.
private func made<Value>(_ make: () throws -> Value) -> Value {
    do { return try make() } catch { fatalError("\(error)") }
}

func base64url(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    Base64.append(bytes[...], .url, to: &text)
    return String(decoding: text, as: UTF8.self)
}

func at(_ text: String) -> Instant {
    Instant(iso8601: text)!
}
