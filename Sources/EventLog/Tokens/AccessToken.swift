import Crypto
import Encoding

/// A bearer token in the clear: `slt_`, an id of 12 hexadecimal digits to look it up by, `_`, a secret of 64.
///
/// Exists while it is made or shown by a request. What is kept of it is the SHA-256 of the secret: of 256 random bits
/// nobody finds them by trying, so a slow hash would add nothing but its time to each request.
package struct AccessToken: Sendable, CustomStringConvertible {
    package let id: String
    private let secret: [UInt8]

    static let prefix = "slt_"
    private static let idBytes = 6
    private static let secretBytes = 32

    /// - Parameter generator: Must be one that nobody can predict, such as the system's.
    package init(using generator: inout some RandomNumberGenerator) {
        id = Hex.text((0..<Self.idBytes).map { _ in UInt8.random(in: 0...255, using: &generator) })
        secret = (0..<Self.secretBytes).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    /// Nil for what is not of the form.
    package init?(_ text: String) {
        // Bytes of a known type, since each request shows one: any kind of text takes ten times as long to go through.
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

    /// The whole of it, to be shown once to whom it is made for.
    package var text: String { "\(Self.prefix)\(id)_\(Hex.text(secret))" }

    /// 32 bytes, the form in which it is stored.
    package var digest: [UInt8] { Array(SHA256.hash(data: secret)) }

    /// Takes as long whatever the difference is.
    package func matches(digest: [UInt8]) -> Bool {
        SHA256.hash(data: secret) == digest
    }

    /// Names the token without its secret.
    package var description: String { "token \(id)" }
}
