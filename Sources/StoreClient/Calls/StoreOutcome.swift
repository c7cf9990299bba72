/// What a question to a store led to. Only the first is a fact, once what proves it is verified.
package enum StoreOutcome<Answer: Sendable, Refusal: Sendable>: Sendable {
    case answered(Answer)
    /// The same question will fail again.
    case refused(Refusal)
    case rejected(Rejection)
    /// The answer cannot be read; the label of its defect, from a closed list.
    case unreadable(String)
    /// No answer for now, and how long to wait before asking again.
    case unavailable(Unavailability, retryAfter: Duration)
}

/// Why a store answers no question of an app, until a person changes something.
package enum Rejection: Sendable, Hashable {
    /// Each of the app's secrets is rejected, a new token as well, or no token is issued; or that was so a short while ago.
    case credentials
    /// The account may not ask about the app. New permissions take a day or two.
    case permission
}

/// Why there is no answer for now. The raw values are words for logs, metrics and responses.
package enum Unavailability: String, Sendable, CaseIterable, CustomStringConvertible {
    case timeout
    case tooLong = "too_long"
    case unreachable
    /// An HTTP status other than 200.
    case httpStatus = "http_status"
    /// A status that means a temporary failure.
    case temporaryStatus = "temporary_status"
    /// Calls to the host have stopped after many failures.
    case breakerOpen = "breaker_open"
    /// The budget is used up for longer than a question waits.
    case budget
    /// The caller's task was cancelled.
    case cancelled

    package var description: String { rawValue }

    init(_ failure: TransportFailure) {
        self =
            switch failure {
            case .timeout: .timeout
            case .tooLong: .tooLong
            case .unreachable: .unreachable
            case .cancelled: .cancelled
            }
    }
}
