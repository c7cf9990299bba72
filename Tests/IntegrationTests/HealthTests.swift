import HTTPServer
import Synchronization
import TestSupport
import Testing

@Suite("Health and readiness")
struct HealthTests {
    @Test("the server is ready while no condition is failing, and the private listener lists each condition")
    func degraded() async throws {
        let health = [
            HealthCheck(name: "projection") { .degraded("a stream stands still") },
            HealthCheck(name: "durability") { .ok },
        ]
        try await TestBundle.withServer(health: health, patience: .zero) { server in
            for path in ["/health", "/health/ready"] {
                // On a busy machine, the database may not answer in time, which is a failing condition.
                let open = try await eventually("GET \(path) finds the database") {
                    let answer = try await server.apple.get(path)
                    return answer.status == 200 ? answer : nil
                }
                let closed = try await eventually("GET \(path) of the private listener finds it") {
                    let answer = try await HTTPClient(port: server.backend.port).get(path)
                    return answer.status == 200 ? answer : nil
                }

                #expect(open.body == "{\"status\":\"ok\"}\n")
                #expect(
                    closed.body == """
                        {"status":"degraded","conditions":[{"name":"projection","state":"degraded",\
                        "detail":"a stream stands still"},{"name":"durability","state":"ok"},\
                        {"name":"database","state":"ok"}]}

                        """)
            }
        }
    }

    @Test("a failing condition makes the server not ready but alive, and the public listener does not name it")
    func failing() async throws {
        let health = [HealthCheck(name: "appending") { .failing("the last batches were not stored") }]
        try await TestBundle.withServer(health: health, patience: .zero) { server in
            let open = try await server.apple.get("/health/ready")
            let closed = try await server.backend.get("/health")

            #expect(open.status == 503)
            #expect(open.headers["retry-after"] == "5")
            #expect(open.body == "{\"status\":\"unavailable\"}\n")
            #expect(closed.status == 503)
            #expect(closed.json["status"] as? String == "failing")
            for client in [server.apple, server.backend] {
                let live = try await client.get("/health/live")
                #expect(live.status == 200)
                #expect(live.body == "{\"status\":\"ok\"}\n")
            }
        }
    }

    @Test("a hundred concurrent requests run at most ten health checks")
    func sharedLook() async throws {
        let looks = Looks()
        let health = [HealthCheck(name: "slow") { await looks.next() }]
        try await TestBundle.withServer(health: health, patience: .zero) { server in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<100 { group.addTask { try await server.apple.get("/health").status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(statuses == Array(repeating: 200, count: 100))
            #expect(looks.count <= 10)
        }
    }

    private final class Looks: Sendable {
        private let looks = Mutex(0)

        var count: Int { looks.withLock { $0 } }

        func next() async -> HealthState {
            looks.withLock { $0 += 1 }
            return .ok
        }
    }
}
