import Encoding
import PlayStore

/// An answer of the Play Developer API with a status from 200 to 206.
struct GoogleAnswer: Sendable, Hashable {
    let status: Int
    let body: [UInt8]
    /// Our clock. What the answer says is true then.
    let answeredAt: Instant
}

/// What a question to the Play Developer API led to. Only the first is a fact.
enum GoogleOutcome: Sendable {
    case answered(GoogleAnswer)
    /// The same question will fail again.
    case refused(PlayRefusal)
    /// No access token is issued, or a new one was rejected, too.
    case credentialsRejected
    /// The account may not ask about the app. New permissions take a day or two.
    case forbidden
    /// No answer for now; the raw value of an ``Unavailability``, and how long to wait before asking again.
    case unavailable(String, retryAfter: Duration)
}
