import Encoding
import Simulation
import Testing

@Suite("The simulated token endpoint refuses what Google's refuses")
struct PlayTokenEndpointTests {
    private static let second: Int64 = 1_760_000_000

    private func endpoint(
        _ change: (inout PlayTokenEndpoint.Settings) -> Void = { _ in }
    ) throws -> SimulatedPlay {
        var settings = SimulatedPlay.Settings(packageName: PlayBundle.packageName)
        settings.tokenClock = { Self.second }
        change(&settings.tokens)
        return SimulatedPlay(PlayStoryteller(), stories: 1, settings)
    }

    private func answer(
        _ play: SimulatedPlay, _ body: [UInt8], type: String? = AssertionShape.formType
    ) -> (status: Int, error: String?) {
        let response = play.tokenResponse(contentType: type, body: body)
        return (response.status, PlayJSON(response.body)["error"])
    }

    private func error(
        _ change: (inout AssertionShape) -> Void,
        settings: (inout PlayTokenEndpoint.Settings) -> Void = { _ in }
    ) throws -> String? {
        var shape = AssertionShape()
        change(&shape)
        return answer(try endpoint(settings), shape.form(second: Self.second)).error
    }

    @Test("a valid assertion is answered with a token of 3599 seconds, and counted")
    func valid() throws {
        let play = try endpoint()

        let response = play.tokenResponse(
            contentType: "application/x-www-form-urlencoded; charset=utf-8",
            body: AssertionShape().form(second: Self.second))

        #expect(response.status == 200 && response.json["expires_in"] as? Int == 3599)
        #expect(response.json["token_type"] as? String == "Bearer")
        #expect(play.tokenCounts == ["200": 1])
    }

    @Test("the body must be a form", arguments: ["application/json", "text/plain", nil])
    func form(type: String?) throws {
        let refused = answer(try endpoint(), AssertionShape().form(second: Self.second), type: type)

        #expect(refused == (400, "invalid_request"))
    }

    @Test("iat may not lie ahead, and exp not more than an hour after it")
    func times() throws {
        func error(issuedAt: Int64, expiresAt: Int64) throws -> String? {
            try self.error { ($0.issuedAt, $0.expiresAt) = (issuedAt, expiresAt) }
        }

        #expect(try error(issuedAt: 0, expiresAt: 3600) == nil)
        #expect(try error(issuedAt: 1, expiresAt: 3600) == "invalid_grant")
        #expect(try error(issuedAt: -60, expiresAt: 3541) == "invalid_grant")
        #expect(try error(issuedAt: -3600, expiresAt: 0) == "invalid_grant")
    }

    @Test("algorithm, signature, account, audience, scope and subject are checked")
    func claims() throws {
        #expect(try error { $0.algorithm = "HS256" } == "invalid_grant")
        #expect(try error { $0.key = RSATestKeys.unpublished } == "invalid_grant")
        #expect(try error { $0.key = RSATestKeys.unpublished.renamed($0.key.keyId) } == "invalid_grant")
        #expect(try error { $0.issuer = "other@example.com" } == "invalid_grant")
        #expect(try error { $0.audience = "https://accounts.google.com" } == "invalid_grant")
        #expect(try error { $0.scope = "https://www.googleapis.com/auth/other" } == "invalid_scope")
        #expect(try error { $0.subject = "user@example.com" } == "unauthorized_client")
        #expect(try error { $0.grantType = "password" } == "unsupported_grant_type")
        #expect(try error { $0.audience = "http://127.0.0.1:2000/google/token" } == nil)
        #expect(
            try error({ $0.audience = "http://127.0.0.1:2000/google/token" }, settings: { $0.audience = "https://a" })
                == "invalid_grant")
    }

    @Test("a deleted key and an account that is gone are invalid grants; an endpoint that is away answers 503")
    func gone() throws {
        let keyId = RSATestKeys.serviceAccount.keyId
        #expect(try error({ _ in }, settings: { $0.deletedKeys = [keyId] }) == "invalid_grant")
        #expect(try error({ _ in }, settings: { $0.accounts = [] }) == "invalid_grant")
        let away = answer(try endpoint { $0.isAway = true }, AssertionShape().form(second: Self.second))
        #expect(away == (503, nil))
    }

    @Test("a refresh token is exchanged with the client's id and secret")
    func refresh() throws {
        func form(_ secret: String = PlayUserConsent.standard.clientSecret, _ refresh: String? = nil) -> [UInt8] {
            let consent = PlayUserConsent.standard
            let token = (refresh ?? consent.refreshToken).replacingOccurrences(of: "/", with: "%2F")
            return Array(
                ("grant_type=refresh_token&client_id=\(consent.clientId)&client_secret=\(secret)"
                    + "&refresh_token=\(token)").utf8)
        }
        let play = try endpoint()

        #expect(answer(play, form()) == (200, nil))
        #expect(answer(play, form("wrong")) == (401, "invalid_client"))
        #expect(answer(play, form(PlayUserConsent.standard.clientSecret, "other")) == (400, "invalid_grant"))
        #expect(answer(try endpoint { $0.consent = nil }, form()) == (400, "invalid_grant"))
        let repeated = Array("grant_type=refresh_token&grant_type=refresh_token".utf8)
        #expect(answer(play, repeated) == (400, "invalid_request"))
    }

    @Test("an access token dies after its time, early by switch, or when it is revoked")
    func expiry() throws {
        let clock = TestClock(Self.second)
        let bundle = try PlayBundle {
            $0.tokenClock = { clock.second }
            $0.tokens.lifeSeconds = 600
        }
        bundle.play.now = bundle.life.tokens[0].history[0].at

        let fresh = bundle.subscription()?.status
        clock.second += 600
        let dead = bundle.subscription()?.problem
        clock.second -= 1
        let last = bundle.subscription()?.status
        bundle.play.changeTokenEndpoint { $0.revokeAll() }

        #expect(fresh == 200 && dead == "401 authError" && last == 200)
        #expect(bundle.subscription()?.problem == "401 authError")
    }
}
