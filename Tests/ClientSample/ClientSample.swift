import Foundation
import Simulation
import SubledgerClient

/// A small app without a screen: reads commands from standard input, one per line, and prints what it knows.
///
/// `ClientSample URL TOKEN ASSERTION USER`: the server, a publishable token, an assertion of the app's backend, and the user's
/// UUID, which is the assertion's `sub` as well. The store is a fake one, whose transactions the simulator signs.
@main
struct ClientSample {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 5, let base = URL(string: arguments[1]), let user = UUID(uuidString: arguments[4])
        else {
            print("expected: ClientSample URL TOKEN ASSERTION USER")
            exit(64)
        }
        let network = Network(URLSessionTransport(base: base, publishableToken: arguments[2]))
        let app = SampleApp(
            network: network, keys: try await SampleApp.keys(of: base), user: user,
            assertion: FixedAssertion(assertion: arguments[3]))
        await app.run()
    }
}

/// An assertion that lasts for the whole run. An app asks its backend for one.
struct FixedAssertion: UserAssertion {
    let assertion: String

    func text(isRenewal: Bool) async throws -> String? { assertion }
}

/// A network that can be lost.
final class Network: Transport, @unchecked Sendable {
    // Unchecked: the lock guards the variable.
    private let lock = NSLock()
    private let transport: URLSessionTransport
    private var isLost = false

    struct Lost: Error {}

    init(_ transport: URLSessionTransport) {
        self.transport = transport
    }

    func set(isLost: Bool) { lock.withLock { self.isLost = isLost } }

    func send(_ request: ClientRequest) async throws -> ClientResponse {
        guard !lock.withLock({ isLost }) else { throw Lost() }
        return try await transport.send(request)
    }
}
