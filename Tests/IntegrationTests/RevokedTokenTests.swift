import EventLog
import Postgres
import TestSupport
import Testing

@Suite("A revoked token opens nothing")
struct RevokedTokenTests {
    @Test("a revoked token is rejected within a second and a half")
    func revoked() async throws {
        try await TestBundle.withServer { server in
            let token = try #require(server.backend.token.flatMap { AccessToken($0) })
            #expect(try await server.backend.get("/subscriptions/1").status == 404)

            let owner = try await TestCluster.connect(server.database)
            try await TokenStore(connection: owner).revoke(id: token.id)
            let revokedAt = ContinuousClock.now
            _ = try await eventually("the token is rejected") {
                try await server.backend.get("/subscriptions/1").status == 401 ? true : nil
            }

            #expect(ContinuousClock.now - revokedAt < .milliseconds(1500))
            await #expect(throws: TokenRefusal.revokedAlready(token.id)) {
                try await TokenStore(connection: owner).revoke(id: token.id)
            }
            await owner.close()
        }
    }
}
