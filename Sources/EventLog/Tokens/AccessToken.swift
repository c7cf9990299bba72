import Crypto
import Encoding

/// A bearer token in plain text: `slt_`, an id of 12 hexadecimal digits for the lookup, `_`, and a secret of 64
/// hexadecimal digits.
///
/// Exists only while a token is created or a request is checked. Only the SHA-256 of the secret is stored: 256 random
/// bits cannot be found by trial, so a slow hash would only add its time to each request.
package struct AccessToken: Sendable, CustomStringConvertible {
    package let id: String
    private let secret: [UInt8]

    static let prefix = "slt_"
    private static let idBytes = 6
    private static let secretBytes = 32

    /// Creates a random token.
    ///
    /// - Parameter generator: Must be unpredictable, such as the system's generator.
    package init(using generator: inout some RandomNumberGenerator) {
        id = Hex.text((0..<Self.idBytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
        secret = (0..<Self.secretBytes).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    /// Parses a token; nil if the text does not have its form.
    package init?(_ text: String) {
        // Each request is parsed here. Concrete UTF-8 bytes are ten times as fast as a generic string.
        var text = text
        guard let read = text.withUTF8(Self.read) else { return nil }
        id = read.id
        secret = read.secret
    }

    private static func read(_ bytes: UnsafeBufferPointer<UInt8>) -> (id: String, secret: [UInt8])? {
        let idStart = prefix.utf8.count
        let idEnd = idStart + 2 * idBytes
        guard bytes.count == idEnd + 1 + 2 * secretBytes, bytes[..<idStart].elementsEqual(prefix.utf8),
            bytes[idEnd] == UInt8(ascii: "_"), Hex.bytes(UnsafeBufferPointer(rebasing: bytes[idStart..<idEnd])) != nil,
            let secret = Hex.bytes(UnsafeBufferPointer(rebasing: bytes[(idEnd + 1)...]))
        else { return nil }
        return (String(decoding: bytes[idStart..<idEnd], as: UTF8.self), secret)
    }

    /// The complete token, printed once when it is created.
    package var text: String { "\(Self.prefix)\(id)_\(Hex.text(secret))" }

    /// SHA-256 of the secret, 32 bytes: the form in which a token is stored.
    package var digest: [UInt8] { Array(SHA256.hash(data: secret)) }

    /// Shows the database that the secret is known, and nothing to a reader of the database's log.
    ///
    /// - Parameter session: The digest of the session that is begun with it.
    func proof(for session: [UInt8]) -> [UInt8] { LoginProof.bytes(of: secret, digest: digest, session: session) }

    /// Compares in constant time.
    package func matches(digest: [UInt8]) -> Bool {
        SHA256.hash(data: secret) == digest
    }

    /// The token's id, without its secret.
    package var description: String { "token \(id)" }
}
