import AppStore
import Encoding
import Simulation
import Subscriptions
import TestSupport
import Testing

/// Signed notifications for tests.
enum SignedBody {
    static let app = "com.example.magazine"
    static let roots = RootCertificates(file: TestCertificates.standard.rootDER) ?? .apple
    static let uuid = "002e14d5-51f5-4503-b5a8-c3a1af68eb20"

    static func make(
        uuid: String = uuid, signedAt: Int64 = 1_757_000_000_000, app: String = app, environment: String = "Sandbox",
        appAppleId: Int64 = 1_234_567_890, signer: JWSSigner = JWSSigner(.standard)
    ) -> [UInt8] {
        let transaction = signer.sign(
            Array(
                """
                {"transactionId":"2000000000000001","originalTransactionId":"2000000000000001","bundleId":"\(app)",\
                "productId":"monthly","purchaseDate":1573200700000,"expiresDate":1573300000000,\
                "type":"Auto-Renewable Subscription","environment":"\(environment)","price":480000,"currency":"JPY",\
                "signedDate":\(signedAt)}
                """.utf8))
        let payload = """
            {"notificationType":"SUBSCRIBED","subtype":"INITIAL_BUY","notificationUUID":"\(uuid)","version":"2.0",\
            "signedDate":\(signedAt),"data":{"appAppleId":\(appAppleId),"bundleId":"\(app)",\
            "environment":"\(environment)","signedTransactionInfo":"\(String(decoding: transaction, as: UTF8.self))"}}
            """
        let text = String(decoding: signer.sign(Array(payload.utf8)), as: UTF8.self)
        return Array("{\"signedPayload\":\"\(text)\"}".utf8)
    }
}

@Suite("Signed notifications over HTTP")
struct SignedNotificationTests {
    private static func withServer(
        _ app: App = App(bundleId: SignedBody.app), _ test: (TestBundle) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(apps: [app], roots: SignedBody.roots, test)
    }

    @Test("a signed notification is stored with its chain and folded")
    func stored() async throws {
        try await Self.withServer { server in
            let body = SignedBody.make()

            #expect(try await server.apple.post(body).json["position"] as? Int == 1)
            #expect(try await server.apple.post(body).json["duplicate"] as? Bool == true)

            let row = try await server.sql(
                """
                select concat_ws(' ', source, kind, encode(dedupe_key, 'hex'), octet_length(chain_id), revocation,
                  body_sha256 = sha256(subledger.event_body(stream_id, position)), facts -> 'notification' ->> 'version')
                from subledger.event
                """)
            #expect(row == ["apple-v2 purchase 002e14d551f54503b5a8c3a1af68eb20 32 off t 2.0"])
            let subscription = try await server.subscription("/subscriptions/2000000000000001?environment=sandbox")
            #expect(subscription.json["status"] as? String == "active")
            #expect(
                try await server.sql("select concat_ws(' ', price, currency, type) from subledger.transaction")
                    == ["480000 JPY Auto-Renewable Subscription"])
        }
    }

    @Test("different bytes under a known UUID are stored once as a conflict and logged")
    func conflict() async throws {
        try await Self.withServer { server in
            let first = SignedBody.make()
            let other = SignedBody.make(signedAt: 1_757_000_000_001)
            _ = try await server.apple.post(first)

            for _ in 0..<2 {
                let answer = try await server.apple.post(other)
                #expect(answer.status == 200)
                #expect(answer.json["position"] as? Int == 1)
                #expect(answer.json["conflict"] as? Bool == true)
            }

            #expect(
                try await server.sql(
                    "select convert_from(subledger.event_body(stream_id, position), 'UTF8') from subledger.event")
                    == [String(decoding: first, as: UTF8.self)])
            #expect(
                try await server.sql(
                    "select convert_from(subledger.rebuilt_body(stream_id, body), 'UTF8') from subledger.event_conflict"
                )
                    == [String(decoding: other, as: UTF8.self)])
            #expect(server.logs.text.contains("differs from the one stored under its id"))
        }
    }

    @Test("members around signedPayload are not stored and do not make a different notification")
    func wrapper() async throws {
        try await Self.withServer { server in
            let body = SignedBody.make()
            let wrapped = Array("{ \"junk\": \"canary\", ".utf8) + body.dropFirst()

            #expect(try await server.apple.post(wrapped).json["duplicate"] as? Bool == false)
            let again = try await server.apple.post(body)

            #expect(again.json["duplicate"] as? Bool == true)
            #expect(again.json["conflict"] == nil)
            #expect(
                try await server.sql(
                    "select convert_from(subledger.event_body(stream_id, position), 'UTF8') from subledger.event")
                    == [String(decoding: body, as: UTF8.self)])
        }
    }

    @Test("of several bodies sent at once under one UUID, one is the event and the others are conflicts")
    func conflictAtOnce() async throws {
        try await Self.withServer { server in
            let bodies = (0..<20).map { SignedBody.make(signedAt: 1_757_000_000_000 + Int64($0)) }

            let answers = try await withThrowingTaskGroup(of: Bool.self) { group in
                for body in bodies {
                    group.addTask { try await server.apple.post(body).json["conflict"] as? Bool == true }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(answers.filter { !$0 }.count == 1)
            #expect(try await server.sql("select count(*)::text from subledger.event") == ["1"])
            #expect(try await server.sql("select count(*)::text from subledger.event_conflict") == ["19"])
        }
    }

    struct Refused: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let body: [UInt8]
        var app = App(bundleId: SignedBody.app)
        let status: Int
        let reason: String
    }

    static let refused = [
        Refused(
            testDescription: "signed under another root",
            body: SignedBody.make(signer: JWSSigner(TestCertificates(.labelled("another")))), status: 403,
            reason: "chain_untrusted"),
        Refused(
            testDescription: "not signed by the key of its certificates",
            body: SignedBody.make(
                signer: JWSSigner(key: TestKeys.p256("other"), x5c: TestCertificates.standard.x5c)), status: 403,
            reason: "signature_wrong"),
        Refused(
            testDescription: "signed with another algorithm, as its header says",
            body: SignedBody.make(signer: JWSSigner(.standard, algorithm: "none")), status: 403,
            reason: "jws_algorithm"),
        Refused(
            testDescription: "of an app that is not configured", body: SignedBody.make(app: "com.example.other"),
            status: 503, reason: "app_unknown"),
        Refused(
            testDescription: "of an environment that the app does not accept", body: SignedBody.make(),
            app: App(bundleId: SignedBody.app, environments: [.production]), status: 403,
            reason: "environment_refused"),
        Refused(
            testDescription: "of another App Store id",
            body: SignedBody.make(environment: "Production"), app: App(bundleId: SignedBody.app, appAppleId: 1),
            status: 403, reason: "apple_id_wrong"),
        Refused(
            testDescription: "of Xcode, without Apple's signature", body: SignedBody.make(environment: "Xcode"),
            status: 403,
            reason: "environment_refused"),
        Refused(
            testDescription: "no JWS", body: Array("{\"signedPayload\":\"e30.e30\"}".utf8), status: 400,
            reason: "jws_segments"),
    ]

    @Test("a notification that fails verification is rejected with its reason and stores nothing", arguments: refused)
    func isRefused(_ refused: Refused) async throws {
        try await Self.withServer(refused.app) { server in
            let answer = try await server.apple.post(refused.body)

            #expect(answer.status == refused.status)
            #expect((answer.json["error"] as? String)?.isEmpty == false)
            #expect(server.logs.text.contains(refused.reason))
            #expect(!server.logs.text.contains("2000000000000001"))
            #expect(try await server.sql("select count(*)::text from subledger.stream") == ["0"])
            #expect(try await server.sql("select count(*)::text from subledger.event_conflict") == ["0"])
        }
    }

    @Test("shuffled and repeated stories in both versions give the simulator's expected answers")
    func stories() async throws {
        let secret = "0123456789abcdef0123456789abcdef"
        var settings = Simulation.Settings(
            app: SimulatedApp(bundleId: SignedBody.app, environment: .sandbox, sharedSecret: secret))
        settings.app.receiptCharacters = 64
        settings.subscriptions = 30
        settings.seed = TestSeed.value
        settings.format = .both
        settings.order = .shuffled
        settings.duplicate = 0.2
        let simulation = try #require(Simulation(settings))
        let app = App(bundleId: SignedBody.app, sharedSecrets: [secret])

        try await TestBundle.withServer(apps: [app], roots: SignedBody.roots, now: { Clock.late }) { server in
            for delivery in simulation.deliveries {
                #expect(try await server.apple.post(delivery.body()).status == 200)
            }
            try await server.isFolded()

            var compared = 0
            for answer in simulation.answers {
                let found = try await server.backend.get(
                    "/subscriptions/\(answer.originalTransactionId)?environment=sandbox&at=\(answer.at)")
                #expect((found.json["active"] as? Bool ?? false) == answer.active, "\(answer)")
                compared += 1
            }
            #expect(compared > 100)
        }
    }

    private enum Clock {
        /// After all stories.
        static let late = Instant(iso8601: "2026-11-01T00:00:00Z") ?? .latest
    }
}

extension TestCertificates.Shape {
    fileprivate static func labelled(_ label: String) -> Self {
        var shape = Self()
        shape.label = label
        return shape
    }
}
