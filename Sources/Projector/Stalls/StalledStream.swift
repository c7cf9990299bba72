import Encoding
import Postgres

/// Why a stream is stalled. The raw values are a closed list, for metrics and ``StreamStatus``.
package enum StallCause: String, Sendable, Hashable, CaseIterable {
    /// The next event cannot be folded.
    case event
    /// All rows would be rewritten for the same reason as last time.
    case refold
    /// Another session leads the stream and does not advance it.
    case leader
    /// The database rejects a statement.
    case statement
    /// The database is unavailable or does not answer in time.
    case database
    /// The projector is working on this stream or another one, and nothing has failed.
    case busy

    init(_ error: PostgresError) {
        if case .server = error.kind, !error.isTransient {
            self = .statement
        } else {
            self = .database
        }
    }

    init(_ error: ProjectionError) {
        switch error {
        case .database(let cause): self.init(cause)
        case .unfoldable: self = .event
        case .repeatedRefold: self = .refold
        }
    }

    /// True if a projector that reports this cause knows only that it is not the one that fails.
    var isSecondHand: Bool { self == .leader || self == .busy }

    /// Whether this cause should be reported after the other one was reported.
    func saysMore(than other: StallCause) -> Bool {
        self != other && (!isSecondHand || other == .busy)
    }
}

/// A stream with unfolded events or outdated rows that has not advanced for ``Projector/stallAfter``.
package struct StalledStream: Sendable, Hashable {
    /// Bundle id and environment; both nil if the log itself cannot be read, which holds up all streams.
    package let app: String?
    package let environment: String?
    package let cause: StallCause
    /// When this process first found the stream at its position, by the database's clock. If the log cannot be read,
    /// the time of the first failure by this process's clock.
    package let since: Instant
}
