import Foundation
import Hummingbird
import Logging
import Synchronization
import TestSupport

/// An HTTP server in place of verifyReceipt that answers nothing until it is told what.
final class HeldStore: Sendable {
    private struct State: Sendable {
        var port = 0
        var requests = 0
        var answer: String?
    }

    private let state = Mutex(State())

    /// The number of requests so far, answered or not.
    var requests: Int { state.withLock { $0.requests } }

    /// Settings of a server that asks this store.
    var environment: [String: String] {
        let url = "http://127.0.0.1:\(state.withLock { $0.port })/verifyReceipt"
        return ["SUBLEDGER_VERIFY_RECEIPT_URL": url, "SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL": url]
    }

    /// Answers all requests that wait, and all later ones.
    func release(_ answer: String) {
        state.withLock { $0.answer = answer }
    }

    /// Runs the test with a store. Requests that still wait afterwards get an empty object.
    static func serve(_ test: (HeldStore) async throws -> Void) async throws {
        let store = HeldStore()
        let (listening, isListening) = AsyncStream<Void>.makeStream()
        let server = Task { try await store.run { isListening.yield() } }
        let outcome: Result<Void, any Error>
        do {
            for await _ in listening { break }
            try await test(store)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        store.release("{}")
        server.cancel()
        _ = await server.result
        try outcome.get()
    }

    /// Runs the test for each kind of fault, all beside each other, with a data folder and a store of its own.
    static func serveEach<Fault: CaseIterable & Sendable>(
        _ test: @escaping @Sendable (Fault, DataFolder, HeldStore) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for fault in Fault.allCases {
                group.addTask {
                    try await DataFolder.with { folder in
                        try await serve { store in try await test(fault, folder, store) }
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// - Parameter onListening: Called once connections are accepted.
    private func run(onListening: @escaping @Sendable () -> Void) async throws {
        let router = Router()
        router.post("**") { [self] request, _ in
            _ = try await request.body.collect(upTo: 1 << 20)
            state.withLock { $0.requests += 1 }
            let answer = try await eventually("the answer is released") { self.state.withLock { $0.answer } }
            return Response(status: .ok, body: .init(byteBuffer: ByteBuffer(string: answer)))
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
