import Foundation
import SubledgerClient

/// A network that can be lost.
// Unchecked: the lock guards the variable.
final class Network: Transport, @unchecked Sendable {
    private let lock = NSLock()
    private let transport: URLSessionTransport
    private let activity: Activity
    private var isLost = false

    struct Lost: Error {}

    init(_ transport: URLSessionTransport, _ activity: Activity) {
        self.transport = transport
        self.activity = activity
    }

    func set(isLost: Bool) { lock.withLock { self.isLost = isLost } }

    func send(_ request: ClientRequest) async throws -> ClientResponse {
        activity.begin()
        defer { activity.end() }
        guard !lock.withLock({ isLost }) else { throw Lost() }
        return try await transport.send(request)
    }
}
