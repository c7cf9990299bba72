import Synchronization

/// Delays a link statement until the previous one of the same story is answered. Servers order statements by
/// arrival.
final class StatementOrder: Sendable {
    private struct State {
        var done: Set<Int> = []
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    }

    private let state = Mutex(State())

    /// Returns once the statement at the position is answered. At most one task may wait for a position.
    func wait(for position: Int) async {
        await withCheckedContinuation { continuation in
            let isDone = state.withLock { state in
                if state.done.contains(position) { return true }
                state.waiting[position] = continuation
                return false
            }
            if isDone { continuation.resume() }
        }
    }

    func finish(_ position: Int) {
        let waiting = state.withLock { state in
            state.done.insert(position)
            return state.waiting.removeValue(forKey: position)
        }
        waiting?.resume()
    }
}
