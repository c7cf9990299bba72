import Subscriptions

/// Why a body cannot be a notification of this version's formats. One line, quoting nothing of the body.
package enum UndecodableBody: Error, Hashable, CustomStringConvertible {
    case notJSON(JSONError)
    case notAnObject
    case notANotification
    /// A signed (version 2) notification.
    case signed

    package var description: String {
        switch self {
        case .notJSON(let error) where error.problem == .empty: error.problem.rawValue
        case .notJSON(let error): "the body is not JSON: \(error)"
        case .notAnObject: "the body is JSON, but not an object"
        case .notANotification: "the body is no App Store notification: it has no notification_type"
        case .signed: "signed (version 2) notifications are not supported by this release"
        }
    }
}
