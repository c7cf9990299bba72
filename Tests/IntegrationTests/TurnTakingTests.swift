import HTTPServer
import Hummingbird
import Logging
import TestSupport
import Testing

@Suite("Senders beyond the connections of a listener wait their turn")
struct TurnTakingTests {
    private static let request = "GET /there HTTP/1.1\r\nHost: x\r\n\r\n"

    @Test("while all connections are taken each answer asks to close its own, and who waits is then answered")
    func turns() async throws {
        let connections = OpenConnections(limit: 2)
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: TurnTaking(connections: connections))
        router.get("/there") { _, _ in "yes" }
        let port = AsyncStream<Int>.makeStream()
        let listener = Listener(
            router, address: ListenAddress(host: "127.0.0.1", port: 0), identity: nil, connections: connections,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            onListening: { port.continuation.yield($0) })
        let running = Task { try? await listener.run() }
        var ports = port.stream.makeAsyncIterator()
        let number = try #require(await ports.next())

        let first = try RawConnection(port: number)
        let alone = try await answer(to: first)
        var second: RawConnection? = try RawConnection(port: number)
        let full = try await answer(to: try #require(second))
        let third = try RawConnection(port: number)
        third.write(Self.request)
        let meanwhile = try await answer(to: first)
        let early = third.read()
        second = nil
        let late = try await eventually("the third is answered") { Self.whole(third.read()) }

        #expect(!alone.lowercased().contains("connection: close"))
        #expect(full.lowercased().contains("connection: close"))
        #expect(meanwhile.hasPrefix("HTTP/1.1 200 "))
        #expect(early.isEmpty)
        #expect(late.hasPrefix("HTTP/1.1 200 "))
        running.cancel()
        await running.value
    }

    private func answer(to connection: RawConnection) async throws -> String {
        connection.write(Self.request)
        return try await eventually("an answer") { Self.whole(connection.read()) }
    }

    private static func whole(_ text: String) -> String? { text.isEmpty ? nil : text }
}
