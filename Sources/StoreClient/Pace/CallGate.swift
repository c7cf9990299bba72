import AppStore
import Synchronization

/// Admits the calls of one app within its ``CallBudget``, in the order of their ranks.
///
/// Calls of strangers use at most half of the calls a minute and of the calls in flight.
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
        /// The share of strangers.
        var strangersMeter: BudgetMeter
        var strangersInFlight = 0
        /// How many questions of strangers with a waiting hand-in were admitted since one without.
        var strangersBeforeLater = 0
        /// By rank, each in order of arrival.
        var queues = [[Waiter]](repeating: [], count: CallRank.allCases.count)
        var lastId: UInt64 = 0
        /// When the next timer fires.
        var wakeAt: ContinuousClock.Instant?

        var waiting: Int { queues.reduce(0) { $0 + $1.count } }

        /// The rank of the next call that may be made when the budget has room.
        func next(at now: ContinuousClock.Instant, strangersMax: Int) -> Int? {
            let mayBeStranger = strangersInFlight < strangersMax && strangersMeter.readyAt <= now
            let next = CallRank.allCases.first { rank in
                !queues[rank.rawValue].isEmpty && (mayBeStranger || !rank.isOfStranger)
            }
            // A question without a waiting hand-in goes on, however many others have one.
            let isLaterDue = next == .stranger && strangersBeforeLater >= Limits.strangersBeforeLaterMax
            if isLaterDue, !queues[CallRank.strangerLater.rawValue].isEmpty { return CallRank.strangerLater.rawValue }
            return next?.rawValue
        }

        /// When the share of strangers has room, if one waits for that.
        func strangersReadyAt(strangersMax: Int) -> ContinuousClock.Instant? {
            let isWaiting = CallRank.allCases.contains { $0.isOfStranger && !queues[$0.rawValue].isEmpty }
            return isWaiting && strangersInFlight < strangersMax ? strangersMeter.readyAt : nil
        }
    }

    private let budget: CallBudget
    private let clock: StoreClock
    private let onWait: @Sendable () -> Void
    private var strangersMax: Int { max(1, budget.concurrency / 2) }
    private let state: Mutex<State>

    /// - Parameter onWait: Called for each call that is not admitted immediately.
    init(_ budget: CallBudget, clock: StoreClock, onWait: @escaping @Sendable () -> Void) {
        self.budget = budget
        self.clock = clock
        self.onWait = onWait
        let half = CallBudget(callsPerMinute: max(1, budget.callsPerMinute / 2), concurrency: 1)
        let now = clock.now()
        state = Mutex(State(meter: BudgetMeter(budget, at: now), strangersMeter: BudgetMeter(half, at: now)))
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
    /// - Parameters:
    ///   - rank: With which it entered.
    ///   - isUnused: True if no request was sent, so that it does not count against the budget.
    func leave(_ rank: CallRank, isUnused: Bool = false) {
        state.withLock { state in
            state.inFlight -= 1
            if isUnused { state.meter.putBack() }
            guard rank.isOfStranger else { return }
            state.strangersInFlight -= 1
            if isUnused { state.strangersMeter.putBack() }
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
                if rank.isOfStranger {
                    let strangers = CallRank.allCases.filter { $0.isOfStranger && $0.rawValue <= rank.rawValue }
                        .reduce(0) { $0 + state.queues[$1.rawValue].count }
                    let wait = state.strangersMeter.wait(for: strangers + 1, at: now)
                    if wait > Limits.strangerWaitMax { return .refused(wait: wait) }
                    // Each of those in flight may take as long as a hand-in waits.
                    if strangers >= Limits.strangersWaitingMax { return .refused(wait: Limits.unavailablePause) }
                }
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
            while state.inFlight < budget.concurrency {
                let next = state.next(at: now, strangersMax: strangersMax)
                guard let next, state.meter.take(at: now) else {
                    let readyAt = next == nil ? state.strangersReadyAt(strangersMax: strangersMax) : state.meter.readyAt
                    guard let readyAt else { break }
                    if let wakeAt = state.wakeAt, wakeAt <= readyAt { return (admitted, nil) }
                    state.wakeAt = readyAt
                    return (admitted, readyAt)
                }
                state.inFlight += 1
                if CallRank.allCases[next].isOfStranger {
                    state.strangersInFlight += 1
                    _ = state.strangersMeter.take(at: now)
                    if next == CallRank.stranger.rawValue { state.strangersBeforeLater += 1 }
                    if next == CallRank.strangerLater.rawValue { state.strangersBeforeLater = 0 }
                }
                admitted.append(state.queues[next].removeFirst())
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
