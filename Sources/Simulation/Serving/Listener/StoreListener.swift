import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// Serves simulated stores over HTTP on the loopback address.
package struct StoreListener: Service {
    private let application: Application<RouterResponder<StoreContext>>
    private let port: Int

    /// - Parameters:
    ///   - port: 0 for any free one.
    ///   - onListening: Called with the base URLs' common address, such as `http://127.0.0.1:8090`, once connections are
    ///     accepted. Apple's hosts are `/production` and `/sandbox` below it, Google's are below `/google`.
    package init(
        _ store: SimulatedStore?, play: SimulatedPlay? = nil, port: Int = 0, logger: Logger,
        onListening: @escaping @Sendable (_ address: String) async -> Void
    ) {
        self.port = port
        let router = Router(context: StoreContext.self)
        ClockRoutes(store: store, play: play).add(to: router)
        if let store { StoreRoutes(store: store).add(to: router) }
        if let play { PlayRoutes(play: play, slowness: store?.slowness ?? Self.slowness).add(to: router) }
        application = Application(
            router: router,
            configuration: .init(address: .hostname(Self.host, port: port)),
            onServerRunning: { channel in
                await onListening("http://\(Self.host):\(channel.localAddress?.port ?? port)")
            }, logger: logger)
    }

    private static let host = "127.0.0.1"
    private static let slowness = Duration.seconds(60)

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
