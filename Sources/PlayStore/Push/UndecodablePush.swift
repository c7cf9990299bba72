import Encoding

/// Why a body is not a push of Pub/Sub. The description is one line and quotes nothing from the body.
package enum UndecodablePush: Error, Hashable, CustomStringConvertible {
    case notJSON(JSONError)
    /// Neither `{"message":{…}}`, nor a developer notification, nor a body with the headers of an unwrapped push.
    case notAPush

    package var description: String {
        switch self {
        case .notJSON(let error): "the body is not JSON: \(error)"
        case .notAPush:
            """
            the body is not a push of Cloud Pub/Sub: expected a "message" with "data", or a developer notification of \
            Google Play
            """
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .notJSON: "not_json"
        case .notAPush: "not_a_push"
        }
    }
}
