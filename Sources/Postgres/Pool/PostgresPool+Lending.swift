import Logging

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
            backOff.fail(now: now(), jitter: jitter())
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
