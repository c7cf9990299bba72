import Crypto
import Encoding
import HTTPTypes
import Hummingbird

/// The tag of an answer, by which a client asks whether it has changed.
///
/// Weak, since answers with the same tag may differ in the time at which they were given.
///
/// - Source: RFC 9110, sections 8.8.3 and 13.1.2.
struct EntityTag: Hashable {
    /// As in the header: `W/"…"`.
    let text: String

    /// - Parameter content: Bytes that differ whenever the answer differs.
    init(of content: [UInt8]) {
        text = "W/\"\(Hex.text(Array(SHA256.hash(data: content).prefix(16))))\""
    }

    /// Whether the value of an `If-None-Match` header contains the tag, strong or weak, or is `*`.
    func isContained(in value: String) -> Bool {
        func opaque(_ tag: some StringProtocol) -> Substring {
            let tag = Substring(tag.drop { $0 == " " || $0 == "\t" })
            let plain = tag.hasPrefix("W/") ? tag.dropFirst(2) : tag
            return plain.prefix { $0 != " " && $0 != "\t" }
        }
        let own = opaque(text)
        return value.split(separator: ",").contains { opaque($0) == own || opaque($0) == "*" }
    }

    /// The response with the tag; 304 without a body if the client has it.
    func response(to request: Request, _ make: () throws -> Response) rethrows -> Response {
        let isKnown = request.headers[values: .ifNoneMatch].contains { isContained(in: $0) }
        var response = isKnown ? Response(status: .notModified) : try make()
        response.headers[.eTag] = text
        // The answer is one customer's, and must be asked for again each time.
        response.headers[.cacheControl] = "private, no-cache"
        response.headers[.vary] = "Accept, Authorization"
        return response
    }
}
