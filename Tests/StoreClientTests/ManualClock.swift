import Encoding
import Synchronization

@testable import StoreClient

/// A clock that a test moves, or one that jumps to the end of each sleep.
final class ManualClock: Sendable {
    private struct Sleeper: Sendable {
        let until: ContinuousClock.Instant
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State: Sendable {
        var now: ContinuousClock.Instant
        var lastId: UInt64 = 0
        var sleepers: [UInt64: Sleeper] = [:]
        var slept: [Duration] = []
    }

    static let date = Instant(iso8601: "2026-11-01T00:00:00.000Z")!

    private let jumps: Bool
    private let start: ContinuousClock.Instant
    private let state: Mutex<State>

    /// - Parameter jumps: True if sleeps end at once, and the clock shows the time at which they were to end.
    init(jumps: Bool = false) {
        let start = ContinuousClock.now
        self.jumps = jumps
        self.start = start
        state = Mutex(State(now: start))
    }

    var clock: StoreClock {
        StoreClock(
            date: { Self.date.advanced(by: self.now - self.start) }, now: { self.now },
            sleep: { instant in try await self.sleep(until: instant) })
    }

    var now: ContinuousClock.Instant { state.withLock { $0.now } }

    /// The number of tasks that sleep.
    var sleeping: Int { state.withLock { $0.sleepers.count } }

    /// The sleeps of a clock that jumps.
    var slept: [Duration] { state.withLock { $0.slept } }

    func advance(by duration: Duration) {
        let due = state.withLock { state -> [Sleeper] in
            state.now = state.now + duration
            let now = state.now
            let due = state.sleepers.filter { $0.value.until <= now }
            for id in due.keys { state.sleepers[id] = nil }
            return Array(due.values)
        }
        for sleeper in due { sleeper.continuation.resume() }
    }

    private func sleep(until instant: ContinuousClock.Instant) async throws {
        try Task.checkCancellation()
        if jumps {
            state.withLock { state in
                state.slept.append(instant - state.now)
                state.now = max(state.now, instant)
            }
            await Task.yield()
            return
        }
        let id = state.withLock { state in
            state.lastId += 1
            return state.lastId
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state -> Bool in
                    if Task.isCancelled || instant <= state.now { return true }
                    state.sleepers[id] = Sleeper(until: instant, continuation: continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { $0.sleepers.removeValue(forKey: id) }
            sleeper?.continuation.resume()
        }
        try Task.checkCancellation()
    }
}
