import Crypto
import Encoding

// JSON Web Tokens of the head key: RFC 7515, with EdDSA of RFC 8037. What is signed begins with the text `eyJ`, a signed
// head with the length of its first field, so that neither passes for the other.

extension HeadKey {
    /// Signs claims as a ``JSONWebToken``.
    ///
    /// - Parameters:
    ///   - type: What the claims are, header `typ`: a verifier refuses other kinds of the same key by it.
    ///   - claims: Writes the members of the claims.
    package func jwt(type: String, _ claims: (inout JSONWriter) -> Void) throws -> String {
        let header = { (writer: inout JSONWriter) in
            writer.member("alg", "EdDSA")
            writer.member("typ", type)
            writer.member("kid", publicKey.keyId)
        }
        return try JSONWebToken.text(header: header, claims: claims) { try signature(of: $0) }
    }
}

extension HeadPublicKey {
    /// The key's thumbprint: 43 characters of base64url.
    ///
    /// - Source: RFC 7638, and RFC 8037, appendix A.3.
    package var keyId: String {
        let members = #"{"crv":"Ed25519","kty":"OKP","x":"\#(Base64.text(bytes, .url))"}"#
        return Base64.text(Array(SHA256.hash(data: Array(members.utf8))), .url)
    }

    /// Writes the key as an element of a JSON Web Key set (RFC 7517).
    package func writeJWK(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("kty", "OKP")
            writer.member("crv", "Ed25519")
            writer.member("alg", "EdDSA")
            writer.member("use", "sig")
            writer.member("kid", keyId)
            writer.member("x", Base64.text(bytes, .url))
        }
    }
}
