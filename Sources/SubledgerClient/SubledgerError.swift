/// Why a call failed.
public enum SubledgerError: Error, Hashable, CustomStringConvertible {
    /// The user is the nil UUID, by which all users would be one.
    case userIsNil
    /// `start` was called again without `signOut`, or another object listens to the same store: updates would be handled
    /// twice.
    case alreadyStarted
    /// A call needs a user, and `start` was not called.
    case notStarted
    /// The purchase waits for an approval, which may take days.
    case purchasePending
    case purchaseCancelled
    /// There was no response. What was not handed in is handed in later.
    case unreachable
    /// The server cannot answer now (408, 429 or 5xx), and may say in how many seconds to ask again; or it does not believe
    /// the token or the assertion (401).
    case unavailable(status: Int, retryAfter: Double?)
    /// The server refused the request; the text is the server's. Repeating it does not help.
    case refused(status: Int, detail: String)
    /// The server's answer cannot be used.
    case answer(String)

    public var description: String {
        switch self {
        case .userIsNil: "the user is the nil UUID: expected one that identifies the user"
        case .alreadyStarted: "already started: call signOut() before another user starts, and use one object per store"
        case .notStarted: "not started: call start(user:assertion:) first"
        case .purchasePending: "the purchase waits for approval"
        case .purchaseCancelled: "the purchase was cancelled"
        case .unreachable: "the server cannot be reached"
        case .unavailable(let status, _): "the server cannot answer now (status \(status))"
        case .refused(let status, let detail): "the server refused the request (status \(status)): \(detail)"
        case .answer(let reason): "the server's answer cannot be used: \(reason)"
        }
    }
}
