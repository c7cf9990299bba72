import AppStore
import Simulation
import Subscriptions
import Testing

@Suite("App and environment of signed notifications")
struct V2AppTests {
    private static let signedAt = "2024-06-01"
    private let renewal = V2Body("DID_RENEW", at: V2AppTests.signedAt, v2Row("2", "2024-06-01", "2024-07-01"))

    private func body(
        _ environment: String, appAppleId: JSON? = .raw(String(testAppleId)), bundleId: JSON? = .text(testBundle)
    ) -> V2Body {
        V2Body(
            "DID_RENEW", at: Self.signedAt, v2Row("2", "2024-06-01", "2024-07-01"), v2Renewal(),
            environment: environment
        ).changing {
            $0.payload["data", "appAppleId"] = appAppleId
            $0.payload["data", "bundleId"] = bundleId
        }
    }

    @Test("a notification of an app that is not configured is rejected")
    func otherApp() async {
        let other = body("Production", bundleId: "com.example.other").signed()

        #expect(await V2Receiver().refusal(other) == .appUnknown)
        #expect(await V2Receiver([]).refusal(renewal.signed()) == .appUnknown)
        #expect(await V2Receiver().refusal(body("Production", bundleId: "COM.example.magazine").signed()) != nil)
    }

    @Test("a notification without an app is rejected")
    func noApp() async {
        let empty = V2Body("TEST", at: Self.signedAt).changing { $0.payload["data"] = nil }

        #expect(await V2Receiver().refusal(body("Production", bundleId: nil).signed()) == .appMissing)
        #expect(await V2Receiver().refusal(empty.signed()) == .appMissing)
    }

    @Test("a forged body of an unknown app fails signature verification first")
    func signatureFirst() async {
        let forged = body("Production", bundleId: "com.example.other").signed(by: JWSSigner(.stranger))

        #expect(await V2Receiver().refusal(forged) == .unverified(.untrusted, .notification))
    }

    @Test(
        "a wrong or missing App Store id is rejected in production",
        arguments: [JSON.raw("987654321"), .text("x"), nil] as [JSON?])
    func otherAppleId(id: JSON?) async {
        #expect(
            await V2Receiver().refusal(body("Production", appAppleId: id).signed()) == .appleIdWrong(app: testBundle))
    }

    @Test("the App Store id is not checked in the sandbox")
    func appleIdInSandbox() async {
        #expect(await V2Receiver().refusal(body("Sandbox", appAppleId: 987_654_321).signed()) == nil)
        #expect(await V2Receiver().refusal(body("Sandbox", appAppleId: nil).signed()) == nil)
    }

    @Test("an app without a configured App Store id accepts any")
    func appleIdNotConfigured() async {
        let receiver = V2Receiver([App(bundleId: testBundle)])

        #expect(await receiver.refusal(body("Production", appAppleId: 987_654_321).signed()) == nil)
        #expect(await receiver.refusal(body("Production", appAppleId: nil).signed()) == nil)
    }

    @Test(
        "a notification of an environment that the app does not accept is rejected",
        arguments: [("Sandbox", Environment.production), ("Production", .sandbox)])
    func otherEnvironment(name: String, only: Environment) async {
        let receiver = V2Receiver([App(bundleId: testBundle, environments: [only])])

        #expect(await receiver.refusal(body(name).signed()) == .environmentRefused(app: testBundle))
    }

    @Test("sandbox and production have separate streams")
    func streams() async throws {
        let production = try await V2Receiver().take(body("Production").signed())
        let sandbox = try await V2Receiver().take(body("Sandbox").signed())

        #expect(production.stream == StreamKey(app: testBundle, environment: .production))
        #expect(sandbox.stream == StreamKey(app: testBundle, environment: .sandbox))
    }

    @Test("an authentic notification of an unrecognized environment is stored in a separate stream")
    func unknownEnvironment() async throws {
        let verified = try await V2Receiver().take(body("Staging").signed())

        #expect(verified.stream == StreamKey(app: testBundle, environment: .unknown))
        #expect(
            await V2Receiver().refusal(body("Staging").signed(by: JWSSigner(.stranger)))
                == .unverified(.untrusted, .notification))
    }

    @Test(
        "a misspelled environment is not stored as the other environment",
        arguments: [
            ("production", Environment.sandbox), ("PROD", .sandbox), ("SANDBOX", .production),
            ("Sandbox ", .production),
        ])
    func spelling(name: String, other: Environment) async throws {
        let verified = try await V2Receiver().take(body(name).signed())

        #expect(verified.stream.environment != other)
        #expect(verified.event.environment == verified.stream.environment)
    }

    @Test("an empty environment name is unknown")
    func emptyName() async throws {
        #expect(try await V2Receiver().take(body("").signed()).stream.environment == .unknown)
    }
}

/// Anyone can sign data of Xcode and local testing. No content of a body may make other data pass without Apple's
/// signature.
@Suite("Notifications not signed by Apple")
struct V2LocalEnvironmentTests {
    private static let locals: [(String, Environment)] = [("Xcode", .xcode), ("LocalTesting", .localTesting)]
    private let signer = JWSSigner(.stranger)
    private let receiver = V2Receiver([
        App(
            bundleId: testBundle, appAppleId: Int64(testAppleId),
            environments: [.production, .sandbox, .xcode, .localTesting])
    ])

    private func body(_ environment: String) -> V2Body {
        V2Body(
            "DID_RENEW", at: "2024-06-01", v2Row("2", "2024-06-01", "2024-07-01"), v2Renewal(),
            environment: environment)
    }

    @Test("local notifications are rejected unless the app allows their environment", arguments: locals)
    func refused(name: String, environment: Environment) async {
        let production = V2Receiver([App(bundleId: testBundle, environments: [.production])])

        for receiver in [V2Receiver(), production] {
            #expect(await receiver.refusal(body(name).signed(by: signer)) == .environmentRefused(app: testBundle))
            #expect(await receiver.refusal(body(name).unsigned) == .environmentRefused(app: testBundle))
            #expect(await receiver.refusal(body(name).signed()) == .environmentRefused(app: testBundle))
        }
    }

    @Test("local notifications are stored in a separate stream if the app allows them", arguments: locals)
    func taken(name: String, environment: Environment) async throws {
        for body in [body(name).signed(by: signer), body(name).unsigned] {
            let verified = try await receiver.take(body)

            #expect(verified.stream == StreamKey(app: testBundle, environment: environment))
            #expect(verified.event.environment == environment)
            #expect(verified.chain == nil)
        }
    }

    @Test("allowing one local environment does not allow the other")
    func oneOfTwo() async {
        let receiver = V2Receiver([App(bundleId: testBundle, environments: [.production, .xcode])])

        #expect(await receiver.refusal(body("LocalTesting").unsigned) == .environmentRefused(app: testBundle))
    }

    @Test("a production or sandbox part inside a local notification is rejected", arguments: InnerPart.allCases)
    func partOfTheStore(part: InnerPart) async {
        for name in ["Production", "Sandbox"] {
            let body = part.changing(part.body(environment: "Xcode")) {
                $0.with([part == .appTransaction ? "receiptType" : "environment": .text(name)])
            }

            #expect(await receiver.refusal(body.unsigned) == .mismatch(part.part))
        }
    }

    @Test("an unsigned body that names two environments is not stored in a stream of the App Store")
    func twoEnvironments() async {
        let subject = { (name: String) -> JSON in
            [
                "appAppleId": .raw(String(testAppleId)), "bundleId": .text(testBundle), "environment": .text(name),
            ]
        }
        let base = body("Xcode").payload
        let bodies: [JSON] = ["Production", "Sandbox"].flatMap { store -> [JSON] in
            let twice = { (first: String, second: String) -> JSON in
                .object([
                    ("bundleId", .text(testBundle)), ("environment", .text(first)), ("environment", .text(second)),
                ])
            }
            let members = { (first: JSON, second: JSON) -> JSON in
                .object([("notificationType", "TEST"), ("data", first), ("data", second)])
            }
            return [
                base.with(["data": twice("Xcode", store)]), base.with(["data": twice(store, "Xcode")]),
                members(subject("Xcode"), subject(store)), members(subject(store), subject("Xcode")),
                base.with(["data": subject("Xcode"), "summary": subject(store)]),
                base.with(["data": subject(store), "summary": subject("Xcode")]),
                base.with(["data": subject("Xcode"), "appData": subject(store)]),
                base.with(["data": subject(store), "appData": subject("Xcode")]),
                base.with(["data": subject("Xcode"), "externalPurchaseToken": ["externalPurchaseId": "a"]]),
                base.with(["environment": "Xcode", "data": subject(store)]),
            ]
        }

        for payload in bodies {
            let verified = try? await receiver.take(envelope(unsignedJWS(payload)))

            #expect(verified == nil || verified?.stream.environment == .xcode, "\(payload.written)")
            #expect(verified?.event.environment == verified?.stream.environment)
        }
    }

    @Test("a notification of an App Store environment or without an environment needs Apple's signature")
    func storesStaySigned() async {
        for name in ["Production", "Sandbox", "PRODUCTION", "sandbox", "Staging", ""] {
            let refusal = await receiver.refusal(body(name).signed(by: signer))

            #expect(refusal == .unverified(.untrusted, .notification), "\(name)")
        }
        for name in ["xcode", "XCODE", "Xcode ", " Xcode", "localtesting", "local_testing"] {
            let verified = try? await receiver.take(body(name).signed(by: signer))

            #expect(verified == nil || verified?.chain == nil && verified?.event.environment.isLocal == true, "\(name)")
        }
        let none = body("Xcode").changing { $0.payload["data", "environment"] = nil }
        #expect(await receiver.refusal(none.signed(by: signer)) == .unverified(.untrusted, .notification))
    }
}
