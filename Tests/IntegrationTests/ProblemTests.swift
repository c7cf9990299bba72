import TestSupport
import Testing

@Suite("Errors of the private listener are RFC 9457 problems")
struct ProblemTests {
    @Test("an unknown path is 404, a wrong method 405 with the allowed ones, and HEAD is routed like GET")
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
