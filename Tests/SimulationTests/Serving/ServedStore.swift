import Foundation
import Logging
import Simulation
import TestSupport
import Testing

extension SimulatedStore {
    /// Serves the store over HTTP while the test runs.
    func served(_ test: (HTTPClient) async throws -> Void) async throws {
        try await StoreListener.served(self, nil, test)
    }
}

extension SimulatedPlay {
    /// Serves the store over HTTP while the test runs.
    func served(_ test: (HTTPClient) async throws -> Void) async throws {
        try await StoreListener.served(nil, self, test)
    }
}

extension StoreListener {
    fileprivate static func served(
        _ store: SimulatedStore?, _ play: SimulatedPlay?, _ test: (HTTPClient) async throws -> Void
    ) async throws {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let (addresses, announced) = AsyncStream<String>.makeStream()
        let listener = StoreListener(store, play: play, logger: logger) { announced.yield($0) }
        let server = Task {
            defer { announced.finish() }
            try await listener.run()
        }
        let outcome: Result<Void, any Error>
        do {
            var listening: String?
            for await address in addresses {
                listening = address
                break
            }
            let url = try #require(listening.flatMap { URL(string: $0) })
            try await test(HTTPClient(port: try #require(url.port)))
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        server.cancel()
        _ = await server.result
        try outcome.get()
    }
}
