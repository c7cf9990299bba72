import AppStore

/// What a question about a receipt led to. Only the first two are facts.
package enum ReceiptOutcome: Sendable {
    /// Status 0 or 21006. Not yet checked: see `Apps.verify`.
    case answered(AnswerFromApple)
    /// Status 21010.
    case accountDeleted(AnswerFromApple)
    /// Apple does not accept the receipt, or each of its hosts refers to the other.
    case refused(ReceiptStatus)
    /// Status 21004 for each of the app's secrets, or without one.
    case secretRejected
    /// All answers were unreadable; the label of the last one's defect, from a closed list.
    case unreadable(String)
    /// No answer for now; the raw value of an ``Unavailability``, and how long to wait before asking again.
    case unavailable(String, retryAfter: Duration)
}

/// Why there is no answer for now.
package enum Unavailability: String, Sendable, CaseIterable {
    case timeout
    case tooLong = "too_long"
    case unreachable
    /// An HTTP status other than 200.
    case httpStatus = "http_status"
    /// A status that means a temporary failure.
    case temporaryStatus = "temporary_status"
    /// Calls to the host have stopped after many failures.
    case breakerOpen = "breaker_open"
    /// The app's budget is used up for longer than a question waits.
    case budget
    /// The caller's task was cancelled.
    case cancelled

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
