import Logging
import Simulation

/// A simulated Google Play that is served on the loopback address of this process.
struct ServedPlay {
    /// Google's hosts are below `/google`.
    let address: String
    private let listening: Task<Void, any Error>

    static func start(_ play: SimulatedPlay) async throws -> ServedPlay {
        let quiet = Logger(label: "bench", factory: { _ in SwiftLogNoOpLogHandler() })
        let (addresses, found) = AsyncStream.makeStream(of: String.self)
        let listener = StoreListener(nil, play: play, logger: quiet) { address in
            found.yield(address)
            found.finish()
        }
        let listening = Task {
            defer { found.finish() }
            try await listener.run()
        }
        for await address in addresses { return ServedPlay(address: address, listening: listening) }
        throw BenchError("the simulated Google Play did not start")
    }

    func stop() { listening.cancel() }
}
