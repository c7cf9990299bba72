import Foundation
import SubledgerClient
import Testing

@Suite("Requests that are cancelled")
struct CancellationTests {
    @Test("a request ends, also if it is cancelled while its answer is delivered", .timeLimit(.minutes(5)))
    func ends() async throws {
        // Nothing listens there, so that the answer comes at once.
        let base = try #require(URL(string: "http://127.0.0.1:9"))
        let transport = URLSessionTransport(base: base)
        var ended = 0
        for round in 0..<40 {
            ended += await withTaskGroup(of: Int.self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        _ = try? await transport.send(ClientRequest(method: "GET", path: "/"))
                        return 1
                    }
                }
                try? await Task.sleep(for: .microseconds(round * 50))
                group.cancelAll()
                return await group.reduce(0, +)
            }
        }

        #expect(ended == 2000)
    }

    @Test(
        "a request of a task that is cancelled already fails as cancelled or refused, and ends", .timeLimit(.minutes(5))
    )
    func before() async throws {
        let transport = URLSessionTransport(base: try #require(URL(string: "http://127.0.0.1:9")))
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await transport.send(ClientRequest(method: "GET", path: "/"))
        }
        task.cancel()

        await #expect(throws: URLError.self) { try await task.value }
    }
}
