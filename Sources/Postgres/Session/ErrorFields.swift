import CLibpq

/// The fields of an error or a notice, without DETAIL, which quotes whole rows.
struct ErrorFields {
    let severity: String?
    let sqlstate: String?
    let constraint: String?
    let message: String?
    /// The function in the server's source that reported it.
    private let function: String?

    /// Copies the fields, so the result may be cleared afterwards.
    init(_ result: OpaquePointer) {
        // The names of the fields are macros of character literals in C, which Swift does not import.
        severity = Self.field("V", of: result)
        sqlstate = Self.field("C", of: result)
        constraint = Self.field("n", of: result)
        message = Self.field("M", of: result)
        function = Self.field("R", of: result)
    }

    /// True if the error ends the session, so that the outcome of the running statement is unknown.
    var endsSession: Bool {
        severity == "FATAL" || severity == "PANIC"
    }

    /// True for the warning that the notification queue is filling up. It is sent with the commit of a notifying
    /// session but is unrelated to that commit; its SQLSTATE is that of all warnings.
    var isAboutNotifyQueue: Bool {
        function == "asyncQueueFillWarning"
    }

    func error(statement: Statement?) -> PostgresError {
        PostgresError(
            sqlstate.map { .server(sqlstate: $0) } ?? .unavailable,
            constraint: constraint,
            statement: statement?.name,
            message: message
        )
    }

    private static func field(_ code: Unicode.Scalar, of result: OpaquePointer) -> String? {
        PQresultErrorField(result, Int32(code.value)).map { String(cString: $0) }
    }
}
