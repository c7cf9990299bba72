import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The simulated Server API accepts valid tokens only, and no more requests than its limits")
struct ServerAPITokenTests {
    private static func path(_ bundle: ServerAPIBundle) -> String {
        "v1/subscriptions/\(bundle.originalTransactionId)"
    }

    private static func changed(_ change: (inout APITokenShape) -> Void) -> APITokenShape {
        var shape = APITokenShape()
        change(&shape)
        return shape
    }

    @Test("a token is accepted for up to an hour after iat, also without iat")
    func accepted() async throws {
        let shapes = [
            APITokenShape(), Self.changed { $0.issuedAt = nil },
            Self.changed { $0.issuedAt = 0 },
            Self.changed {
                $0.issuedAt = -3599
                $0.expiresAt = 1
            },
            Self.changed {
                $0.issuedAt = 0
                $0.expiresAt = 3600
            },
        ]
        try await ServerAPIBundle.with { bundle in
            for (number, shape) in shapes.enumerated() {
                let answer = try await bundle.call("GET", Self.path(bundle), token: shape)

                #expect(answer.status == 200, "token \(number)")
            }
        }
    }

    @Test("a token with any wrong part is refused with 401 and a text that is not JSON")
    func refused() async throws {
        let shapes: [(String, APITokenShape)] = [
            ("alg", Self.changed { $0.algorithm = "HS256" }), ("kid", Self.changed { $0.keyId = "SIMULATED2" }),
            ("iss", Self.changed { $0.issuerId = "57246542-96fe-1a63-e053-0824d011072b" }),
            ("aud", Self.changed { $0.audience = "appstoreconnect-v2" }),
            ("bid", Self.changed { $0.bundleId = "com.example.other" }),
            ("expired", Self.changed { $0.expiresAt = 0 }),
            ("more than an hour", Self.changed { $0.expiresAt = 3541 }),
            (
                "more than an hour without iat",
                Self.changed {
                    $0.issuedAt = nil
                    $0.expiresAt = 3601
                }
            ),
            ("issued in the future", Self.changed { $0.issuedAt = 1 }),
            ("key", Self.changed { $0.key = TestKeys.p256("another key") }), ("DER", Self.changed { $0.isDER = true }),
        ]
        try await ServerAPIBundle.with { bundle in
            for (name, shape) in shapes {
                let answer = try await bundle.call("GET", Self.path(bundle), token: shape)

                #expect(answer.status == 401 && answer.json.isEmpty, "\(name)")
                #expect(answer.body == "Unauthenticated\n" && answer.headers["content-type"] == "text/plain", "\(name)")
            }
            let bare = try await bundle.client.get("/production/inApps/\(Self.path(bundle))")
            #expect(bare.status == 401)
        }
    }

    @Test("with a clock of their own, tokens are checked by it and not by the store's clock")
    func tokenClock() async throws {
        let machine = try #require(Instant(iso8601: "2026-09-28T12:00:00Z"))
        var settings = SimulatedServerAPI.Settings()
        settings.tokenClock = { machine }
        try await ServerAPIBundle.with([.renewals], settings) { bundle in
            let byStore = try await bundle.call("GET", Self.path(bundle))
            let byMachine = try await bundle.client.send(
                "GET", "/production/inApps/\(Self.path(bundle))",
                headers: ["Authorization": "Bearer \(try APITokenShape().text(at: machine))"])

            #expect(byStore.status == 401 && byMachine.status == 200)
        }
    }

    @Test("an app without a release is answered 401 in production, and as usual in the sandbox")
    func unreleased() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.isReleased = false
        try await ServerAPIBundle.with([.renewals], environment: .sandbox, settings) { bundle in
            let production = try await bundle.call("GET", Self.path(bundle), host: .production)
            let sandbox = try await bundle.call("GET", Self.path(bundle), host: .sandbox)

            #expect(production.status == 401 && sandbox.status == 200)
        }
    }

    @Test("a path or a method that Apple does not have is answered 404 without JSON")
    func unknownPath() async throws {
        try await ServerAPIBundle.with { bundle in
            for (method, path) in [("GET", "v1/nothing"), ("DELETE", Self.path(bundle)), ("GET", "v1/subscriptions")] {
                let answer = try await bundle.call(method, path)

                #expect(answer.status == 404 && answer.json.isEmpty, "\(method) \(path)")
            }
        }
    }
}

// MARK: - Limits

extension ServerAPITokenTests {
    @Test("the limits of an hour are Apple's per second, and a tenth of them in the sandbox")
    func limits() {
        func limits(_ endpoint: StoreEndpoint) -> [Int?] {
            [endpoint.hourlyLimit(.production), endpoint.hourlyLimit(.sandbox)]
        }

        #expect(limits(.statuses) == [180_000, 18_000] && limits(.notificationHistory) == [180_000, 18_000])
        #expect(limits(.extend) == [72_000, 7200] && limits(.accountToken) == [72_000, 7200])
        #expect(limits(.refundHistory) == [36_000, 3600])
        #expect(limits(.testNotification) == [3600, 360])
        #expect(limits(.extendAllStatus) == [nil, nil])
    }

    @Test("a request above the limit of its endpoint is answered 429 until the next hour")
    func rateLimit() async throws {
        var settings = SimulatedServerAPI.Settings()
        settings.hourlyLimits = [.statuses: 2]
        try await ServerAPIBundle.with([.renewals], settings) { bundle in
            bundle.store.now = try #require(Instant(iso8601: "2026-06-30T10:20:00Z"))
            var statuses: [Int] = []
            for _ in 0..<3 { statuses.append(try await bundle.call("GET", Self.path(bundle)).status) }
            let refused = try await bundle.call("GET", Self.path(bundle))
            let other = try await bundle.call("GET", "v1/transactions/\(bundle.originalTransactionId)")
            bundle.store.now = try #require(Instant(iso8601: "2026-06-30T11:00:00Z"))
            let later = try await bundle.call("GET", Self.path(bundle))

            #expect(statuses == [200, 200, 429])
            #expect(refused.json["errorCode"] as? Int == 4_290_000)
            // 2026-06-30T11:00:00Z
            #expect(refused.headers["retry-after"] == "1782817200000")
            #expect(other.status == 200 && later.status == 200)
        }
    }

    @Test("Retry-After has the form of the settings")
    func retryAfter() throws {
        let simulation = try ServerAPIBundle.makeSimulation([.renewals], count: 1)
        let now = try #require(Instant(iso8601: "2026-06-30T10:59:00Z"))
        var forms: [String?] = []
        for form in SimulatedServerAPI.Settings.RetryAfter.allCases {
            var settings = SimulatedServerAPI.Settings()
            settings.hourlyLimits = [.testNotification: 0]
            settings.retryAfter = form
            let store = SimulatedStore(simulation, now: now, api: settings)
            let call = StoreAPICall(
                host: .production, method: "POST", path: ["v1", "notifications", "test"],
                authorization: "Bearer \(try APITokenShape().text(at: now))")
            guard case .response(let response) = store.reaction(to: call) else { continue }
            #expect(response.status == 429)
            forms.append(response.retryAfter)
        }

        #expect(forms == ["1782817200000", "1782817200", "60", "1782817080000", nil])
    }
}
