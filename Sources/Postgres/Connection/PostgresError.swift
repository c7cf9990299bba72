/// An error of the connection or the server.
///
/// Equality is by ``kind``. `description` contains nothing confidential. `debugDescription` is for `debug` logs: it
/// adds the server's primary message, which can quote an invalid value, but never its DETAIL, which quotes whole rows.
package struct PostgresError: Error, Sendable {
    package enum Kind: Sendable, Hashable {
        /// No connection could be made, or it was lost outside of a commit.
        case unavailable
        /// The deadline passed before the response arrived, or the task was cancelled while it waited for a connection.
        case deadlineExceeded
        /// A commit was sent and not confirmed: the transaction may or may not be durable. Repeat it only if that is
        /// safe.
        case outcomeUnknown
        /// The server rejected the statement; its transaction is rolled back.
        case server(sqlstate: String)
        /// A column has an unexpected type or value.
        case decoding
        /// The pool was shut down.
        case closed
    }

    package let kind: Kind
    /// The server's five-character error code, or `nil` if the server sent none.
    package let sqlstate: String?
    /// The name of the violated constraint, if the server sent one.
    package let constraint: String?
    package let statement: String?
    let message: String?

    package init(_ kind: Kind) {
        self.init(kind, message: nil)
    }

    init(
        _ kind: Kind, sqlstate: String? = nil, constraint: String? = nil, statement: String? = nil, message: String?
    ) {
        self.kind = kind
        if case .server(let code) = kind {
            self.sqlstate = code
        } else {
            self.sqlstate = sqlstate
        }
        self.constraint = constraint
        self.statement = statement
        self.message = message
    }

    static func decoding(_ error: PostgresDecodingError, column: Int) -> PostgresError {
        PostgresError(.decoding, message: "column \(column): \(error)")
    }

    static let deadlineExceeded = PostgresError(.deadlineExceeded)

    /// The same error with another kind, for a failure during a commit.
    func with(kind: Kind) -> PostgresError {
        PostgresError(kind, sqlstate: sqlstate, constraint: constraint, statement: statement, message: message)
    }

    /// True if the same call may succeed later: no connection, too many connections, no disk or memory, startup or
    /// shutdown, a conflict with another transaction, an unavailable lock, a cancelled statement, a limit of the
    /// server, an internal or system error, or a read-only server during a failover.
    ///
    /// False for data corruption (XX001, XX002), which is permanent.
    package var isTransient: Bool {
        switch kind {
        case .unavailable:
            true
        case .server(let code):
            ["08", "40", "53", "54", "58"].contains(code.prefix(2)) || code.hasPrefix("57P0")
                || ["25006", "55P03", "57014"].contains(code) || (code.hasPrefix("XX") && !isDamage)
        case .deadlineExceeded, .outcomeUnknown, .decoding, .closed:
            false
        }
    }

    /// Whether the server reported corruption of its files.
    package var isDamage: Bool {
        sqlstate == "XX001" || sqlstate == "XX002"
    }

    /// A word from a closed list, for metrics.
    package var label: String {
        switch kind {
        case .unavailable: "unavailable"
        case .deadlineExceeded: "deadline_exceeded"
        case .outcomeUnknown: "outcome_unknown"
        case .decoding: "decoding"
        case .closed: "closed"
        case .server(let code): Self.label(of: code)
        }
    }

    /// Source: PostgreSQL, Appendix A, "PostgreSQL Error Codes".
    private static func label(of sqlstate: String) -> String {
        switch sqlstate.prefix(2) {
        case "08", "53", "58": "server_resources"
        case "22": "server_data"
        case "23": "server_constraint"
        case "25": "server_transaction_state"
        case "28": "server_permission"
        case "40": "server_conflict"
        case "42": sqlstate == "42501" ? "server_permission" : "server_statement"
        case "55": "server_lock"
        case "57": sqlstate == "57014" ? "server_cancelled" : "server_shutdown"
        case "P0": "server_raised"
        default: "server_other"
        }
    }
}

extension PostgresError: Equatable {
    package static func == (left: PostgresError, right: PostgresError) -> Bool {
        left.kind == right.kind
    }
}

extension PostgresError: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String {
        switch kind {
        case .unavailable: "the database is unavailable"
        case .deadlineExceeded: "the database did not respond in time"
        case .outcomeUnknown: "the outcome of the transaction is unknown"
        case .server: "the database rejected the statement"
        case .decoding: "the database returned an unexpected value"
        case .closed: "the database connections are closed"
        }
    }

    package var debugDescription: String {
        var parts = [label]
        if let sqlstate { parts.append("SQLSTATE \(sqlstate)") }
        if let constraint { parts.append("constraint \(constraint)") }
        if let statement { parts.append("statement \(statement)") }
        if let message { parts.append(message) }
        return parts.joined(separator: ", ")
    }
}
