import Crypto
import CryptoExtras
import Encoding
import Foundation

/// Public RSA keys by their ids, as Google publishes them.
///
/// - Source: RFC 7517.
package struct JSONWebKeySet: Sendable {
    private let keys: [String: _RSA.Signing.PublicKey]

    package static let empty = JSONWebKeySet(keys: [:])

    private init(keys: [String: _RSA.Signing.PublicKey]) {
        self.keys = keys
    }

    /// Reads a key set. Keys of other kinds, without an id or unreadable are left out.
    ///
    /// - Throws: ``Unreadable`` if the body is not a key set, perhaps cut off.
    package init(decoding body: [UInt8]) throws(Unreadable) {
        guard let root = try? JSONDocument(body).root, let elements = root["keys"], elements.isArray else {
            throw Unreadable()
        }
        var keys: [String: _RSA.Signing.PublicKey] = [:]
        for element in elements.elements(atMost: Limits.keysMax) {
            guard element.string("kty") == "RSA", let id = element.string("kid"), !id.isEmpty,
                element.string("use").map({ $0 == "sig" }) ?? true,
                element.string("alg").map({ $0 == "RS256" }) ?? true,
                let modulus = element.string("n").flatMap({ Base64.decode(Array($0.utf8)[...], .url) }),
                let exponent = element.string("e").flatMap({ Base64.decode(Array($0.utf8)[...], .url) }),
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
            else { continue }
            keys[id] = key
        }
        self.init(keys: keys)
    }

    package struct Unreadable: Error, Hashable, CustomStringConvertible {
        package var description: String { "the key set is unreadable: expected a JSON object with keys" }
    }

    package var isEmpty: Bool { keys.isEmpty }

    /// The key with the id; nil if it is not in the set.
    func key(_ id: String) -> _RSA.Signing.PublicKey? { keys[id] }

    package func contains(_ id: String) -> Bool { keys[id] != nil }
}
