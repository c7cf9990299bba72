import Synchronization

/// The questions that are under way, by the app that they are about. Each has a task of its own, so that one that takes long
/// holds up no other, whichever app that is about.
final class UnderWay: Sendable {
    /// Starts a task. Whoever runs the round waits for it, and cancels it.
    typealias Start = (@escaping @Sendable () async -> Void) -> Void

    private struct State {
        /// What is asked about, by app.
        var questions: [String: Set<String>] = [:]
        var ended: Set<String> = []
    }

    private let state = Mutex(State())
    private let end = WakeUp()

    var isEmpty: Bool { state.withLock { $0.questions.isEmpty } }

    /// What is asked about, by app.
    var questions: [String: Set<String>] { state.withLock { $0.questions } }

    func count(of app: String) -> Int { state.withLock { $0.questions[app]?.count ?? 0 } }

    /// Starts a question, unless one about the subject is under way.
    func ask(_ subject: String, of app: String, _ start: Start, _ question: @escaping @Sendable () async -> Void) {
        guard state.withLock({ $0.questions[app, default: []].insert(subject).inserted }) else { return }
        start {
            await question()
            self.state.withLock { state in
                state.questions[app]?.remove(subject)
                if state.questions[app]?.isEmpty == true { state.questions[app] = nil }
                state.ended.insert(app)
            }
            self.end.wake()
        }
    }

    /// The apps about which a question has ended since the last call.
    func takeEnded() -> Set<String> {
        state.withLock { state in
            defer { state.ended = [] }
            return state.ended
        }
    }

    /// Returns when a question has ended, or when the other returns, which is cancelled then. Only one task may wait.
    func end(or other: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.end.wait() }
            group.addTask { await other() }
            await group.next()
            group.cancelAll()
        }
    }

    /// Returns when a question has ended. Only one task may wait.
    func nextEnd() async { await end.wait() }
}
