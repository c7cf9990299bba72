import Encoding

/// What events of a stream a reader wants; nil is all of them.
package struct EventFilter: Sendable, Hashable {
    /// As Apple spells it.
    package var type: String?
    package var kind: String?
    package var source: String?
    /// The first time of receipt that counts, and the first that does not any more.
    package var receivedFrom: Instant?
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

/// A part of a stream's log, in the order of positions.
package struct EventPage: Sendable {
    package let events: [StoredEvent]
    /// All that the filter lets through up to here was given: go on after it. A page may be empty before the end,
    /// since only ``Limits/scannedEventsMax`` are looked at for each.
    package let through: Int64
    package let head: Int64
    /// Whether the filter may let through more of what is there now.
    package let hasMore: Bool

    /// What is found after a position.
    package enum Outcome: Sendable {
        case page(EventPage)
        case noStream
        /// The log ends before the position, so it is not the log that the position is from: a backup was restored, or
        /// a standby lags. An empty page would have the reader miss the events that will have the positions in between.
        ///
        /// - Parameter head: The last position there is.
        case beyondHead(Int64)
    }
}
