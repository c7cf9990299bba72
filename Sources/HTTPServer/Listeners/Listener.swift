import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle

/// The address of a listener.
package struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    package let host: String
    /// 0 for any free port.
    package let port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// An HTTP server on one address. On graceful shutdown it ends once the requests in flight are answered.
package struct Listener: Service {
    private let application: Application<RouterResponder<BasicRequestContext>>
    private let address: ListenAddress

    package init(
        _ router: Router<BasicRequestContext>, address: ListenAddress, identity: TLSIdentity?,
        connections: ConnectionTable, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) {
        self.address = address
        // The framework logs start, stop and every broken connection, which an operator does not need.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .warning)
        application = Application(
            router: router,
            server: .limited(identity: identity, connections: connections),
            configuration: .init(
                address: .hostname(address.host, port: address.port), backlog: Limits.connectionsWaitingMax,
                availableConnectionsDelegate: connections.gate),
            onServerRunning: { channel in
                connections.gate.setListener(channel)
                await onListening(channel.localAddress?.port ?? address.port)
            },
            logger: quiet)
    }

    package func run() async throws {
        do {
            try await application.run()
        } catch is CancellationError {
            return
        } catch let error as IOError {
            throw ListenError(address: address, problem: error.description)
        } catch is SocketAddressError.UnknownHost {
            throw ListenError(address: address, problem: "unknown host name")
        }
    }
}

package struct ListenError: Error, CustomStringConvertible {
    let address: ListenAddress
    let problem: String

    package var description: String { "cannot listen on \(address): \(problem)" }
}
