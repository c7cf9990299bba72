import Encoding

/// A request to the App Store Server API, and how its answer is read.
package protocol ServerAPIRequest: Sendable {
    associatedtype Answer: Sendable

    var endpoint: ServerAPIEndpoint { get }
    /// `GET`, `POST` or `PUT`.
    var method: String { get }
    /// From `/inApps` on, with the query; percent-encoded.
    var path: String { get }
    /// Nil for a request without a body.
    var body: [UInt8]? { get }
    /// Whether the same request may be sent again when it is unknown what came of the first one.
    var isRepeatable: Bool { get }

    /// Reads the body of an answer with a status from 200 to 206.
    func answer(decoding body: [UInt8]) throws(UnreadableJSON) -> Answer
}

extension ServerAPIRequest {
    package var method: String { "GET" }
    package var body: [UInt8]? { nil }
    package var isRepeatable: Bool { true }
}

/// The members of an answer.
struct ServerAnswer {
    let root: JSONValue

    init(_ body: [UInt8]) throws(UnreadableJSON) {
        guard let root = try? JSONDocument(body).root, root.isObject else { throw .notAnObject }
        self.root = root
    }

    func text(_ value: JSONValue?, _ name: String) throws(UnreadableJSON) -> [UInt8] {
        guard let value, value.isString else { throw .missing(name) }
        return Array(value.unescapedBytes)
    }
}
