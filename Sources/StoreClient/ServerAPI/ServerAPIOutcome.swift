import AppStore

/// What a question to the App Store Server API led to. Only the first is a fact, once its signatures are verified.
package enum ServerAPIOutcome<Answer: Sendable>: Sendable {
    case answered(Answer)
    /// The same question will fail again, or starts again with the first page.
    case refused(ServerAPIRefusal)
    /// A new token was rejected, too, or one was a short while ago.
    case keyRejected
    /// The answer cannot be read; the label of its defect, from a closed list.
    case unreadable(String)
    /// No answer for now; the raw value of an ``Unavailability``, and how long to wait before asking again.
    case unavailable(String, retryAfter: Duration)
}
