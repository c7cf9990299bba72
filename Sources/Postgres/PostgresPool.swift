import Logging

/// A bounded set of connections that callers borrow.
///
/// Callers wait in the order in which they came, each until its deadline. While the server cannot be reached, callers
/// are refused at once instead of piling up, and one of them at a time tries to connect.
package actor PostgresPool {
    /// Connections by what they do, for metrics.
    package struct Counts: Sendable, Hashable {
        /// Borrowed, idle and being opened.
        package var open: Int
        package var idle: Int
        /// Callers without a connection.
        package var waiting: Int
    }

    struct Idle {
        let connection: PostgresConnection
        let since: ContinuousClock.Instant
    }

    enum Grant {
        case connection(Idle)
        /// A place to open a connection in, already counted as open.
        case place
    }

    struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Result<Grant, PostgresError>, Never>
    }

    /// An idle connection this old may have been cut by a firewall or a restart, so it is looked at before use.
    static let trustedIdleTime = Duration.seconds(30)
    /// Bounds the rollback of a transaction that a borrower left open.
    static let cleanUpTime = Duration.seconds(1)

    let configuration: ConnectionConfiguration
    let limit: Int
    let logger: Logger
    let jitter: @Sendable () -> Double
    let now: @Sendable () -> ContinuousClock.Instant

    var idle: [Idle] = []
    var waiters: [Waiter] = []
    var openCount = 0
    var connecting = 0
    var backOff = BackOff()
    var isClosed = false
    /// Connections idle since before this are looked at before use: another one has been lost since.
    var trustedSince: ContinuousClock.Instant?
    private var lastWaiterID: UInt64 = 0

    /// Opens nothing yet.
    ///
    /// - Parameters:
    ///   - limit: How many connections there may be at a time; at least one.
    ///   - jitter: Numbers from 0 to 1, for the back-off.
    ///   - now: The clock, against which deadlines are given too.
    package init(
        _ configuration: ConnectionConfiguration,
        limit: Int,
        logger: Logger,
        jitter: @Sendable @escaping () -> Double = { Double.random(in: 0..<1) },
        now: @Sendable @escaping () -> ContinuousClock.Instant = { .now }
    ) {
        precondition(limit > 0, "a pool of no connections")
        self.configuration = configuration
        self.limit = limit
        self.logger = logger
        self.jitter = jitter
        self.now = now
    }

    package var counts: Counts {
        Counts(open: openCount, idle: idle.count, waiting: waiters.count)
    }

    /// Lends a connection to the body and takes it back, whether the body returns or throws.
    ///
    /// A transaction that the body leaves open is rolled back. The body must not keep the connection. A connection that
    /// broke while it was idle shows that only when it is used: if nothing had been sent over it, the body is run once
    /// more, with another one.
    ///
    /// - Throws: What the body throws; ``PostgresError/Kind/deadlineExceeded`` when no connection was free in time, or
    ///   the task was cancelled while it waited; ``PostgresError/Kind/unavailable`` when the server cannot be reached,
    ///   at once while that is known; ``PostgresError/Kind/closed`` after ``close()``.
    package func withConnection<T: Sendable>(
        deadline: ContinuousClock.Instant,
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let first = try await lend(deadline: deadline, body)
        guard first.wasBroken else { return try first.result.get() }
        return try await lend(deadline: deadline, body).result.get()
    }

    private struct Lending<T: Sendable>: Sendable {
        let result: Result<T, PostgresError>
        /// The connection turned out to be broken before anything was sent over it.
        let wasBroken: Bool
    }

    private func lend<T: Sendable>(
        deadline: ContinuousClock.Instant,
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> T
    ) async throws(PostgresError) -> Lending<T> {
        let connection = try await borrow(deadline: deadline)
        connection.beginLending()
        do {
            let value = try await Self.run(body, on: connection)
            await giveBack(connection)
            return Lending(result: .success(value), wasBroken: false)
        } catch {
            await giveBack(connection)
            return Lending(result: .failure(error), wasBroken: connection.brokeUnused)
        }
    }

    /// On the connection's own thread, what the body does between two statements does not wait for others' work. Outside
    /// of the pool, which would go on there itself, and its callers with it.
    private nonisolated static func run<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> T, on connection: PostgresConnection
    ) async throws(PostgresError) -> T {
        try await withTaskExecutorPreference(connection.thread) { () async throws(PostgresError) -> T in
            try await body(connection)
        }
    }

    /// Runs one statement on some connection, as ``PostgresConnection/query(_:_:deadline:)`` does.
    package func query(
        _ statement: Statement, _ parameters: [Parameter] = [], deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> RowSet {
        try await withConnection(deadline: deadline) { connection throws(PostgresError) in
            try await connection.query(statement, parameters, deadline: deadline)
        }
    }

    /// Refuses all who wait and all who come, and closes what is idle. Borrowed connections close when they come back.
    package func close() async {
        isClosed = true
        let connections = idle
        idle = []
        openCount -= connections.count
        refuseWaiters(PostgresError(.closed))
        for entry in connections {
            await entry.connection.close()
        }
    }

    /// Waits in line for a connection or a place for one.
    func wait(deadline: ContinuousClock.Instant) async -> Result<Grant, PostgresError> {
        lastWaiterID += 1
        let id = lastWaiterID
        let timer = Task { [weak self] in
            // A cancelled sleep means that the wait is over, one way or the other.
            guard (try? await Task.sleep(until: deadline, clock: .continuous)) != nil else { return }
            await self?.refuse(waiter: id)
        }
        defer { timer.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled {
                    continuation.resume(returning: .failure(.deadlineExceeded))
                } else {
                    waiters.append(Waiter(id: id, continuation: continuation))
                }
            }
        } onCancel: {
            Task { await self.refuse(waiter: id) }
        }
    }

    func refuseWaiters(_ error: PostgresError) {
        let refused = waiters
        waiters = []
        for waiter in refused {
            waiter.continuation.resume(returning: .failure(error))
        }
    }

    private func refuse(waiter id: UInt64) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(returning: .failure(.deadlineExceeded))
    }
}
