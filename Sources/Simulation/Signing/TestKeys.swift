import Crypto

/// Private keys derived from labels in the source code. They are public.
///
/// Processes that know the label have the same keys, so no key file is needed.
package enum TestKeys {
    /// The P-256 key of the label.
    package static func p256(_ label: String) -> P256.Signing.PrivateKey {
        firstInRange(label) { try? P256.Signing.PrivateKey(rawRepresentation: SHA256.hash(data: $0)) }
    }

    /// The P-384 key of the label.
    package static func p384(_ label: String) -> P384.Signing.PrivateKey {
        firstInRange(label) { try? P384.Signing.PrivateKey(rawRepresentation: SHA384.hash(data: $0)) }
    }

    /// A digest is a valid key unless it is zero or not below the order of the curve; then the next one is tried.
    private static func firstInRange<Key>(_ label: String, _ key: ([UInt8]) -> Key?) -> Key {
        var counter = 0
        while true {
            if let found = key(Array("Subledger test key, not secret: \(label) \(counter)".utf8)) { return found }
            counter += 1
        }
    }
}
