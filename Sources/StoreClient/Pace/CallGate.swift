import AppStore
import Synchronization

/// Admits the calls of one app within its ``CallBudget``, in the order of their ranks.
final class CallGate: Sendable {
    enum Admission: Sendable, Hashable {
        /// The caller must call ``CallGate/leave(isUnused:)`` exactly once.
        case admitted
        /// The wait would be too long.
        case refused(wait: Duration)
        case cancelled
    }

    private struct Waiter: Sendable {
        let id: UInt64
        let continuation: CheckedContinuation<Admission, Never>
    }

    private struct State: Sendable {
        var meter: BudgetMeter
        var inFlight = 0
        /// By rank, each in order of arrival.
        var queues = [[Waiter]](repeating: [], count: CallRank.allCases.count)
        var lastId: UInt64 = 0
        /// When the next timer fires.
        var wakeAt: ContinuousClock.Instant?

        var waiting: Int { queues.reduce(0) { $0 + $1.count } }
    }

    private let budget: CallBudget
    private let clock: StoreClock
    private let onWait: @Sendable () -> Void
    private let state: Mutex<State>

    /// - Parameter onWait: Called for each call that is not admitted immediately.
    init(_ budget: CallBudget, clock: StoreClock, onWait: @escaping @Sendable () -> Void) {
        self.budget = budget
        self.clock = clock
        self.onWait = onWait
        state = Mutex(State(meter: BudgetMeter(budget, at: clock.now())))
    }

    /// The number of calls that wait.
    var waiting: Int { state.withLock { $0.waiting } }

    /// Waits until the call may be made.
    ///
    /// The first call of a question is refused if the budget suggests a wait of more than ``Limits/budgetWaitMax``, or
    /// if ``Limits/waitingMax`` calls are waiting. Returns immediately when cancelled.
    func enter(_ rank: CallRank) async -> Admission {
        let id = state.withLock { state in
            state.lastId += 1
            return state.lastId
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                enter(rank, Waiter(id: id, continuation: continuation))
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// Ends a call.
    ///
    /// - Parameter isUnused: True if no request was sent, so that it does not count against the budget.
    func leave(isUnused: Bool = false) {
        state.withLock { state in
            state.inFlight -= 1
            if isUnused { state.meter.putBack() }
        }
        serve()
    }

    // MARK: Queues

    private func enter(_ rank: CallRank, _ waiter: Waiter) {
        let now = clock.now()
        let refused = state.withLock { state -> Admission? in
            // Under the lock: a cancellation from here on finds the waiter in its queue.
            if Task.isCancelled { return .cancelled }
            if rank.isFirst {
                let ahead = state.queues[...rank.rawValue].reduce(0) { $0 + $1.count }
                let wait = state.meter.wait(for: ahead + 1, at: now)
                if wait > Limits.budgetWaitMax { return .refused(wait: wait) }
                if state.waiting >= Limits.waitingMax { return .refused(wait: Limits.unavailablePause) }
            }
            state.queues[rank.rawValue].append(waiter)
            return nil
        }
        if let refused {
            waiter.continuation.resume(returning: refused)
        } else if !serve().contains(waiter.id) {
            onWait()
        }
    }

    private func cancel(_ id: UInt64) {
        let waiter = state.withLock { state -> Waiter? in
            for rank in state.queues.indices {
                guard let index = state.queues[rank].firstIndex(where: { $0.id == id }) else { continue }
                return state.queues[rank].remove(at: index)
            }
            return nil
        }
        waiter?.continuation.resume(returning: .cancelled)
    }

    /// Admits as many calls as possible, and sets a timer if the next one waits for the budget.
    ///
    /// - Returns: The ids of the admitted calls.
    @discardableResult
    private func serve() -> [UInt64] {
        let now = clock.now()
        let (admitted, timer) = state.withLock { state -> ([Waiter], ContinuousClock.Instant?) in
            var admitted: [Waiter] = []
            while state.inFlight < budget.concurrency, let rank = state.queues.firstIndex(where: { !$0.isEmpty }) {
                guard state.meter.take(at: now) else {
                    let readyAt = state.meter.readyAt
                    if let wakeAt = state.wakeAt, wakeAt <= readyAt { return (admitted, nil) }
                    state.wakeAt = readyAt
                    return (admitted, readyAt)
                }
                state.inFlight += 1
                admitted.append(state.queues[rank].removeFirst())
            }
            return (admitted, nil)
        }
        for waiter in admitted { waiter.continuation.resume(returning: .admitted) }
        if let timer { wake(at: timer) }
        return admitted.map(\.id)
    }

    private func wake(at instant: ContinuousClock.Instant) {
        Task {
            // Nothing cancels this task.
            try? await clock.sleep(instant)
            state.withLock { state in
                if state.wakeAt == instant { state.wakeAt = nil }
            }
            serve()
        }
    }
}
