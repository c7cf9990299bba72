import Hummingbird
import Logging
import TestSupport
import Testing

@testable import HTTPServer

@Suite("Connection limits of a listener")
struct ConnectionTests {
    private static let get = "GET /there HTTP/1.1\r\nHost: x\r\n\r\n"

    /// A listener with a route that answers at once, one that reads a body, and one that waits for the gate.
    private static func withListener(
        limit: Int = 100, perAddress: Int = 100, _ test: (Int, Gate) async throws -> Void
    ) async throws {
        let gate = Gate()
        let bodies = BodyReader()
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorResponseMiddleware())
        router.get("/there") { _, _ in "yes" }
        router.post("/unread") { _, _ in "yes" }
        router.post("/read") { request, _ in
            do {
                return try await bodies.withBody(of: request) { JSONResponse.error(.ok, "\($0.count)") }
            } catch BodyReader.Failure.tooLarge {
                return JSONResponse.error(.contentTooLarge, "large")
            }
        }
        router.get("/wait") { _, _ in
            await gate.wait()
            return "yes"
        }
        let port = AsyncStream<Int>.makeStream()
        let listener = Listener(
            router, address: ListenAddress(host: "127.0.0.1", port: 0), identity: nil,
            connections: ConnectionTable(limit: limit, perAddress: perAddress, listener: "test"),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            onListening: { port.continuation.yield($0) })
        let running = Task { try? await listener.run() }
        var ports = port.stream.makeAsyncIterator()
        let outcome: Result<Void, any Error>
        do { outcome = .success(try await test(try #require(await ports.next()), gate)) } catch {
            outcome = .failure(error)
        }
        await gate.open()
        running.cancel()
        await running.value
        try outcome.get()
    }

    private actor Gate {
        private var isOpen = false
        private(set) var waiting: [CheckedContinuation<Void, Never>] = []

        func wait() async {
            if isOpen { return }
            await withCheckedContinuation { waiting.append($0) }
        }

        func open() {
            isOpen = true
            for continuation in waiting { continuation.resume() }
            waiting = []
        }
    }

    /// All bytes that the server sends until it closes the connection.
    private static func rest(of connection: RawConnection) async throws -> String {
        var text = ""
        _ = try await eventually(within: .seconds(20), "the server closes the connection") {
            text += connection.read()
            return connection.hasEnded ? true : nil
        }
        return text
    }

    private static func answer(to text: String, _ connection: RawConnection) async throws -> String {
        connection.write(text)
        return try await eventually(within: .seconds(20), "an answer") {
            let text = connection.read()
            return text.isEmpty ? nil : text
        }
    }

    @Test("at the limit, a new connection closes the one that was idle longest")
    func displacesIdle() async throws {
        try await Self.withListener(limit: 4) { port, _ in
            let first = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, first)
            let second = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, second)
            let third = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, third)
            let fourth = try RawConnection(port: port)
            let last = try await Self.answer(to: Self.get, fourth)

            #expect(last.hasPrefix("HTTP/1.1 200 "))
            #expect(try await Self.rest(of: first).isEmpty)
            #expect(!second.hasEnded && !third.hasEnded)
        }
    }

    @Test("a connection that waits for its answer is never closed for another one")
    func keepsWaiting() async throws {
        try await Self.withListener(limit: 4) { port, gate in
            let waiting = try RawConnection(port: port)
            waiting.write("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            _ = try await eventually("the request waits") { await gate.waiting.isEmpty ? nil : true }
            for _ in 0..<20 {
                let other = try RawConnection(port: port)
                #expect(try await Self.answer(to: Self.get, other).hasPrefix("HTTP/1.1 200 "))
            }
            let silent = try (0..<20).map { _ in try RawConnection(port: port) }
            _ = try await eventually("silent connections are closed") {
                silent.contains { connection in
                    // A 503, without which it has not ended yet.
                    _ = connection.read()
                    return connection.hasEnded
                } ? true : nil
            }
            await gate.open()

            let answer = try await eventually("its answer") {
                let text = waiting.read()
                return text.isEmpty ? nil : text
            }
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test("a connection that pipelines requests is closed for another one like an idle connection")
    func displacesPipelining() async throws {
        try await Self.withListener(limit: 4) { port, gate in
            let greedy = try (0..<4).map { _ in try RawConnection(port: port) }
            for connection in greedy {
                connection.write(String(repeating: "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", count: 3))
            }
            _ = try await eventually("their first requests wait") { await gate.waiting.count >= 3 ? true : nil }
            let other = try RawConnection(port: port)

            #expect(try await Self.answer(to: Self.get, other).hasPrefix("HTTP/1.1 200 "))
            // A new connection has a moment.
            _ = try await eventually("one of them is closed") {
                greedy.contains { connection in
                    _ = connection.read()
                    return connection.hasEnded
                } ? true : nil
            }
        }
    }

    @Test("every connection of a burst is answered")
    func burst() async throws {
        try await Self.withListener(limit: 400, perAddress: 400) { port, _ in
            let connections = try (0..<300).map { _ in try RawConnection(port: port) }
            for connection in connections { connection.write(Self.get) }
            for connection in connections {
                let answer = try await eventually("its answer") {
                    let text = connection.read()
                    return text.isEmpty ? nil : text
                }
                #expect(answer.hasPrefix("HTTP/1.1 200 "))
            }
        }
    }

    @Test("a burst of more connections than the limit is answered: 200, or 503 for those that are displaced")
    func largerBurst() async throws {
        try await Self.withListener(limit: 40, perAddress: 400) { port, _ in
            for _ in 0..<3 {
                let connections = try (0..<300).map { _ in try RawConnection(port: port) }
                for connection in connections.reversed() { connection.write(Self.get) }
                var answers: [String: Int] = [:]
                for connection in connections {
                    let answer = try await eventually("its answer, or its end") {
                        let text = connection.read()
                        return text.isEmpty && !connection.hasEnded ? nil : text
                    }
                    answers[String(answer.prefix(12)), default: 0] += 1
                }
                #expect(Set(answers.keys).isSubset(of: ["HTTP/1.1 200", "HTTP/1.1 503"]), "\(answers)")
                #expect(answers["HTTP/1.1 200", default: 0] > 150, "\(answers)")
            }
        }
    }

    @Test("a connection of an address above its limit that has no answer yet receives 503")
    func displacedReceives503() async throws {
        try await Self.withListener(limit: 40, perAddress: 2) { port, _ in
            let silent = try (0..<2).map { _ in try RawConnection(port: port) }
            let other = try RawConnection(port: port)
            #expect(try await Self.answer(to: Self.get, other).hasPrefix("HTTP/1.1 200 "))

            let text = try await eventually("one of them is answered") {
                silent.lazy.map { $0.read() }.first { !$0.isEmpty }
            }
            #expect(text.hasPrefix("HTTP/1.1 503 "))
            #expect(text.contains("retry-after: "))
            _ = try await eventually("it is closed") { silent.contains { $0.hasEnded } ? true : nil }
        }
    }

    @Test("a listener that stops while connections arrive ends cleanly")
    func stopsWhileConnectionsArrive() async throws {
        for _ in 0..<TestScale.count(40, full: 100) {
            try await withThrowingDiscardingTaskGroup { senders in
                try await Self.withListener { port, _ in
                    for _ in 0..<2 {
                        senders.addTask {
                            // Until the listener has stopped.
                            while let connection = try? RawConnection(port: port) {
                                connection.write(Self.get)
                                await Task.yield()
                            }
                        }
                    }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
    }

    @Test("an address above its limit loses its own connections, not those of other addresses")
    func sharePerAddress() async throws {
        try await Self.withListener(limit: 100, perAddress: 2) { port, _ in
            let other = try RawConnection(port: port, from: "127.0.0.9")
            _ = try await Self.answer(to: Self.get, other)
            let first = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, first)
            let second = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, second)
            let third = try RawConnection(port: port)
            _ = try await Self.answer(to: Self.get, third)

            #expect(try await Self.rest(of: first).isEmpty)
            #expect(!other.hasEnded && !second.hasEnded)
        }
    }

    @Test(
        "a connection is closed after the answer to Connection: close and to HTTP/1.0",
        arguments: [
            "GET /there HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n", "GET /there HTTP/1.0\r\n\r\n",
            "GET /there HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
        ])
    func closes(_ request: String) async throws {
        try await Self.withListener { port, _ in
            let connection = try RawConnection(port: port)
            let start = ContinuousClock.now
            connection.write(request)
            let text = try await Self.rest(of: connection)

            #expect(text.hasPrefix("HTTP/1.1 200 "))
            #expect(text.lowercased().contains("connection: close"))
            #expect(.now - start < .seconds(5))
        }
    }

    @Test("a connection with an unread body is closed within five seconds of the request")
    func unreadBody() async throws {
        try await Self.withListener { port, _ in
            for head in ["POST /unread", "POST /read"] {
                let connection = try RawConnection(port: port)
                let start = ContinuousClock.now
                let answer = try await Self.answer(
                    to: "\(head) HTTP/1.1\r\nHost: x\r\nContent-Length: 6000000\r\n\r\nabc", connection)
                _ = try await eventually(within: .seconds(20), "the server closes the connection") {
                    // Fails once the server has closed both directions.
                    connection.write("x") == 0 ? true : nil
                }

                #expect(answer.lowercased().contains("connection: close"))
                #expect(.now - start < .seconds(5))
            }
        }
    }

    @Test(
        "an HTTP/1.1 request with no Host or two is answered 400, and its connection closed",
        arguments: ["GET /there HTTP/1.1\r\n\r\n", "GET /there HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"])
    func hosts(_ request: String) async throws {
        try await Self.withListener { port, _ in
            let connection = try RawConnection(port: port)
            connection.write(request)

            #expect(try await Self.rest(of: connection).hasPrefix("HTTP/1.1 400 "))
        }
    }

    @Test("Expect: 100-continue gets 100 if the body will be read, and otherwise only the final answer")
    func expectContinue() async throws {
        try await Self.withListener { port, _ in
            func head(_ path: String, _ length: Int) -> String {
                "POST \(path) HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: \(length)\r\n\r\n"
            }
            let wanted = try RawConnection(port: port)
            let interim = try await Self.answer(to: head("/read", 3), wanted)
            let final = try await Self.answer(to: "abc", wanted)
            let unwanted = try await Self.answer(to: head("/unread", 3), RawConnection(port: port))
            let tooLarge = try await Self.answer(to: head("/read", 6_000_000), RawConnection(port: port))

            #expect(interim == "HTTP/1.1 100 Continue\r\n\r\n")
            #expect(final.hasPrefix("HTTP/1.1 200 "))
            #expect(unwanted.hasPrefix("HTTP/1.1 200 "))
            #expect(tooLarge.hasPrefix("HTTP/1.1 413 "))
        }
    }

    @Test("slow senders of large bodies do not block a fast one")
    func largeBodies() async throws {
        try await Self.withListener { port, _ in
            let slow = try (0..<16).map { _ in try RawConnection(port: port) }
            let part = String(repeating: "x", count: 1 << 20)
            for connection in slow {
                connection.write("POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: \(5 << 20)\r\n\r\n")
                var sent = 0
                _ = try await eventually("4 MB are sent") {
                    sent += connection.write(part)
                    return sent >= 4 << 20 || connection.hasEnded ? true : nil
                }
            }
            let large = String(repeating: "y", count: 200_000)
            let connection = try RawConnection(port: port)
            let answer = try await Self.answer(
                to: "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + large, connection)

            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(answer.contains("200000"))
        }
    }
}
