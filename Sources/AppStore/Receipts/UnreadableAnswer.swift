import Encoding

/// Why a body is not an answer of verifyReceipt. The description is one line and quotes nothing from the body.
package enum UnreadableAnswer: Error, Hashable, CustomStringConvertible {
    case notJSON(JSONError)
    /// JSON that ends too early.
    case cutOff
    case notAnObject
    /// `status` is missing or not a whole number.
    case noStatus

    package var description: String {
        switch self {
        case .notJSON(let error): "the answer is not JSON: \(error)"
        case .cutOff: "the answer ends too early"
        case .notAnObject: "the answer is JSON, but not an object"
        case .noStatus: "the answer has no readable status"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .notJSON: "not_json"
        case .cutOff: "cut_off"
        case .notAnObject: "not_an_object"
        case .noStatus: "no_status"
        }
    }
}
