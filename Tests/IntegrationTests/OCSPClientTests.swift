import Hummingbird
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Server

@Suite("The HTTP client for OCSP")
struct OCSPClientTests {
    @Test("the request is posted, and the response body is returned")
    func good() async throws {
        try await withResponder { responder, client in
            let request = [UInt8](0...255)

            let answer = try await client.answer(to: request, at: responder.address("good"), bytesMax: 1 << 20)

            #expect(answer == Responder.answer)
            #expect(responder.requests == [.init(body: request, contentType: "application/ocsp-request")])
        }
    }

    @Test(
        "a response of the maximum size is accepted and one byte more is not, with and without Content-Length",
        arguments: ["good", "parts"])
    func size(path: String) async throws {
        try await withResponder { responder, client in
            let size = Responder.answer.count

            let whole = try await client.answer(to: [1], at: responder.address(path), bytesMax: size)
            #expect(whole == Responder.answer)
            await #expect(throws: (any Error).self) {
                try await client.answer(to: [1], at: responder.address(path), bytesMax: size - 1)
            }
        }
    }

    @Test("a status other than 2xx is an error, and a redirect is not followed", arguments: [302, 307, 404, 500, 503])
    func status(code: Int) async throws {
        try await withResponder { responder, client in
            await #expect(throws: OCSPClient.Failure.status(UInt(code))) {
                try await client.answer(to: [1], at: responder.address("status/\(code)"), bytesMax: 1 << 20)
            }
            #expect(responder.requests.count == 1)
        }
    }

    @Test(
        "a request to a responder that hangs can be cancelled, before and during the response",
        arguments: ["hang", "stall"])
    func hang(path: String) async throws {
        try await withResponder { responder, client in
            let question = Task {
                try await client.answer(to: [1], at: responder.address(path), bytesMax: 1 << 20)
            }
            _ = try await eventually("the request arrives") { responder.requests.isEmpty ? nil : true }
            let cancelledAt = ContinuousClock.now

            question.cancel()

            await #expect(throws: (any Error).self) { try await question.value }
            #expect(ContinuousClock.now - cancelledAt < .seconds(10))
        }
    }

    @Test(
        "only HTTP addresses are requested",
        arguments: [
            "ldap://127.0.0.1/", "file:///etc/hostname", "unix:///tmp/socket", "http+unix://%2Ftmp%2Fsocket/", "", "x",
        ])
    func scheme(address: String) async throws {
        let client = OCSPClient()

        await #expect(throws: OCSPClient.Failure.notHTTP) {
            try await client.answer(to: [1], at: address, bytesMax: 1 << 20)
        }
        await client.shutDown()
    }

    @Test("a closed port and an address without a host are errors", arguments: [":1/", "/", ""])
    func nobody(rest: String) async throws {
        let client = OCSPClient()

        await #expect(throws: (any Error).self) {
            try await client.answer(
                to: [1], at: rest.hasPrefix(":") ? "http://127.0.0.1\(rest)" : "http://\(rest)", bytesMax: 1 << 20)
        }
        await client.shutDown()
    }
}

/// An HTTP server on this machine with a behaviour for each path.
private final class Responder: Sendable {
    struct Request: Equatable {
        let body: [UInt8]
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
                $0.append(Request(body: Array(buffer: body), contentType: request.headers[.contentType]))
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
        case "/good": return Response(status: .ok, body: .init(byteBuffer: whole))
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
            return Response(status: .init(code: code), headers: [.location: address("good")])
        }
    }
}

private func withResponder(_ test: (Responder, OCSPClient) async throws -> Void) async throws {
    let responder = Responder()
    let client = OCSPClient()
    let (listening, isListening) = AsyncStream<Void>.makeStream()
    let server = Task { try await responder.run { isListening.yield() } }
    let outcome: Result<Void, any Error>
    do {
        for await _ in listening { break }
        try await test(responder, client)
        outcome = .success(())
    } catch {
        outcome = .failure(error)
    }
    await client.shutDown()
    server.cancel()
    _ = await server.result
    try outcome.get()
}
