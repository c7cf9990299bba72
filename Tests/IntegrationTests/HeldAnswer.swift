import Foundation
import Hummingbird
import Logging
import Synchronization
import TestSupport

/// Stands before a store: passes a change on, and keeps the answer back.
final class HeldAnswer: Sendable {
    private struct State: Sendable {
        var port = 0
        var isHolding = false
        var isOver = false
    }

    private let state = Mutex(State())
    private let store: HTTPClient

    private init(_ store: HTTPClient) {
        self.store = store
    }

    /// The base URL.
    var address: String { "http://127.0.0.1:\(state.withLock { $0.port })" }

    /// Whether the store has made a change whose answer is kept back.
    var isHolding: Bool { state.withLock { $0.isHolding } }

    static func serve(before store: HTTPClient, _ test: (HeldAnswer) async throws -> Void) async throws {
        let held = HeldAnswer(store)
        let (listening, isListening) = AsyncStream<Void>.makeStream()
        let server = Task { try await held.run { isListening.yield() } }
        let outcome: Result<Void, any Error>
        do {
            for await _ in listening { break }
            try await test(held)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        held.state.withLock { $0.isOver = true }
        server.cancel()
        _ = await server.result
        try outcome.get()
    }

    /// - Parameter onListening: Called once connections are accepted.
    private func run(onListening: @escaping @Sendable () -> Void) async throws {
        let router = Router()
        router.put("**") { [self] request, _ in
            let body = try await request.body.collect(upTo: 1 << 20)
            var headers: [String: String] = [:]
            if let token = request.headers[.authorization] { headers["Authorization"] = token }
            let answer = try await store.send(
                "PUT", request.uri.string, headers: headers, body: Array(buffer: body))
            state.withLock { $0.isHolding = answer.status == 200 }
            _ = try await eventually("the test is over") { self.state.withLock { $0.isOver } ? true : nil }
            return Response(status: .serviceUnavailable)
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { [self] channel in
                state.withLock { $0.port = channel.localAddress?.port ?? 0 }
                onListening()
            }, logger: logger)
        try await application.run()
    }
}
