import Crypto
import Encoding

/// The operator's key that signs heads and answers about entitlements: Ed25519.
package struct HeadKey: Sendable {
    private let key: Curve25519.Signing.PrivateKey

    /// A new key.
    package init() {
        key = Curve25519.Signing.PrivateKey()
    }

    package var publicKey: HeadPublicKey { HeadPublicKey(key.publicKey) }

    package func sign(_ head: StreamHead, at time: Instant) throws -> SignedHead {
        let signature = try signature(of: SignedHead.signedBytes(head, at: time))
        return SignedHead(head: head, signedAt: time, publicKey: publicKey.bytes, signature: signature)
    }

    /// Signs bytes, which must begin with what they are: see ``SignedHead/signedBytes(_:at:)``.
    func signature(of bytes: [UInt8]) throws -> [UInt8] {
        Array(try key.signature(for: bytes))
    }
}

/// The public part of a ``HeadKey``.
package struct HeadPublicKey: Sendable {
    private let key: Curve25519.Signing.PublicKey

    fileprivate init(_ key: Curve25519.Signing.PublicKey) {
        self.key = key
    }

    /// - Parameter hexadecimal: 64 hexadecimal digits. Nil if the text is anything else.
    package init?(hexadecimal: String) {
        let bytes = Array(hexadecimal.utf8).withUnsafeBufferPointer { Hex.bytes($0, acceptsUpperCase: true) }
        guard let bytes, let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return nil }
        self.key = key
    }

    /// 32 bytes.
    package var bytes: [UInt8] { Array(key.rawRepresentation) }

    func isSignature(_ signature: [UInt8], of text: [UInt8]) -> Bool {
        key.isValidSignature(signature, for: text)
    }
}

// MARK: - PEM

extension HeadKey {
    /// What precedes the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410).
    private static let prefix: [UInt8] = [
        0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    ]
    private static let begin = "-----BEGIN PRIVATE KEY-----"
    private static let end = "-----END PRIVATE KEY-----"

    /// The private key in PKCS #8, as `openssl genpkey -algorithm ed25519` writes it.
    package var pem: String {
        "\(Self.begin)\n\(Base64.text(Self.prefix + Array(key.rawRepresentation)))\n\(Self.end)\n"
    }

    /// - Returns: Nil if the text is not an Ed25519 key in PKCS #8.
    package init?(pem: String) {
        let lines = pem.split(whereSeparator: \.isNewline)
        guard lines.count >= 3, lines.first.map({ String($0) }) == Self.begin,
            lines.last.map({ String($0) }) == Self.end,
            let der = Base64.decode(Array(lines.dropFirst().dropLast().joined().utf8)[...], .standard),
            der.count == Self.prefix.count + 32, der.starts(with: Self.prefix),
            let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: der.suffix(32))
        else { return nil }
        self.key = key
    }
}
