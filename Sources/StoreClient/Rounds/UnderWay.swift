import EventLog
import Logging
import Synchronization

/// The questions that are under way, by the app or stream that they are about. Each has a task of its own, so that one that
/// takes long holds up no other, whichever app that is about.
final class UnderWay<Part: Hashable & Sendable>: Sendable {
    /// Starts a task. Whoever runs the round waits for it, and cancels it.
    typealias Start = (@escaping @Sendable () async -> Void) -> Void

    private struct State {
        /// What is asked about, by part.
        var questions: [Part: Set<String>] = [:]
        var ended: Set<Part> = []
        /// The number of questions that have ended.
        var ends = 0
    }

    private let state = Mutex(State())
    private let end = WakeUp()

    /// Those about which something is asked.
    var parts: Set<Part> { Set(state.withLock { $0.questions }.keys) }

    func count(of part: Part) -> Int { state.withLock { $0.questions[part]?.count ?? 0 } }

    /// Starts a question, unless one about the subject is under way.
    ///
    /// - Parameter question: Returns whether more may be due of the part.
    func ask(_ subject: String, of part: Part, _ start: Start, _ question: @escaping @Sendable () async -> Bool) {
        guard state.withLock({ $0.questions[part, default: []].insert(subject).inserted }) else { return }
        start {
            let isMoreDue = await question()
            self.state.withLock { state in
                state.questions[part]?.remove(subject)
                if state.questions[part]?.isEmpty == true { state.questions[part] = nil }
                if isMoreDue { state.ended.insert(part) }
                state.ends += 1
            }
            self.end.wake()
        }
    }

    /// The parts of which more may be due since a question ended. Empty in the next call.
    private func takeEnded() -> Set<Part> {
        state.withLock { state in
            defer { state.ended = [] }
            return state.ended
        }
    }

    // MARK: Rounds

    /// A look at what is due.
    struct Look {
        /// Whether all parts are to be looked at: questions become due by themselves, too.
        let isOfAll: Bool
        /// The parts of which more may be due since a question ended.
        let ended: Set<Part>
    }

    /// Looks at all parts, and then at those of which more may be due, until nothing is under way any more or the task is
    /// cancelled. Only one task may look.
    func once(_ look: (Look, Start) async throws -> Void) async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var isFirst = true
            while !Task.isCancelled {
                let ends = state.withLock { $0.ends }
                try await look(Look(isOfAll: isFirst, ended: takeEnded())) { group.addTask(operation: $0) }
                isFirst = false
                // The end of a question makes room for others.
                if state.withLock({ $0.questions.isEmpty && $0.ends == ends }) { break }
                await end.wait()
            }
        }
    }

    /// Looks again and again until the task is cancelled: when a question has ended, when something is heard of, and when
    /// something becomes due by itself. Only one task may look.
    ///
    /// - Parameters:
    ///   - problem: The log line about looks that fail, once until one succeeds. Errors must contain nothing of what is asked
    ///     about.
    ///   - pause: Between two looks, whatever happens meanwhile: much that happens at a time is seen together.
    ///   - wait: Returns when something is heard of, or at the instant.
    ///   - look: Returns how long until something becomes due by itself; nil if nothing has changed about that.
    func repeating(
        _ problem: Logger.Message, pause: Duration, _ clock: StoreClock, _ logger: Logger,
        hearing events: EventWatch? = nil, orLookingEvery interval: Duration,
        _ look: (Look, Start) async throws -> Duration?
    ) async {
        await withDiscardingTaskGroup { group in
            var isWorking = true
            var next = clock.now()
            while !Task.isCancelled {
                let mark = await events?.mark()
                do {
                    let isOfAll = next <= clock.now()
                    let wait = try await look(Look(isOfAll: isOfAll, ended: takeEnded())) {
                        group.addTask(operation: $0)
                    }
                    if let wait { next = clock.now() + wait }
                    isWorking = true
                } catch {
                    if isWorking, !Task.isCancelled { logger.warning(problem, metadata: ["error": "\(error)"]) }
                    isWorking = false
                    next = clock.now() + Limits.roundPauseMin
                }
                try? await clock.sleep(min(next, clock.now() + pause))
                await untilEnd { [next] in
                    if let events, let mark {
                        await events.wait(mark, next)
                    } else {
                        try? await clock.sleep(min(next, clock.now() + interval))
                    }
                }
            }
        }
    }

    /// Returns when a question has ended, or when the other returns, which is cancelled then.
    private func untilEnd(or other: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.end.wait() }
            group.addTask { await other() }
            await group.next()
            group.cancelAll()
        }
    }
}
