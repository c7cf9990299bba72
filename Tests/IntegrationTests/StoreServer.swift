import Logging
import Simulation
import StoreClient
import TestSupport

/// A simulated store that is asked over HTTP.
enum StoreServer {
    /// Runs the test with the addresses of the store and with connections to it, and closes them afterwards.
    static func serve(
        _ store: SimulatedStore, _ test: (ServerAPIAddresses, HTTPStoreTransport) async throws -> Void
    ) async throws {
        var quiet = Logger(label: "store")
        quiet.logLevel = .critical
        let (addresses, found) = AsyncStream<String>.makeStream()
        let listener = StoreListener(store, logger: quiet) { found.yield($0) }
        let listening = Task {
            try? await listener.run()
            found.finish()
        }
        let transport = HTTPStoreTransport()
        let outcome: Result<Void, any Error>
        do {
            guard let address = await addresses.first(where: { _ in true }) else { throw NotServed() }
            try await test(
                ServerAPIAddresses(production: "\(address)/production", sandbox: "\(address)/sandbox"), transport)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await transport.shutDown()
        listening.cancel()
        await listening.value
        try outcome.get()
    }

    private struct NotServed: Error {}
}
