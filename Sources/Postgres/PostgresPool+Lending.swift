import Logging

extension PostgresPool {
    /// Gets a connection that works as far as can be told without asking the server.
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

    /// Takes a connection back, or closes it and passes its place on.
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
        // Who comes now stands behind those who wait, even if something is free for one of them at this moment.
        serveWaiters()
        if waiters.isEmpty {
            if let grant = nextGrant() { return grant }
            if openCount == 0 || openCount == connecting, backOff.failures > 0 {
                throw PostgresError(.unavailable, message: "waiting before the next attempt to connect")
            }
        }
        return try await wait(deadline: deadline).get()
    }

    /// A free connection, or a place to open one in unless it is too early to try.
    private func nextGrant() -> Grant? {
        if let entry = idle.popLast() { return .connection(entry) }
        guard openCount < limit, !backOff.isWaiting(now: now()) else { return nil }
        // After a failure one attempt at a time finds out whether the server is back.
        guard backOff.failures == 0 || connecting == 0 else { return nil }
        openCount += 1
        connecting += 1
        return .place
    }

    /// Gives what is free to those who wait, first come, first served.
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
            // Only the first failure is a line of its own: the rest says nothing new until the server is back.
            logger.log(
                level: backOff.failures == 0 ? .warning : .debug,
                "database connection failed",
                metadata: [
                    "db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "none")",
                    // libpq's own words on why it cannot connect; it leaves out the password.
                    "db.problem": "\(error.debugDescription.split(whereSeparator: \.isNewline).joined(separator: " "))",
                ]
            )
            backOff.fail(now: now(), jitter: jitter())
            serveWaiters()
            retryForWaiters()
            throw error
        }
    }

    /// Callers may wait for borrowed connections during a back-off; its end is a chance for them too.
    private func retryForWaiters() {
        guard !waiters.isEmpty, let retryAt = backOff.retryAt else { return }
        Task { [weak self] in
            try? await Task.sleep(until: retryAt, clock: .continuous)
            await self?.serveWaiters()
        }
    }
}
