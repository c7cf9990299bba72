import CLibpq
import Foundation

/// One libpq connection in non-blocking mode, used by one thread at a time.
///
/// After any thrown error the session is unusable: its owner releases it, which closes the socket. A server error that
/// leaves the session intact is returned as an ``Outcome``.
final class Session {
    enum Outcome {
        case rows(RowSet)
        case failed(PostgresError)
        /// The server did not run it because an earlier step failed.
        case skipped
    }

    struct Batch {
        /// One outcome per step.
        var outcomes: [Outcome]
        /// True if the server sent a warning while it ran the last step.
        var lastStepWarned = false
        var warningSQLSTATE: String?
    }

    let connection: OpaquePointer
    private let notices = NoticeLog()

    /// The parameter types with which each statement was prepared.
    private var prepared: [Statement: [UInt32]] = [:]

    private var planReset = PlanReset()

    /// True once a prepared statement no longer fits the schema; a new session prepares it again.
    private(set) var isStale = false

    /// Takes ownership of a connection created by `PQconnectStartParams`.
    init(_ connection: OpaquePointer) {
        self.connection = connection
        notices.attach(to: connection)
    }

    deinit {
        PQfinish(connection)
    }

    var backendPID: Int32 {
        PQbackendPID(connection)
    }

    /// True between `begin` and the end of the transaction, failed or not.
    var isInTransaction: Bool {
        PQtransactionStatus(connection) != PQTRANS_IDLE
    }

    /// Runs the steps in order in one round trip, preparing statements on first use.
    ///
    /// The server skips all steps after one that fails.
    func run(_ steps: [Step], deadline: ContinuousClock.Instant) throws(PostgresError) -> Batch {
        if PQpipelineStatus(connection) == PQ_PIPELINE_OFF {
            try require(PQenterPipelineMode(connection))
        }
        // Not inside a transaction: it would count as a query, and commands such as `set transaction` must come before
        // any.
        if planReset.isDue(), !isInTransaction { try discardPlans(deadline: deadline) }
        var expected: [Expectation] = []
        for (index, step) in steps.enumerated() {
            try send(step, index: index, expected: &expected)
        }
        try require(PQpipelineSync(connection))
        return try receive(expected, of: steps, deadline: deadline)
    }

    /// Discards plans in a separate round trip, so that it is not part of the transaction that the steps may begin.
    private func discardPlans(deadline: ContinuousClock.Instant) throws(PostgresError) {
        try require(PQsendQueryParams(connection, "discard plans", 0, nil, nil, nil, nil, 0))
        try require(PQpipelineSync(connection))
        _ = try receive([.planReset], of: [], deadline: deadline)
        planReset.isDone()
    }

    /// Runs several statements with the simple query protocol and drops their rows.
    ///
    /// - Returns: The server's error, if any.
    func script(_ sql: String, deadline: ContinuousClock.Instant) throws(PostgresError) -> PostgresError? {
        try require(PQexitPipelineMode(connection))
        try require(PQsendQuery(connection, sql))
        var failure: PostgresError?
        while let result = try nextResult(deadline: deadline) {
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
                failure = try error(in: result, statement: nil)
            case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
                throw PostgresError(.unavailable, message: "script must not copy")
            default:
                break
            }
        }
        return failure
    }

    /// Reads input that arrived between calls, so that a dead connection is detected before a statement is sent, while
    /// it is still certain that nothing happened.
    func refresh() throws(PostgresError) {
        while try isReadable() {
            try require(PQconsumeInput(connection))
            _ = PQisBusy(connection)
        }
        guard PQstatus(connection) == CONNECTION_OK, !notices.sessionEnded else {
            throw lost()
        }
    }

    /// True when input or the end of the connection can be read.
    func isReadable() throws(PostgresError) -> Bool {
        var entry = pollfd(fd: PQsocket(connection), events: Int16(POLLIN), revents: 0)
        let ready = poll(&entry, 1, 0)
        if ready < 0, errno != EINTR { throw lost() }
        return ready > 0
    }

    /// The error of a lost connection, with libpq's message.
    func lost() -> PostgresError {
        let message = String(cString: PQerrorMessage(connection))
        return PostgresError(.unavailable, message: message.isEmpty ? "connection lost" : message)
    }

    func require(_ success: Int32) throws(PostgresError) {
        guard success == 1 else { throw lost() }
    }
}

// MARK: - Sending

extension Session {
    /// A command that the server responds to.
    private enum Expectation {
        case planReset
        case preparation(step: Int)
        case execution(step: Int)
    }

    private func send(_ step: Step, index: Int, expected: inout [Expectation]) throws(PostgresError) {
        precondition(step.rows == nil, "rows to copy cannot be part of a batch")
        let statement = step.statement
        let types = step.parameters.map(\.oid)
        if let known = prepared[statement] {
            precondition(known == types, "a statement is used with different parameter types")
        } else {
            try require(PQsendPrepare(connection, statement.name, statement.sql, Int32(types.count), types))
            prepared[statement] = types
            expected.append(.preparation(step: index))
        }
        try require(sendExecution(of: step))
        expected.append(.execution(step: index))
    }

    private func sendExecution(of step: Step) -> Int32 {
        let count = step.parameters.count
        // One buffer for all values, with an extra byte at the end so that an empty value has an address too: a null
        // pointer would mean SQL null.
        var buffer: [UInt8] = []
        buffer.reserveCapacity(step.parameters.reduce(1) { $0 + ($1.bytes?.count ?? 0) })
        var offsets: [Int?] = []
        var lengths: [Int32] = []
        for parameter in step.parameters {
            offsets.append(parameter.bytes == nil ? nil : buffer.count)
            lengths.append(Int32(clamping: parameter.bytes?.count ?? 0))
            buffer.append(contentsOf: parameter.bytes ?? [])
        }
        buffer.append(0)
        let formats = [Int32](repeating: 1, count: count)
        return buffer.withUnsafeBytes { bytes in
            let characters = bytes.assumingMemoryBound(to: CChar.self)
            let values = offsets.map { offset in
                offset.flatMap { offset in characters.baseAddress.map { $0 + offset } }
            }
            return PQsendQueryPrepared(connection, step.statement.name, Int32(count), values, lengths, formats, 1)
        }
    }
}

// MARK: - Receiving

extension Session {
    private func receive(
        _ expected: [Expectation], of steps: [Step], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Batch {
        var outcomes = [Outcome?](repeating: nil, count: steps.count)
        var warningsBefore = notices.warningCount
        var position = 0
        // Each response is followed by an end mark (no result), the whole batch by the synchronisation point.
        while true {
            guard let result = try nextResult(deadline: deadline) else {
                position += 1
                guard position <= expected.count else { throw lost() }
                continue
            }
            let status = PQresultStatus(result)
            if status == PGRES_PIPELINE_SYNC {
                PQclear(result)
                break
            }
            guard position < expected.count else {
                PQclear(result)
                throw lost()
            }
            switch expected[position] {
            case .planReset:
                defer { PQclear(result) }
                if status != PGRES_COMMAND_OK { throw try error(in: result, statement: nil) }
            case .preparation(let index):
                defer { PQclear(result) }
                guard status != PGRES_COMMAND_OK else { continue }
                prepared[steps[index].statement] = nil
                if status != PGRES_PIPELINE_ABORTED {
                    outcomes[index] = .failed(try error(in: result, statement: steps[index].statement))
                }
            case .execution(let index):
                let outcome = try outcome(of: result, status: status, statement: steps[index].statement)
                outcomes[index] = outcomes[index] ?? outcome
                // Of the next step, libpq has read at most the end of its preparation: any later warning belongs to
                // that step.
                if index == steps.count - 2 { warningsBefore = notices.warningCount }
            }
        }
        return Batch(
            outcomes: outcomes.map { $0 ?? .skipped },
            lastStepWarned: notices.warningCount > warningsBefore,
            warningSQLSTATE: notices.lastWarningSQLSTATE
        )
    }

    /// Converts the result, taking ownership of it.
    func outcome(
        of result: OpaquePointer, status: ExecStatusType, statement: Statement
    ) throws(PostgresError) -> Outcome {
        switch status {
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            return .rows(RowSet(result))
        case PGRES_PIPELINE_ABORTED:
            PQclear(result)
            return .skipped
        case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
            defer { PQclear(result) }
            return .failed(try error(in: result, statement: statement))
        default:
            PQclear(result)
            throw PostgresError(.unavailable, message: "statement must not copy")
        }
    }

    /// Returns the server's error, or throws it if it ends the session.
    private func error(in result: OpaquePointer, statement: Statement?) throws(PostgresError) -> PostgresError {
        let report = ErrorFields(result)
        let error = report.error(statement: statement)
        guard report.sqlstate != nil, !report.endsSession else {
            throw error.message == nil ? lost() : error.with(kind: .unavailable)
        }
        if case .server(let sqlstate) = error.kind, Self.staleStates.contains(sqlstate) {
            isStale = true
        }
        return error
    }

    /// "Cached plan must not change result type", and a prepared statement that was deallocated.
    private static let staleStates: Set<String> = ["0A000", "26000"]

    /// Returns the next result, or `nil` at the end of a statement's results. Sends pending output while it waits.
    func nextResult(deadline: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
        while true {
            let unsent = PQflush(connection)
            if unsent < 0 { throw lost() }
            if PQisBusy(connection) == 0 { return PQgetResult(connection) }
            try waitForSocket(writing: unsent == 1, deadline: deadline)
        }
    }

    private func waitForSocket(writing: Bool, deadline: ContinuousClock.Instant) throws(PostgresError) {
        if deadline.hasPassed { throw .deadlineExceeded }
        // Read even while writing: a server that waits for us to read would stop reading itself.
        let events = writing ? POLLIN | POLLOUT : POLLIN
        var entry = pollfd(fd: PQsocket(connection), events: Int16(events), revents: 0)
        let ready = poll(&entry, 1, deadline.pollMilliseconds)
        if ready < 0, errno != EINTR { throw lost() }
        guard ready > 0, entry.revents != Int16(POLLOUT) else { return }
        try require(PQconsumeInput(connection))
    }
}
