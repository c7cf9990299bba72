import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Serves a simulated store over HTTP on the loopback address.
package struct StoreListener: Service {
    private let application: Application<RouterResponder<StoreContext>>
    private let port: Int

    /// - Parameters:
    ///   - port: 0 for any free one.
    ///   - onListening: Called with the base URLs' common address, such as `http://127.0.0.1:8090`, once connections are
    ///     accepted. The hosts are `/production` and `/sandbox` below it.
    package init(
        _ store: SimulatedStore, port: Int = 0, logger: Logger,
        onListening: @escaping @Sendable (_ address: String) async -> Void
    ) {
        self.port = port
        application = Application(
            router: StoreRoutes(store: store).router(),
            configuration: .init(address: .hostname(Self.host, port: port)),
            onServerRunning: { channel in
                await onListening("http://\(Self.host):\(channel.localAddress?.port ?? port)")
            }, logger: logger)
    }

    private static let host = "127.0.0.1"

    /// Ends on graceful shutdown and on cancellation.
    package func run() async throws {
        do {
            try await application.run()
        } catch is CancellationError {
            return
        } catch let error as IOError {
            throw StoreListenError(port: port, problem: error.description)
        }
    }
}

package struct StoreListenError: Error, CustomStringConvertible {
    let port: Int
    let problem: String

    package var description: String { "cannot serve the store on port \(port): \(problem)" }
}
