import Synchronization

/// Limits the requests of a kind that are under way at once.
final class OpenRequests: Sendable {
    private let count = Mutex(0)
    private let max: Int

    init(max: Int) {
        self.max = max
    }

    /// Runs the body; nil if as many as may be are under way.
    func admitting<Value>(_ body: () async throws -> Value) async rethrows -> Value? {
        let isAdmitted = count.withLock { count in
            guard count < max else { return false }
            count += 1
            return true
        }
        guard isAdmitted else { return nil }
        defer { count.withLock { $0 -= 1 } }
        return try await body()
    }
}
