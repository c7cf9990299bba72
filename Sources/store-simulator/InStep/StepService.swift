import ServiceLifecycle
import Synchronization

/// Runs the steps of a simulation while the server's services run, and keeps what came of them.
final class StepService<Outcome: Sendable>: Service {
    private let work: @Sendable () async throws -> Outcome
    private let finished = Mutex<Outcome?>(nil)

    init(_ work: @escaping @Sendable () async throws -> Outcome) {
        self.work = work
    }

    /// Nil until the steps have ended.
    var outcome: Outcome? { finished.withLock { $0 } }

    func run() async throws {
        let outcome = try await cancelWhenGracefulShutdown { try await self.work() }
        finished.withLock { $0 = outcome }
    }
}
