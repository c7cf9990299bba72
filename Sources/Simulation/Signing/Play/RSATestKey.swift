import Crypto
import CryptoExtras
import Encoding
import Foundation

/// An RSA key that is generated when the process needs it, and known to no other process.
package struct RSATestKey: Sendable {
    package let keyId: String
    package let privateKey: _RSA.Signing.PrivateKey

    package init(keyId: String) {
        self.keyId = keyId
        do {
            privateKey = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        } catch {
            preconditionFailure("cannot generate a test key: \(error)")
        }
    }

    private init(keyId: String, privateKey: _RSA.Signing.PrivateKey) {
        self.keyId = keyId
        self.privateKey = privateKey
    }

    /// The same key under another id.
    package func renamed(_ keyId: String) -> RSATestKey { RSATestKey(keyId: keyId, privateKey: privateKey) }

    /// Signs a JSON Web Token with RS256.
    ///
    /// - Parameter algorithm: The algorithm that the header states.
    /// - Returns: Three base64url segments, separated by dots.
    package func token(_ claims: [UInt8], algorithm: String = "RS256") -> String {
        var header = JSONWriter()
        header.object { writer in
            writer.member("alg", algorithm)
            writer.member("kid", keyId)
            writer.member("typ", "JWT")
        }
        let signed = Self.segment(header.bytes) + "." + Self.segment(claims)
        return signed + "." + Self.segment(signature(of: SHA256.hash(data: Data(signed.utf8))))
    }

    func signature(of digest: some Digest) -> [UInt8] {
        do {
            return Array(try privateKey.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
        } catch {
            preconditionFailure("cannot sign with a test key: \(error)")
        }
    }

    /// Whether an RS256 token is signed with this key.
    package func isSigner(of token: String) -> Bool {
        guard let dot = token.lastIndex(of: "."),
            let signature = Base64.decode(Array(token[token.index(after: dot)...].utf8)[...], .url)
        else { return false }
        return privateKey.publicKey.isValidSignature(
            .init(rawRepresentation: signature), for: SHA256.hash(data: Data(token[..<dot].utf8)),
            padding: .insecurePKCS1v1_5)
    }

    private static func segment(_ bytes: [UInt8]) -> String { String(decoding: base64URL(bytes), as: UTF8.self) }

    /// Writes the public key as a JSON Web Key.
    package func writeJWK(to writer: inout JSONWriter) {
        guard let primitives = try? privateKey.publicKey.getKeyPrimitives() else { return }
        writer.object { writer in
            writer.member("kty", "RSA")
            writer.member("alg", "RS256")
            writer.member("use", "sig")
            writer.member("kid", keyId)
            writer.member("n", Self.segment(Array(primitives.modulus)))
            writer.member("e", Self.segment(Array(primitives.publicExponent)))
        }
    }
}

/// The test keys of a process. Each is generated once.
package enum RSATestKeys {
    /// Google's keys of push tokens. A rotation moves on by one; two are published at a time.
    package static let push = (0..<3).map { RSATestKey(keyId: "test-push-key-\($0)") }
    /// Google publishes it nowhere.
    package static let unpublished = RSATestKey(keyId: "test-unpublished-key")
    package static let serviceAccount = RSATestKey(keyId: "0123456789abcdef0123456789abcdef01234567")
    /// Signs the purchases that the app gets.
    package static let license = RSATestKey(keyId: "test-license-key")
}
