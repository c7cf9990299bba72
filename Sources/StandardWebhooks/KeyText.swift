import Foundation

/// The text of a key: a prefix, then Base64.
enum KeyText {
    static let secret = "whsec_"
    static let privateKey = "whsk_"
    static let publicKey = "whpk_"
    /// Bytes of a shared secret.
    static let secretBytes = 24...64
    static let seedBytes = 32

    /// The bytes after the first of the prefixes that fits, with that prefix.
    static func read(_ text: String, _ prefixes: [String]) throws(KeyFormatError) -> (prefix: String, bytes: Data) {
        guard let prefix = prefixes.first(where: text.hasPrefix) else { throw .unknownPrefix }
        guard let bytes = Data(base64Encoded: String(text.dropFirst(prefix.count))) else { throw .notBase64 }
        return (prefix, bytes)
    }

    static func write(_ prefix: String, _ bytes: Data) -> String { prefix + bytes.base64EncodedString() }
}
