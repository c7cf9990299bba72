import Encoding
import EventLog

/// A feed whose messages are sent to an endpoint: numbered from 1 without a gap.
protocol MessageSource: Sendable {
    /// The messages after a number that concern the endpoint.
    ///
    /// - Returns: ``MessagePage/through`` is the number if there is nothing after it.
    func page(after number: Int64, limit: Int) async throws(ReadError) -> MessagePage

    /// A message as it is now; nil if there is none with this number.
    func message(_ number: Int64) async throws(ReadError) -> SourceMessage?

    /// Waits until the feed may have more, the deadline passes or the task is cancelled.
    func wait(since mark: Mark, until deadline: ContinuousClock.Instant) async

    /// What was heard of the feed. Taken before a page is read that turns out to be empty, see ``wait(since:until:)``.
    func mark() async -> Mark

    associatedtype Mark: Sendable
}

struct MessagePage: Sendable {
    let messages: [SourceMessage]
    /// The feed was read up to here.
    let through: Int64
}

struct SourceMessage: Sendable {
    let number: Int64
    /// Messages of a line are sent one after the other.
    let line: String
    /// The same for all attempts. No dot.
    let id: String
    let headers: [(name: String, value: String)]
    /// Empty if ``isLost``.
    let body: [UInt8]
    /// Whether the log has no body any more, so that nothing can be sent.
    var isLost = false
}
