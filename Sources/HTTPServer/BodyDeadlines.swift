import ServiceLifecycle
import Synchronization

/// Watches the time of all bodies that are on their way.
///
/// A timer for each costs a fifth of all that HTTP costs, and hardly any ever fires. So one look at all of them, four
/// times a second, does for all.
final class BodyDeadlines: Sendable {
    private static let lookEvery = Duration.milliseconds(250)

    private struct State {
        var waiting: [ObjectIdentifier: Wait] = [:]
        var isLooking = false
    }

    private let state = Mutex(State())

    /// Returns why the time is over: at the limit, or sooner when the server ends. Later than that by a look at most.
    ///
    /// - Throws: `CancellationError`, when nobody waits for it any more.
    func end() async throws -> BodyReader.Failure {
        let wait = Wait(due: .now + Limits.bodyWaitMax)
        add(wait)
        defer { state.withLock { $0.waiting[ObjectIdentifier(wait)] = nil } }
        return try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await withCheckedThrowingContinuation { wait.begin($0) }
            } onGracefulShutdown: {
                wait.shorten(to: .now + Limits.bodyWaitAtEndMax)
            }
        } onCancel: {
            wait.end(.failure(CancellationError()))
        }
    }

    private func add(_ wait: Wait) {
        let mustBegin = state.withLock { state in
            state.waiting[ObjectIdentifier(wait)] = wait
            defer { state.isLooking = true }
            return !state.isLooking
        }
        if mustBegin { Task { await look() } }
    }

    /// Ends when nobody waits.
    private func look() async {
        while true {
            try? await Task.sleep(for: Self.lookEvery)
            let waiting = state.withLock { state in
                if state.waiting.isEmpty { state.isLooking = false }
                return Array(state.waiting.values)
            }
            if waiting.isEmpty { return }
            let now = ContinuousClock.now
            for wait in waiting { wait.endIfDue(now) }
        }
    }

    /// The time of one body.
    private final class Wait: Sendable {
        private struct State {
            var due: ContinuousClock.Instant
            var failure = BodyReader.Failure.tooSlow
            var continuation: CheckedContinuation<BodyReader.Failure, any Error>?
            var outcome: Result<BodyReader.Failure, any Error>?
        }

        private let state: Mutex<State>

        init(due: ContinuousClock.Instant) {
            state = Mutex(State(due: due))
        }

        func begin(_ continuation: CheckedContinuation<BodyReader.Failure, any Error>) {
            let outcome = state.withLock { state in
                if state.outcome == nil { state.continuation = continuation }
                return state.outcome
            }
            if let outcome { continuation.resume(with: outcome) }
        }

        func shorten(to due: ContinuousClock.Instant) {
            state.withLock { state in
                state.due = min(state.due, due)
                state.failure = .ending
            }
        }

        func endIfDue(_ now: ContinuousClock.Instant) {
            let failure = state.withLock { $0.due <= now ? $0.failure : nil }
            if let failure { end(.success(failure)) }
        }

        /// Only the first end counts.
        func end(_ outcome: Result<BodyReader.Failure, any Error>) {
            let continuation = state.withLock { state in
                if state.outcome == nil { state.outcome = outcome }
                defer { state.continuation = nil }
                return state.continuation
            }
            continuation?.resume(with: outcome)
        }
    }
}
