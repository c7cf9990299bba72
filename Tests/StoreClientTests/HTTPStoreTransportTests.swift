import Hummingbird
import Logging
import Synchronization
import TestSupport
import Testing

@testable import StoreClient

@Suite("The HTTP client for stores")
struct HTTPStoreTransportTests {
    private static let limit = Duration.seconds(60)

    @Test("the request is posted as JSON, and the response is returned whatever its type")
    func good() async throws {
        try await withStore { store, transport in
            let response = try await transport.send(
                StoreRequest("POST", store.address("good"), body: Array("{}".utf8)), timeout: Self.limit,
                bytesMax: 1 << 20)

            #expect(response == StoreResponse(status: 200, body: HTTPStore.answer))
            #expect(store.requests == [.init(body: "{}", contentType: "application/json")])
        }
    }

    @Test(
        "a response of the maximum size is accepted and one byte more is not, with and without Content-Length",
        arguments: ["good", "parts"])
    func size(path: String) async throws {
        try await withStore { store, transport in
            let size = HTTPStore.answer.count

            let whole = try await transport.send(
                StoreRequest("POST", store.address(path), body: [1]), timeout: Self.limit, bytesMax: size)
            #expect(whole.body == HTTPStore.answer)
            await #expect(throws: TransportFailure.tooLong) {
                try await transport.send(
                    StoreRequest("POST", store.address(path), body: [1]), timeout: Self.limit, bytesMax: size - 1)
            }
        }
    }

    @Test("a redirect is not followed, and other statuses are returned", arguments: [302, 307, 404, 429, 503])
    func status(code: Int) async throws {
        try await withStore { store, transport in
            let response = try await transport.send(
                StoreRequest("POST", store.address("status/\(code)"), body: [1]), timeout: Self.limit, bytesMax: 1 << 20
            )

            #expect(response.status == code)
            #expect(response.retryAfter == "7" && response.secondsToWait == .seconds(7))
            #expect(store.requests.count == 1)
        }
    }

    @Test("a store that hangs is given up at the time limit", arguments: ["hang", "stall"])
    func timeout(path: String) async throws {
        try await withStore { store, transport in
            await #expect(throws: TransportFailure.timeout) {
                try await transport.send(
                    StoreRequest("POST", store.address(path), body: [1]), timeout: .milliseconds(200), bytesMax: 1 << 20
                )
            }
        }
    }

    @Test("a request can be cancelled, before and during the response", arguments: ["hang", "stall"])
    func cancelled(path: String) async throws {
        try await withStore { store, transport in
            let question = Task {
                try await transport.send(
                    StoreRequest("POST", store.address(path), body: [1]), timeout: Self.limit, bytesMax: 1 << 20)
            }
            _ = try await eventually("the request arrives") { store.requests.isEmpty ? nil : true }

            question.cancel()

            await #expect(throws: TransportFailure.cancelled) { try await question.value }
        }
    }

    @Test("a closed port is an error")
    func nobody() async throws {
        let transport = HTTPStoreTransport()

        await #expect(throws: TransportFailure.unreachable) {
            try await transport.send(
                StoreRequest("POST", "http://127.0.0.1:1/", body: [1]), timeout: Self.limit, bytesMax: 1 << 20)
        }
        await transport.shutDown()
    }
}

/// An HTTP server on this machine with a behaviour for each path.
private final class HTTPStore: Sendable {
    struct Request: Equatable {
        let body: String
        let contentType: String?
    }

    static let answer = [UInt8](repeating: 0x5A, count: 100_000)

    private let received = Mutex<[Request]>([])
    private let port = Mutex(0)

    var requests: [Request] { received.withLock { $0 } }

    func address(_ path: String) -> String { "http://127.0.0.1:\(port.withLock { $0 })/\(path)" }

    /// - Parameter onListening: Called once connections are accepted.
    func run(onListening: @escaping @Sendable () -> Void) async throws {
        let router = Router()
        router.post("**") { [self] request, _ in
            let body = try await request.body.collect(upTo: 1 << 20)
            received.withLock {
                $0.append(Request(body: String(buffer: body), contentType: request.headers[.contentType]))
            }
            return try await respond(to: request.uri.path)
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { [self] channel in
                port.withLock { $0 = channel.localAddress?.port ?? 0 }
                onListening()
            }, logger: logger)
        try await application.run()
    }

    private func respond(to path: String) async throws -> Response {
        let whole = ByteBuffer(bytes: Self.answer)
        switch path {
        case "/good":
            return Response(
                status: .ok, headers: [.contentType: "text/html"], body: .init(byteBuffer: whole))
        case "/parts":
            return Response(
                status: .ok,
                body: ResponseBody { writer in
                    var rest = whole
                    while let part = rest.readSlice(length: min(rest.readableBytes, 1000)), part.readableBytes > 0 {
                        try await writer.write(part)
                    }
                    try await writer.finish(nil)
                })
        case "/stall":
            return Response(
                status: .ok,
                body: ResponseBody { writer in
                    try await writer.write(ByteBuffer(bytes: [1]))
                    try await Task.sleep(for: .seconds(3600))
                })
        case "/hang":
            try await Task.sleep(for: .seconds(3600))
            return Response(status: .ok)
        default:
            let code = path.split(separator: "/").last.flatMap { Int($0) } ?? 404
            return Response(
                status: .init(code: code), headers: [.location: address("good"), .retryAfter: "7"])
        }
    }
}

private func withStore(_ test: (HTTPStore, HTTPStoreTransport) async throws -> Void) async throws {
    let store = HTTPStore()
    let transport = HTTPStoreTransport()
    let (listening, isListening) = AsyncStream<Void>.makeStream()
    let server = Task { try await store.run { isListening.yield() } }
    let outcome: Result<Void, any Error>
    do {
        for await _ in listening { break }
        try await test(store, transport)
        outcome = .success(())
    } catch {
        outcome = .failure(error)
    }
    await transport.shutDown()
    server.cancel()
    _ = await server.result
    try outcome.get()
}
