import Encoding

/// What a round of checks did.
package struct PollRound: Sendable {
    /// The number of questions to the store.
    package let asked: Int
    /// When the next check becomes due in the streams that this process leads, or when a question that had to wait can be
    /// asked; later than the round's time. Nil if nothing is planned.
    package let nextDue: Instant?
}
