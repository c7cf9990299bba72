import Encoding

/// Why a body is not a notification. The description is one line and quotes nothing from the body.
package enum UndecodableBody: Error, Hashable, CustomStringConvertible {
    case notJSON(JSONError)
    case notAnObject
    case notANotification
    /// `signedPayload`, or a signed part of it, is not a valid JWS.
    case malformed(MalformedJWS, V2Notification.Part)

    package var description: String {
        switch self {
        case .notJSON(let error) where error.problem == .empty: error.problem.rawValue
        case .notJSON(let error): "the body is not JSON: \(error)"
        case .notAnObject: "the body is JSON, but not an object"
        case .notANotification:
            """
            the body is not an App Store notification: it has neither notification_type nor a signedPayload with a \
            notificationType
            """
        case .malformed(let problem, let part): "\(part.rawValue) \(problem.explanation)"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .notJSON: "not_json"
        case .notAnObject: "not_an_object"
        case .notANotification: "not_a_notification"
        case .malformed(let problem, _): problem.rawValue
        }
    }
}
