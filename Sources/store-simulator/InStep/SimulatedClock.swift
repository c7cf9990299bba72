import Encoding
import Simulation
import StoreClient
import Synchronization

/// The clock of the server in a run in step. It stands still until it is set.
final class SimulatedClock: Sendable {
    private let instant = Mutex(Simulation.start)
    private let started = ContinuousClock.now

    var now: Instant { instant.withLock { $0 } }

    func set(_ now: Instant) { instant.withLock { $0 = now } }

    /// Also the pauses after failures and refusals last as long as the simulated time says, except within a question: there
    /// they take no time.
    var storeClock: StoreClock {
        StoreClock(
            date: { self.now },
            now: { self.started + .milliseconds(self.now.milliseconds - Simulation.start.milliseconds) },
            sleep: { _ in
                try Task.checkCancellation()
                await Task.yield()
            })
    }
}
