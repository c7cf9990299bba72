import Synchronization

/// Makes the attempts of a store to deliver what is due on its clock.
final class Courier: Sendable {
    /// The most attempts at a time.
    private let connections: Int
    /// The last call of ``afterEarlierCalls(_:)``.
    private let latest = Mutex<Task<Void, Never>?>(nil)

    init(connections: Int) {
        self.connections = max(1, connections)
    }

    /// Does a work after that of earlier calls, so that their attempts have ended when this returns.
    func afterEarlierCalls(_ work: @escaping @Sendable () async -> Void) async {
        let task = latest.withLock { latest in
            let earlier = latest
            let task = Task {
                await earlier?.value
                await work()
            }
            latest = task
            return task
        }
        await task.value
    }

    /// Makes the attempts, which start in the given order.
    ///
    /// - Returns: Each with its result, in the order of their ends.
    func deliver<Attempt: Sendable, Result: Sendable>(
        _ attempts: [Attempt], _ attempt: @escaping @Sendable (Attempt) async -> Result
    ) async -> [(attempt: Attempt, result: Result)] {
        await withTaskGroup(of: (Attempt, Result).self) { group in
            var results: [(attempt: Attempt, result: Result)] = []
            for (number, item) in attempts.enumerated() {
                if number >= connections, let (attempt, result) = await group.next() {
                    results.append((attempt, result))
                }
                group.addTask { (item, await attempt(item)) }
            }
            for await (attempt, result) in group { results.append((attempt, result)) }
            return results
        }
    }
}
