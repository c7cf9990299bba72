/// Why a store's answer cannot be read. It quotes nothing from the answer.
package enum UnreadableJSON: Error, Hashable, CustomStringConvertible {
    /// Not a JSON object, perhaps cut off.
    case notAnObject
    /// A member without which the answer says nothing is missing or has another type.
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
