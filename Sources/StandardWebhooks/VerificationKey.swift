import Crypto
import Foundation

/// A key with which a receiver verifies: a shared secret (`whsec_`) or an Ed25519 public key (`whpk_`).
public struct VerificationKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    enum Kind: Sendable {
        case shared(SymmetricKey)
        case ed25519(Curve25519.Signing.PublicKey)
    }

    let kind: Kind

    init(_ kind: Kind) { self.kind = kind }

    /// Reads a shared secret or a public key as its sender shows it.
    public init(_ text: String) throws(KeyFormatError) {
        let (prefix, bytes) = try KeyText.read(text, [KeyText.secret, KeyText.publicKey])
        if prefix == KeyText.secret {
            guard KeyText.secretBytes.contains(bytes.count) else { throw .length(bytes.count) }
            kind = .shared(SymmetricKey(data: bytes))
        } else {
            guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else {
                throw .length(bytes.count)
            }
            kind = .ed25519(key)
        }
    }

    /// `whpk_` and Base64; nil for a shared secret, which is not for publication.
    public var publicText: String? {
        switch kind {
        case .shared: nil
        case .ed25519(let key): KeyText.write(KeyText.publicKey, key.rawRepresentation)
        }
    }

    public var description: String { publicText ?? "whsec_…" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }

    /// Whether the signature is of this key's kind and made with it. Compares in constant time.
    func accepts(_ signature: Signature, of content: Data) -> Bool {
        switch kind {
        case .shared(let key):
            signature.version == "v1"
                && HMAC<SHA256>.isValidAuthenticationCode(signature.bytes, authenticating: content, using: key)
        case .ed25519(let key): signature.version == "v1a" && key.isValidSignature(signature.bytes, for: content)
        }
    }
}

/// One signature of the header, such as `v1,…`.
struct Signature {
    let version: Substring
    let bytes: Data

    /// Nil without a version or with bytes that are not Base64. Such an entry is no error: it may be of a later version of
    /// the format.
    init?(_ text: Substring) {
        guard let comma = text.firstIndex(of: ","),
            let bytes = Data(base64Encoded: String(text[text.index(after: comma)...]))
        else { return nil }
        version = text[..<comma]
        self.bytes = bytes
    }
}
