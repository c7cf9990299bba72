/// Why a text is no key. Quotes nothing from the text.
public enum KeyFormatError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text starts with none of the prefixes that are accepted at this place.
    case unknownPrefix
    /// What follows the prefix is not padded standard Base64.
    case notBase64
    /// The key has this many bytes; a shared secret has 24 to 64, a public key 32, a private key 64 or, as a seed, 32.
    case length(Int)
    /// The second half of the private key is not the public key of the first.
    case halvesDiffer

    public var description: String {
        switch self {
        case .unknownPrefix: "not a webhook key: expected whsec_, whsk_ or whpk_, as the place accepts"
        case .notBase64: "not a webhook key: expected padded Base64 after the prefix"
        case .length(let count): "webhook key of \(count) bytes: expected 24 to 64, or an Ed25519 key"
        case .halvesDiffer: "not an Ed25519 private key: its public half belongs to another key"
        }
    }
}
