import Crypto

/// Private keys that anybody can work out: they follow from a label that stands in this source.
///
/// That is their purpose. What one process signs, another one that knows the label can verify, without a file of keys
/// between them.
package enum TestKeys {
    /// The key that the label stands for on P-256.
    package static func p256(_ label: String) -> P256.Signing.PrivateKey {
        firstInRange(label) { try? P256.Signing.PrivateKey(rawRepresentation: SHA256.hash(data: $0)) }
    }

    /// The key that the label stands for on P-384.
    package static func p384(_ label: String) -> P384.Signing.PrivateKey {
        firstInRange(label) { try? P384.Signing.PrivateKey(rawRepresentation: SHA384.hash(data: $0)) }
    }

    /// A digest is a key unless it is nought or beyond the order of the curve; then the next one is tried.
    private static func firstInRange<Key>(_ label: String, _ key: ([UInt8]) -> Key?) -> Key {
        var counter = 0
        while true {
            if let found = key(Array("Subledger test key, not secret: \(label) \(counter)".utf8)) { return found }
            counter += 1
        }
    }
}
