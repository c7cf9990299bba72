import TestSupport
import Testing

@Suite("What the private listener refuses is told as RFC 9457 has it")
struct ProblemTests {
    @Test("an unknown path is 404, a known one with another method 405 with what is allowed; HEAD goes where GET does")
    func routes() async throws {
        try await TestBundle.withServer { server in
            let unknown = try await server.backend.get("/nowhere")
            let method = try await server.backend.send("DELETE", "/subscriptions/1")
            let head = try await server.backend.send("HEAD", "/health")

            #expect(unknown.status == 404)
            #expect(unknown.headers["content-type"] == "application/problem+json")
            #expect(
                unknown.body
                    == "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\"detail\":\"not found\"}\n")
            #expect(method.status == 405)
            #expect(method.headers["allow"] == "GET, HEAD")
            #expect(head.status == 200 && head.body.isEmpty)
        }
    }
}
