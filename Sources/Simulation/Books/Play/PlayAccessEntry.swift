import Encoding

/// The access that the store's answers and messages let a server know from an instant on. Later refunds are not in it.
package struct PlayAccessEntry: Sendable {
    package let at: Instant
    package let access: AccessBook
}

extension [PlayAccessEntry] {
    /// What is known at an instant; nil before the first message.
    package func access(at instant: Instant) -> AccessBook? { last { $0.at <= instant }?.access }
}
