import HTTPTypes
import Hummingbird
import HummingbirdCore
import Synchronization

/// Counts the connections of a listener, and keeps them to a number.
///
/// Who comes beyond it waits in the kernel's line, with what it has sent, and takes none of our memory there.
package final class OpenConnections: Sendable {
    private let limit: Int
    private let count = Atomic(0)

    package init(limit: Int) {
        self.limit = limit
    }

    /// Somebody may be waiting.
    var isFull: Bool { count.load(ordering: .relaxed) >= limit }

    /// Told by the listener's channel.
    struct Delegate: AvailableConnectionsDelegate {
        let connections: OpenConnections

        mutating func connectionOpened() { connections.count.add(1, ordering: .relaxed) }
        mutating func connectionClosed() { connections.count.subtract(1, ordering: .relaxed) }
        func isAcceptingNewConnections() -> Bool { !connections.isFull }
    }
}

/// Asks senders to close their connection behind the answer while all are taken, so that who waits gets its turn.
package struct TurnTaking<Context: RequestContext>: RouterMiddleware {
    private let connections: OpenConnections

    package init(connections: OpenConnections) {
        self.connections = connections
    }

    package func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        if connections.isFull { response.headers[.connection] = "close" }
        return response
    }
}
