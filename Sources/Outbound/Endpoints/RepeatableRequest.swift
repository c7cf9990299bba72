import Crypto
import Encoding

/// A request whose sender may repeat it: what it made is recognised by its idempotency key.
///
/// An endpoint has the key and what was asked for in its id, and a key that signs is noted with it. So nothing else is stored,
/// and a repeated request is recognised by every server and at any time.
package struct RepeatableRequest: Sendable, Hashable {
    /// A SHA-256 of the idempotency key, in hexadecimal digits. The key itself is kept nowhere.
    let digest: String

    /// - Parameter key: As the sender has chosen it.
    package init(key: String) {
        digest = Self.digest(of: Array("idempotency key \(key)".utf8))
    }

    /// What the ids of endpoints begin with that were added with the key.
    var idPrefix: String { "end_\(digest.prefix(Self.keyDigits))" }

    /// The id of the endpoint that it adds.
    func id(of wish: EndpointAdmin.Wish) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("app", wish.stream.app)
            writer.member("environment", wish.stream.environment.rawValue)
            writer.member("url", wish.url)
            if let kinds = wish.kinds {
                writer.key("kinds")
                writer.array(kinds.sorted()) { $0.value($1) }
            }
            writer.member("signature", wish.signature.rawValue)
            writer.member("after", wish.after)
        }
        return idPrefix + Self.digest(of: writer.bytes).prefix(Self.idDigits - Self.keyDigits)
    }

    /// The digits of an id, and those of them that are of the key: none of a thousand endpoints has them by chance.
    private static let (idDigits, keyDigits) = (16, 10)

    private static func digest(of bytes: [UInt8]) -> String { Hex.text(Array(SHA256.hash(data: bytes))) }
}
