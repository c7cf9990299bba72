import Logging

/// A bounded set of connections that callers borrow.
///
/// Callers wait in order of arrival, each until its deadline. While the server is unreachable, calls fail at once
/// instead of piling up, and one attempt at a time tries to connect.
package actor PostgresPool {
    /// Connections by state, for metrics.
    package struct Counts: Sendable, Hashable {
        /// Connections that are borrowed, idle or being opened.
        package var open: Int
        package var idle: Int
        /// Callers that wait for a connection.
        package var waiting: Int
    }

    struct Idle {
        let connection: PostgresConnection
        let since: ContinuousClock.Instant
    }

    private enum Grant {
        case connection(Idle)
        /// Permission to open a connection, which already counts as open.
        case place
    }

    private struct Waiter {
        let id: UInt64
        let continuation: CheckedContinuation<Result<Grant, PostgresError>, Never>
    }

    /// A firewall or a restart may have cut a connection that was idle for this long, so it is checked before use.
    private static let trustedIdleTime = Duration.seconds(30)
    /// Bounds the rollback of a transaction that the borrower left open.
    private static let cleanUpTime = Duration.seconds(1)

    private let configuration: ConnectionConfiguration
    /// The largest number of open connections.
    package nonisolated let limit: Int
    private let logger: Logger
    private let jitter: @Sendable () -> Double
    private let now: @Sendable () -> ContinuousClock.Instant

    private(set) var idle: [Idle] = []
    private var waiters: [Waiter] = []
    private var openCount = 0
    private var connecting = 0
    private(set) var backOff = BackOff()
    private var isClosed = false
    /// Connections idle since before this instant are checked before use, because another one has been lost since.
    private var trustedSince: ContinuousClock.Instant?
    private var lastWaiterID: UInt64 = 0

    /// Creates a pool without opening a connection.
    ///
    /// - Parameters:
    ///   - limit: Maximum number of open connections; at least one.
    ///   - jitter: Returns numbers from 0 to 1, for the back-off.
    ///   - now: The clock that deadlines refer to.
    package init(
        _ configuration: ConnectionConfiguration,
        limit: Int,
        logger: Logger,
        jitter: @Sendable @escaping () -> Double = { Double.random(in: 0..<1) },
        now: @Sendable @escaping () -> ContinuousClock.Instant = { .now }
    ) {
        precondition(limit > 0, "a pool needs at least one connection")
        self.configuration = configuration
        self.limit = limit
        self.logger = logger
        self.jitter = jitter
        self.now = now
    }

    /// The application name that PostgreSQL shows for its connections.
    package nonisolated var name: String { configuration.applicationName }

    package var counts: Counts {
        Counts(open: openCount, idle: idle.count, waiting: waiters.count)
    }

    /// Lends a connection to the body and takes it back when the body returns or throws.
    ///
    /// A transaction that the body leaves open is rolled back. The body must not keep the connection. A connection that
    /// broke while idle is detected only on use: if nothing had been sent over it, the body runs once more with another
    /// connection.
    ///
    /// - Throws: The error of the body; ``PostgresError/Kind/deadlineExceeded`` when no connection became free in time
    ///   or the task was cancelled while it waited; ``PostgresError/Kind/unavailable`` when the server is unreachable,
    ///   at once if that is already known; ``PostgresError/Kind/closed`` after ``close()``.
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
        /// The connection was found broken before anything was sent over it.
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

    /// Runs the body on the connection's thread, so that its work between two statements does not wait for other tasks.
    /// Not isolated to the pool: the pool itself and its callers would otherwise continue on that thread.
    private nonisolated static func run<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws(PostgresError) -> T, on connection: PostgresConnection
    ) async throws(PostgresError) -> T {
        try await withTaskExecutorPreference(connection.thread) { () async throws(PostgresError) -> T in
            try await body(connection)
        }
    }

    /// Runs one statement on any connection; see ``PostgresConnection/query(_:_:deadline:)``.
    package func query(
        _ statement: Statement, _ parameters: [Parameter] = [], deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> RowSet {
        logger.trace("statement", metadata: ["db.pool": "\(name)", "db.statement": "\(statement.name)"])
        return try await withConnection(deadline: deadline) { connection throws(PostgresError) in
            try await connection.query(statement, parameters, deadline: deadline)
        }
    }

    /// Fails all waiting and future calls and closes idle connections. Borrowed connections close when they are
    /// returned.
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

    /// Queues for a connection or a place for one.
    private func wait(deadline: ContinuousClock.Instant) async -> Result<Grant, PostgresError> {
        lastWaiterID += 1
        let id = lastWaiterID
        let timer = Task { [weak self] in
            // A cancelled sleep means that the wait has ended.
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

    private func refuseWaiters(_ error: PostgresError) {
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

extension PostgresPool {
    /// Returns a connection that works as far as can be determined without a round trip.
    func borrow(deadline: ContinuousClock.Instant) async throws(PostgresError) -> PostgresConnection {
        while true {
            switch try await grant(deadline: deadline) {
            case .place:
                return try await open(deadline: deadline)
            case .connection(let entry):
                let trusted =
                    entry.since + Self.trustedIdleTime > now() && trustedSince.map { entry.since >= $0 } ?? true
                if trusted { return entry.connection }
                if await entry.connection.isQuiet() { return entry.connection }
                await entry.connection.close()
                openCount -= 1
                serveWaiters()
            }
        }
    }

    /// Returns a connection to the pool, or closes it and frees its place.
    func giveBack(_ connection: PostgresConnection) async {
        if connection.condition == .inTransaction {
            await connection.cleanUp(deadline: now() + Self.cleanUpTime)
        }
        if connection.condition == .usable, !isClosed {
            idle.append(Idle(connection: connection, since: now()))
        } else {
            if connection.condition == .closed {
                trustedSince = now()
            } else {
                await connection.close()
            }
            openCount -= 1
        }
        serveWaiters()
    }

    private func grant(deadline: ContinuousClock.Instant) async throws(PostgresError) -> Grant {
        if isClosed { throw PostgresError(.closed) }
        guard deadline > now() else { throw .deadlineExceeded }
        // A new caller queues after the waiting ones, even if a connection is free for one of them at this moment.
        serveWaiters()
        if waiters.isEmpty {
            if let grant = nextGrant() { return grant }
            if openCount == 0 || openCount == connecting, backOff.failures > 0 {
                throw PostgresError(.unavailable, message: "waiting before the next attempt to connect")
            }
        }
        return try await wait(deadline: deadline).get()
    }

    /// An idle connection, or a place to open one unless a back-off is running.
    private func nextGrant() -> Grant? {
        if let entry = idle.popLast() { return .connection(entry) }
        guard openCount < limit, !backOff.isWaiting(now: now()) else { return nil }
        // After a failure, only one attempt at a time checks whether the server is back.
        guard backOff.failures == 0 || connecting == 0 else { return nil }
        openCount += 1
        connecting += 1
        return .place
    }

    /// Grants free connections and places to waiting callers, first come, first served.
    private func serveWaiters() {
        guard !isClosed else { return }
        while !waiters.isEmpty, let grant = nextGrant() {
            waiters.removeFirst().continuation.resume(returning: .success(grant))
        }
        if openCount == 0, backOff.failures > 0 {
            refuseWaiters(PostgresError(.unavailable, message: "waiting before the next attempt to connect"))
        }
    }

    private func open(deadline: ContinuousClock.Instant) async throws(PostgresError) -> PostgresConnection {
        let start = now()
        do {
            let connection = try await PostgresConnection.connect(configuration, deadline: deadline)
            connecting -= 1
            if backOff.failures > 0 {
                logger.info("database connection restored")
                backOff.reset()
            }
            serveWaiters()
            return connection
        } catch {
            connecting -= 1
            openCount -= 1
            // Only the first failure is a warning: repeated ones add nothing until the server is back.
            logger.log(
                level: backOff.failures == 0 ? .warning : .debug,
                "database connection failed",
                metadata: [
                    "db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "none")",
                    // libpq's error message, which does not contain the password.
                    "db.problem": "\(error.debugDescription.split(whereSeparator: \.isNewline).joined(separator: " "))",
                ]
            )
            backOff.fail(now: start, jitter: jitter())
            serveWaiters()
            retryForWaiters()
            throw error
        }
    }

    /// Serves waiting callers when the back-off ends: they may have queued for borrowed connections during it.
    private func retryForWaiters() {
        guard !waiters.isEmpty, let retryAt = backOff.retryAt else { return }
        Task { [weak self] in
            try? await Task.sleep(until: retryAt, clock: .continuous)
            await self?.serveWaiters()
        }
    }
}
