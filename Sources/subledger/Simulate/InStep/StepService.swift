import ServiceLifecycle
import Synchronization

/// Runs the steps of a simulation while the server's services run, and keeps what came of them.
final class StepService: Service {
    private let work: @Sendable () async throws -> SimulationInStep.Outcome
    private let finished = Mutex<SimulationInStep.Outcome?>(nil)

    init(_ work: @escaping @Sendable () async throws -> SimulationInStep.Outcome) {
        self.work = work
    }

    /// Nil until the steps have ended.
    var outcome: SimulationInStep.Outcome? { finished.withLock { $0 } }

    func run() async throws {
        let outcome = try await cancelWhenGracefulShutdown { try await self.work() }
        finished.withLock { $0 = outcome }
    }
}
