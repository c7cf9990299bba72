import Postgres

/// Why an event was not acknowledged. After each of them the sender may safely send it again.
package enum AppendError: Error, Hashable, CustomStringConvertible {
    /// Too much is waiting already.
    case queueFull
    /// The database is away, broken or too busy, or did not answer in time before anything was sent to it.
    case unavailable
    /// The commit was sent and never confirmed: the event may be in the log or not.
    case outcomeUnknown
    /// The database refused the event itself. An operator has to look.
    case refused(sqlstate: String)

    package var description: String {
        switch self {
        case .queueFull: "too many notifications are waiting to be stored"
        case .unavailable: "the database is unavailable"
        case .outcomeUnknown: "the database did not confirm that the notification is stored"
        case .refused: "the notification could not be stored"
        }
    }

    /// A word for logs and metrics, from a closed list.
    package var label: String {
        switch self {
        case .queueFull: "queue_full"
        case .unavailable: "database_unavailable"
        case .outcomeUnknown: "outcome_unknown"
        case .refused: "database_refused"
        }
    }

    init(_ error: PostgresError) {
        switch error.kind {
        case .outcomeUnknown: self = .outcomeUnknown
        // Damage is the server's fault and not the event's: the sender keeps it until an operator has healed that.
        case .server(let sqlstate):
            self = error.isTransient || error.isDamage ? .unavailable : .refused(sqlstate: sqlstate)
        case .unavailable, .deadlineExceeded, .closed: self = .unavailable
        case .decoding: self = .outcomeUnknown
        }
    }
}

/// Where an event stands in its stream.
package struct Appended: Sendable, Hashable {
    package let position: Int64
    /// False when the log had the event already and nothing was written.
    package let isNew: Bool
    /// The log has the event already, with other bytes.
    package let isConflict: Bool
}
