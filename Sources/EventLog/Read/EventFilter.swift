import Encoding

/// Selects events of a stream. A nil property selects all events.
package struct EventFilter: Sendable, Hashable {
    /// As Apple spells it.
    package var type: String?
    package var kind: String?
    package var source: String?
    /// Inclusive.
    package var receivedFrom: Instant?
    /// Exclusive.
    package var receivedUntil: Instant?

    package init(
        type: String? = nil, kind: String? = nil, source: String? = nil, receivedFrom: Instant? = nil,
        receivedUntil: Instant? = nil
    ) {
        self.type = type
        self.kind = kind
        self.source = source
        self.receivedFrom = receivedFrom
        self.receivedUntil = receivedUntil
    }
}

/// A page of a stream's log, in position order.
package struct EventPage: Sendable {
    package let events: [StoredEvent]
    /// The page has every matching event up to this position: continue after it. A page can be empty before the end of
    /// the log, because at most ``Limits/scannedEventsMax`` events are read per page.
    package let through: ReadPlace
    /// The last position of the stream.
    package let head: Int64
    /// Whether more of the events that are stored now may match.
    package let hasMore: Bool

    /// The result of reading after a position.
    package enum Outcome: Sendable {
        case page(EventPage)
        case noStream
        /// The log ends before the position, so the position is from a different log: a backup was restored, or a
        /// standby lags. After an empty page, the reader would miss the events that get the positions in between.
        ///
        /// - Parameter head: The last position of the stream.
        case beyondHead(Int64)
        /// Another event has the position now than the one the client has read: a backup was restored.
        case replaced
    }
}
