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
    func answer(decoding body: [UInt8]) throws(UnreadableServerAnswer) -> Answer
}

extension ServerAPIRequest {
    package var method: String { "GET" }
    package var body: [UInt8]? { nil }
    package var isRepeatable: Bool { true }
}

/// Why an answer of the App Store Server API cannot be read. It quotes nothing from the answer.
package enum UnreadableServerAnswer: Error, Hashable, CustomStringConvertible {
    /// Not a JSON object, perhaps cut off.
    case notAnObject
    /// A member that the answer must have is missing, or has another type.
    case missing(String)

    package var description: String {
        switch self {
        case .notAnObject: "the answer is not a JSON object"
        case .missing(let member): "the answer has no readable \(member)"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .notAnObject: "not_an_object"
        case .missing: "member_missing"
        }
    }
}

/// The members of an answer.
struct ServerAnswer {
    let root: JSONValue

    init(_ body: [UInt8]) throws(UnreadableServerAnswer) {
        guard let root = try? JSONDocument(body).root, root.isObject else { throw .notAnObject }
        self.root = root
    }

    func text(_ value: JSONValue?, _ name: String) throws(UnreadableServerAnswer) -> [UInt8] {
        guard let value, value.isString else { throw .missing(name) }
        return Array(value.unescapedBytes)
    }
}
