import Encoding

/// The clocks of a client: the wall clock for answers, and a steady clock for budgets and pauses.
package struct StoreClock: Sendable {
    package let date: @Sendable () -> Instant
    package let now: @Sendable () -> ContinuousClock.Instant
    /// Returns at the instant, or throws earlier if the task is cancelled.
    package let sleep: @Sendable (ContinuousClock.Instant) async throws -> Void

    package init(
        date: @escaping @Sendable () -> Instant,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        sleep: @escaping @Sendable (ContinuousClock.Instant) async throws -> Void = { instant in
            try await Task.sleep(until: instant, clock: .continuous)
        }
    ) {
        self.date = date
        self.now = now
        self.sleep = sleep
    }
}

extension StoreClock {
    /// Returns what the body returns, or nil after the time. What has not returned by then is cancelled.
    func within<Value: Sendable>(
        _ time: Duration, _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value? {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await body() }
            group.addTask {
                try? await sleep(now() + time)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }
}
