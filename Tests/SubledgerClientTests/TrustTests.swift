import Crypto
import Foundation
import Testing

@testable import SubledgerClient

@Suite("What is granted without the server, and what is not believed")
struct TrustTests {
    /// An app whose user has bought a month and has a signed answer.
    private static func bought(
        _ product: String = "pro.monthly", deviceGrants: Configuration.DeviceGrants = .sinceLastAnswer
    ) async throws -> TestApp {
        let app = TestApp(deviceGrants: deviceGrants)
        try await app.start()
        _ = try await app.subledger.purchase(product)
        return app
    }

    @Test("a kept answer grants until validUntil without the server, after any number of launches")
    func kept() async throws {
        let app = try await Self.bought()
        app.server.setAway(true)
        app.relaunch()
        try await app.start()
        let relaunched = await app.active()
        app.device.pass(7 * TestApp.day - 1)
        app.relaunch()
        try await app.start()
        let last = await app.subledger.current()
        app.device.pass(1)
        let after = await app.subledger.current()

        #expect(relaunched == ["pro": .cached])
        #expect(last.active.map(\.source) == [.cached])
        #expect(last.trust == .verified)
        #expect(after.active == [])
        #expect(after.trust == .expired)
    }

    @Test("revoked while offline: kept to validUntil, then gone")
    func revoked() async throws {
        let app = try await Self.bought()
        app.server.setAway(true)
        let id = try #require(app.store.allSales.first?.id)
        app.store.refund(id)
        await app.settle(afterUpdates: 1)
        let during = await app.active()
        app.device.pass(7 * TestApp.day)

        #expect(during == ["pro": .server])
        #expect(await app.active() == [:])
    }

    @Test("an entitlement ends at its own end, before validUntil, without a call of the app")
    func ends() async throws {
        let app = try await Self.bought("weekly")
        app.device.pass(3 * TestApp.day)
        _ = try await app.subledger.purchase("pro.monthly")
        var announced = app.subledger.entitlements.makeAsyncIterator()
        let both = await announced.next()
        app.server.setAway(true)
        #expect(await app.device.isAwaited(Device.start.addingTimeInterval(7 * TestApp.day)))
        app.device.pass(4 * TestApp.day)
        let one = await announced.next()

        #expect(both?.active.map(\.id) == ["pro", "weekly"])
        #expect(one?.active.map(\.id) == ["pro"])
        #expect(one?.trust == .verified)
    }

    @Test("after the last answer, the device grants only newer purchases; or all current ones, if the app chooses so")
    func deviceGrants() async throws {
        for (choice, expected) in [
            (Configuration.DeviceGrants.sinceLastAnswer, ["weekly": Entitlement.Source.device]),
            (.withoutAnswer, ["pro": .device, "weekly": .device]), (.none, [:]),
        ] {
            let app = try await Self.bought(deviceGrants: choice)
            app.server.setAway(true)
            app.device.pass(6 * TestApp.day)
            _ = try await app.subledger.purchase("weekly")
            app.device.pass(2 * TestApp.day)

            #expect(await app.active() == expected, "\(choice)")
        }
    }

    @Test("clock 30 days back: suspect, and nothing lasts longer by it")
    func clockBack() async throws {
        let app = try await Self.bought()
        app.server.setAway(true)
        app.device.pass(TestApp.day)
        app.device.setClock(wrongBy: -30 * TestApp.day)
        let back = await app.subledger.current()
        app.relaunch()
        try await app.start()
        let relaunched = await app.subledger.current()
        app.device.pass(6 * TestApp.day)
        let after = await app.subledger.current()

        for entitlements in [back, relaunched] {
            #expect(entitlements.trust == .clockSuspect)
            #expect(entitlements.isActive("pro"))
            #expect(abs(entitlements.asOf.timeIntervalSince(Device.start) - TestApp.day) < 1)
        }
        #expect(after.active == [])
    }

    @Test("clock 30 days back and the device started again: suspect, and the time that has passed stays passed")
    func clockBackAndRestart() async throws {
        let app = try await Self.bought()
        app.server.setAway(true)
        app.device.pass(5 * TestApp.day)
        _ = await app.subledger.current()
        app.device.setClock(wrongBy: -30 * TestApp.day)
        app.device.restart()
        app.relaunch()
        try await app.start()
        let restarted = await app.subledger.current()
        app.device.pass(2 * TestApp.day)
        let after = await app.subledger.current()
        app.server.setAway(false)
        let asked = try await app.subledger.refresh()

        #expect(restarted.trust == .clockSuspect)
        #expect(restarted.isActive("pro"))
        #expect(after.active == [])
        // The clock is still wrong, and the server's answer counts.
        #expect(asked.isActive("pro"))
        #expect(asked.trust == .clockSuspect)
    }

    @Test("a clock set forward by a year locks nobody out while the device runs")
    func clockForward() async throws {
        let app = try await Self.bought()
        app.server.setAway(true)
        app.device.setClock(wrongBy: 365 * TestApp.day)
        app.relaunch()
        try await app.start()

        #expect(await app.active() == ["pro": .cached])
        #expect(await app.subledger.current().trust == .verified)
    }

    @Test("a clock before the answer was issued is suspect")
    func beforeIssue() async throws {
        let app = TestApp()
        app.device.setClock(wrongBy: -TestApp.day)
        try await app.start()

        let entitlements = try await app.subledger.purchase("pro.monthly")

        #expect(entitlements.trust == .clockSuspect)
        #expect(entitlements.isActive("pro"))
    }

    @Test(
        "a token of another customer, of another app, expired, of another kind or of another key is not believed",
        arguments: [
            (FakeServer.Lie(customer: TestApp.bob.uuidString.lowercased()), "otherCustomer"),
            (FakeServer.Lie(app: "com.example.other"), "otherApp"),
            (FakeServer.Lie(validUntil: Device.start), "expired"), (FakeServer.Lie(type: "JWT"), "otherKind"),
            (FakeServer.Lie(key: Curve25519.Signing.PrivateKey()), "signature"),
        ])
    func lies(_ lie: FakeServer.Lie, reason: String) async throws {
        let app = try await Self.bought()
        app.device.pass(TestApp.day)
        _ = try await app.subledger.refresh()
        let text = app.server.signedAnswer(TestApp.alice.uuidString.lowercased(), lie)
        app.server.answerNext(ClientResponse(status: 200, body: Data(text.utf8)))

        await #expect(throws: SubledgerError.answer(reason)) { try await app.subledger.refresh() }

        #expect(await app.active() == ["pro": .server])
    }

    @Test("a token with one bit changed is not believed, whichever bit it is, from the server or from the cache")
    func bits() async throws {
        let app = try await Self.bought()
        let customer = TestApp.alice.uuidString.lowercased()
        let text = Array(app.server.signedAnswer(customer).utf8)
        let expected = EntitlementToken.Expectation(
            keys: [app.server.publicKey], app: FakeServer.app, customerId: customer, environment: "production")
        #expect((try? EntitlementToken(String(decoding: text, as: UTF8.self), expected))?.grants.map(\.id) == ["pro"])
        for place in text.indices {
            for bit in 0..<8 {
                var changed = text
                changed[place] ^= 1 << bit
                #expect((try? EntitlementToken(String(decoding: changed, as: UTF8.self), expected)) == nil)
            }
        }

        let kept = try #require(app.cache.read(TestApp.alice))
        var answer = try JSONDecoder().decode(CachedAnswer.self, from: kept)
        answer.token?.removeLast()
        app.cache.write(try JSONEncoder().encode(answer), TestApp.alice)
        app.server.setAway(true)
        app.relaunch()
        try await app.start()
        #expect(await app.subledger.current().trust == .unverified)
    }

    @Test(
        "an end is read as the server writes it, and nothing else is an end",
        arguments: [
            ("1970-01-01T00:00:00.000Z", 0), ("2025-09-26T21:18:25.250Z", 1_758_921_505.25),
            ("2024-02-29T23:59:59.999Z", 1_709_251_199.999), ("9999-12-31T23:59:59.999Z", 253_402_300_799.999),
            ("2025-09-26T21:18:25Z", nil), ("2025-13-01T00:00:00.000Z", nil), ("2025-09-26T24:00:00.000Z", nil),
            ("2025-09-26 21:18:25.250Z", nil), ("", nil), ("2025-09-26T21:18:25.25٠Z", nil),
        ] as [(String, Double?)])
    func instants(_ text: String, seconds: Double?) {
        #expect(Timestamp.date(text).map { ($0.timeIntervalSince1970 * 1000).rounded() } == seconds.map { $0 * 1000 })
    }

    @Test("an older token than the last one is not believed, though it is signed and valid")
    func older() async throws {
        let app = TestApp()
        try await app.start()
        _ = try await app.subledger.purchase("pro.monthly")
        let old = app.server.signedAnswer(TestApp.alice.uuidString.lowercased())
        app.device.pass(TestApp.day)
        app.store.refund("1")
        await app.settle(afterUpdates: 1)
        app.server.answerNext(ClientResponse(status: 200, body: Data(old.utf8)))

        await #expect(throws: SubledgerError.self) { try await app.subledger.refresh() }

        #expect(await app.active() == [:])
    }

    @Test("an answer that has not changed is confirmed without its text")
    func unchanged() async throws {
        let app = try await Self.bought()
        app.relaunch()
        try await app.start()

        #expect(await app.active() == ["pro": .server])
        let reads = app.server.requests.filter { $0.method == "GET" }
        #expect(reads.last?.headers["If-None-Match"] != nil)
    }

    @Test("a server that knows no customer, or answers an error, takes nothing away")
    func errors() async throws {
        let app = try await Self.bought()
        app.server.answerNext(FakeServer.problem(404, "no customer"))
        let missing = try await app.subledger.refresh()
        app.server.answerNext(ClientResponse(status: 503, headers: ["Retry-After": "5"]))

        await #expect(throws: SubledgerError.unavailable(status: 503, retryAfter: 5)) {
            try await app.subledger.refresh()
        }

        #expect(missing.isActive("pro"))
        #expect(await app.active() == ["pro": .server])
    }

    @Test("an assertion that the server refuses is replaced once")
    func assertions() async throws {
        struct Assertion: UserAssertion {
            func text(isRenewal: Bool) async throws -> String? { isRenewal ? "new" : "old" }
        }
        let app = TestApp()
        app.server.setAway(true)
        try await app.subledger.start(user: TestApp.alice, customerId: "u/1", assertion: Assertion())
        await app.settle()
        app.server.setAway(false)
        app.server.answerNext(FakeServer.problem(401, "expired"))

        _ = try await app.subledger.refresh()

        #expect(app.server.requests.map { $0.headers["Subledger-Assertion"] } == ["old", "new"])
        #expect(app.server.requests.allSatisfy { $0.path.hasPrefix("/customers/u%2F1/entitlements?") })
    }

    @Test("a purchase whose assertion is refused twice is granted by the device, and handed in later")
    func refusedAssertion() async throws {
        let app = TestApp()
        try await app.start()
        app.server.setAway(true)
        _ = try await app.subledger.purchase("weekly")
        app.server.setAway(false)
        app.server.answerNext(FakeServer.problem(401, "expired"), FakeServer.problem(401, "expired"))
        _ = try? await app.subledger.refresh()
        let between = await app.store.unfinished().count
        _ = try await app.subledger.refresh()

        #expect(between == 1)
        #expect(await app.store.unfinished() == [])
    }
}
