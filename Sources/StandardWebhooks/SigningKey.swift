import Crypto
import Foundation

/// A key that signs: a shared secret (`whsec_`, signatures `v1`) or an Ed25519 private key (`whsk_`, signatures `v1a`).
///
/// Its descriptions hold nothing of the key; only ``text`` does.
public struct SigningKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    enum Kind: Sendable {
        case shared(SymmetricKey)
        case ed25519(Curve25519.Signing.PrivateKey)
    }

    let kind: Kind

    /// Reads a key as ``text`` writes it. An Ed25519 key may also be its seed of 32 bytes.
    public init(_ text: String) throws(KeyFormatError) {
        let (prefix, bytes) = try KeyText.read(text, [KeyText.secret, KeyText.privateKey])
        if prefix == KeyText.secret {
            guard KeyText.secretBytes.contains(bytes.count) else { throw .length(bytes.count) }
            kind = .shared(SymmetricKey(data: bytes))
            return
        }
        guard bytes.count == KeyText.seedBytes || bytes.count == 2 * KeyText.seedBytes,
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: bytes.prefix(KeyText.seedBytes))
        else { throw .length(bytes.count) }
        let publicHalf = bytes.dropFirst(KeyText.seedBytes)
        guard publicHalf.isEmpty || publicHalf == key.publicKey.rawRepresentation else { throw .halvesDiffer }
        kind = .ed25519(key)
    }

    /// An Ed25519 private key that is kept in another format.
    public init(_ key: Curve25519.Signing.PrivateKey) { kind = .ed25519(key) }

    private init(_ kind: Kind) { self.kind = kind }

    /// A new shared secret of 32 random bytes.
    public static func makeShared() -> SigningKey { SigningKey(.shared(SymmetricKey(size: .bits256))) }

    /// A new Ed25519 key.
    public static func makeEd25519() -> SigningKey { SigningKey(.ed25519(Curve25519.Signing.PrivateKey())) }

    /// The whole secret: `whsec_` or `whsk_` and Base64. Never log it.
    public var text: String {
        switch kind {
        case .shared(let key): KeyText.write(KeyText.secret, key.withUnsafeBytes { Data($0) })
        case .ed25519(let key):
            KeyText.write(KeyText.privateKey, key.rawRepresentation + key.publicKey.rawRepresentation)
        }
    }

    /// The key with which receivers verify. For a shared secret, it is as secret as this one.
    public var verificationKey: VerificationKey {
        switch kind {
        case .shared(let key): VerificationKey(.shared(key))
        case .ed25519(let key): VerificationKey(.ed25519(key.publicKey))
        }
    }

    public var description: String {
        switch kind {
        case .shared: "whsec_…"
        case .ed25519: "whsk_…"
        }
    }

    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }

    /// The signature with its version, such as `v1,…`.
    func signature(of content: Data) -> String {
        switch kind {
        case .shared(let key):
            "v1," + Data(HMAC<SHA256>.authenticationCode(for: content, using: key)).base64EncodedString()
        case .ed25519(let key):
            // Fails only if the library cannot allocate.
            "v1a," + ((try? key.signature(for: content)) ?? Data()).base64EncodedString()
        }
    }
}
