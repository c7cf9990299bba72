import Encoding
import Postgres

/// Why a stream does not move. The raw values are a closed list, for metrics and ``StreamStatus``.
package enum StallCause: String, Sendable, Hashable, CaseIterable {
    /// The next event cannot be folded.
    case event
    /// All rows would be written again for the reason for which they were written last.
    case refold
    /// Another session leads the stream and does not move it.
    case leader
    /// The database refuses a statement.
    case statement
    /// The database does not answer, or not in time.
    case database
    /// The projector is at work on this stream or another one, and nothing has failed.
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

    /// Another projector that reports one of these knows no more than that it is not the one that fails.
    var isSecondHand: Bool { self == .leader || self == .busy }

    /// Whether this is news where the other one has been reported.
    func saysMore(than other: StallCause) -> Bool {
        self != other && (!isSecondHand || other == .busy)
    }
}

/// A stream of which events wait, or whose rows are out of date, and that has not moved for ``Projector/stallAfter``.
package struct StalledStream: Sendable, Hashable {
    /// Bundle id and environment; both nil where the log itself cannot be read, which holds up all streams.
    package let app: String?
    package let environment: String?
    package let cause: StallCause
    /// When this process first found it where it stands, by the database's clock.
    package let since: Instant
}
