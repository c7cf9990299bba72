import Foundation
import Testing

@testable import SubledgerClient

@Suite("The client loses no purchase, and locks no customer out")
struct SubledgerTests {
    @Test("a purchase is handed in as it was signed, finished, and granted by the server's signed answer")
    func purchase() async throws {
        let app = TestApp()
        try await app.start()

        let entitlements = try await app.subledger.purchase("pro.monthly")

        #expect(entitlements.active.map(\.id) == ["pro"])
        #expect(entitlements.active.map(\.source) == [.server])
        #expect(entitlements.active.first?.until == Device.start.addingTimeInterval(30 * TestApp.day))
        #expect(entitlements.trust == .verified)
        #expect(entitlements.position == 1)
        #expect(await app.store.unfinished() == [])
        let request = try #require(app.server.requests.first { $0.method == "POST" })
        #expect(request.path == "/transactions?app=com.example.app&environment=any")
        let text = try #require(app.store.allSales.first.map(FakeServer.sign))
        let body = try #require(String(data: request.body ?? Data(), encoding: .utf8))
        #expect(body == #"{"customerId":"0a11ce00-0000-4000-8000-000000000001","signedTransaction":["\#(text)"]}"#)
        #expect(app.server.wrongs == [])
    }

    @Test(
        "server away for three days, ten purchases, app killed fifty times: each handed in, none finished before it was stored"
    )
    func away() async throws {
        let app = TestApp()
        app.server.setAway(true)
        var purchases = 0
        for kill in 0..<50 {
            try await app.start()
            if kill % 5 == 0 {
                // Killed before, while and after it buys and hands in.
                app.run.kill(after: 1 + kill / 5)
                _ = try? await app.subledger.purchase("weekly")
                purchases += 1
            }
            app.device.pass(3 * TestApp.day / 50)
            app.relaunch()
        }
        let sold = app.store.allSales.count
        let finishedWhileAway = sold - (await app.store.unfinished()).count
        app.server.setAway(false)
        try await app.start()
        let entitlements = try await app.subledger.refresh()

        #expect(purchases == 10)
        #expect(sold == 10)
        #expect(finishedWhileAway == 0)
        #expect(app.server.storedIds == Set(app.store.allSales.map(\.id)))
        #expect(await app.store.unfinished() == [])
        #expect(app.server.wrongs == [])
        #expect(entitlements.isActive("weekly"))
    }

    @Test("without the server, a purchase is granted by the device, and handed in after a pause that doubles")
    func pause() async throws {
        let app = TestApp()
        try await app.start()
        app.server.setAway(true)

        let offline = try await app.subledger.purchase("pro.monthly")
        // The random part is half.
        for pause in [0.75, 1.5, 3, 6] {
            #expect(await app.device.isAwaited(app.device.time.addingTimeInterval(pause)))
            app.device.pass(pause)
        }
        #expect(await app.device.isAwaited(app.device.time.addingTimeInterval(12)))
        app.server.setAway(false)
        app.device.pass(12)
        let deadline = ContinuousClock.now + .seconds(120)
        while await app.store.unfinished() != [], ContinuousClock.now < deadline { await Task.yield() }

        #expect(offline.active.map(\.source) == [.device])
        #expect(offline.trust == .unverified)
        #expect(await app.store.unfinished() == [])
        #expect(app.server.handIns == 1)
        #expect(app.server.wrongs == [])
    }

    @Test("what the server refuses is not finished, grants nothing, and does not hold others up")
    func refused() async throws {
        let app = TestApp()
        try await app.start()
        app.server.refuse(product: "books", status: 422)

        await #expect(throws: SubledgerError.refused(status: 422, detail: "refused")) {
            try await app.subledger.purchase("books")
        }
        let after = try await app.subledger.purchase("pro.monthly")

        #expect(after.active.map(\.id) == ["pro"])
        #expect(await app.store.unfinished().map(\.productId) == ["books"])
    }

    @Test("a text that the device cannot verify is handed in, and granted only once the server says so")
    func unverified() async throws {
        let app = TestApp()
        try await app.start()
        app.store.will(.unverified)
        app.server.setAway(true)
        let offline = try await app.subledger.purchase("pro.monthly")
        app.server.setAway(false)
        let online = try await app.subledger.refresh()

        #expect(offline.active == [])
        #expect(online.active.map(\.source) == [.server])
    }

    @Test("Ask to Buy approved a week later: nothing before, and everything without a call of the app")
    func askToBuy() async throws {
        let app = TestApp()
        try await app.start()
        app.store.will(.pending)

        await #expect(throws: SubledgerError.purchasePending) { try await app.subledger.purchase("pro.monthly") }
        let before = await app.active()
        app.device.pass(7 * TestApp.day)
        app.store.approve()
        await app.settle(afterUpdates: 1)

        #expect(before == [:])
        #expect(await app.active() == ["pro": .server])
        #expect(app.server.wrongs == [])
    }

    @Test("a refund while the app is open ends access once the server has it, and is announced")
    func refund() async throws {
        let app = TestApp()
        try await app.start()
        _ = try await app.subledger.purchase("pro.monthly")
        let id = try #require(app.store.allSales.first?.id)
        var announced = app.subledger.entitlements.makeAsyncIterator()
        let before = await announced.next()
        app.device.pass(86_401)

        app.store.refund(id)
        await app.settle(afterUpdates: 1)
        let after = await announced.next()

        #expect(before?.isActive("pro") == true)
        #expect(after?.active == [])
        #expect(after?.trust == .verified)
        #expect(await app.store.unfinished() == [])
    }

    @Test("the observer started twice is an error, for the same object and for another one with the same store")
    func twice() async throws {
        let app = TestApp()
        try await app.start()
        let other = Subledger(app.configuration, store: app.run, transport: app.run, cache: app.run, clock: app.device)

        await #expect(throws: SubledgerError.alreadyStarted) { try await app.start() }
        await #expect(throws: SubledgerError.alreadyStarted) {
            try await other.start(user: TestApp.alice, assertion: NoAssertion())
        }
        app.store.sell("pro.monthly", to: TestApp.alice)
        await app.settle(afterUpdates: 1)

        #expect(app.server.handIns == 1)
    }

    @Test("restoring with nothing to restore says so")
    func nothing() async throws {
        let app = TestApp()
        try await app.start()

        let restored = try await app.subledger.restore()

        #expect(restored.productIds == [])
        #expect(restored.entitlements.active == [])
        #expect(app.server.handIns == 0)
    }

    @Test("restoring hands in everything that the store account has, finished or not, and says what was refused")
    func restoring() async throws {
        let app = TestApp()
        for product in ["pro.monthly", "books"] { app.store.sell(product, to: TestApp.alice) }
        for transaction in await app.store.unfinished() { await app.store.finish(transaction) }
        try await app.start()
        app.server.refuse(product: "books", status: 422)
        let before = await app.active()

        let restored = try await app.subledger.restore()

        #expect(before == ["pro": .device, "books": .device])
        #expect(restored.productIds == ["books", "pro.monthly"])
        #expect(restored.refused == ["books"])
        #expect(restored.entitlements.active.map(\.id) == ["pro"])
    }

    @Test("two users on one device, one after the other: neither gets or hands in what the other bought")
    func twoUsers() async throws {
        let app = TestApp()
        try await app.start(TestApp.alice)
        app.server.setAway(true)
        _ = try await app.subledger.purchase("pro.monthly")
        await app.subledger.signOut()
        app.server.setAway(false)
        try await app.start(TestApp.bob)
        _ = try await app.subledger.purchase("weekly")
        let ofBob = await app.active()
        let unfinished = await app.store.unfinished().map(\.productId)
        await app.subledger.signOut()
        let nobody = await app.active()
        try await app.start(TestApp.alice)

        #expect(ofBob == ["weekly": .server])
        #expect(unfinished == ["pro.monthly"])
        #expect(nobody == [:])
        #expect(await app.active() == ["pro": .server])
        #expect(await app.store.unfinished() == [])
        #expect(app.server.wrongs == [])
    }

    @Test("the nil UUID is no user, and calls without a user say so")
    func users() async throws {
        let app = TestApp()
        let zero = try #require(UUID(uuidString: "00000000-0000-0000-0000-000000000000"))

        await #expect(throws: SubledgerError.userIsNil) { try await app.start(zero) }
        await #expect(throws: SubledgerError.notStarted) { try await app.subledger.refresh() }
        await #expect(throws: SubledgerError.notStarted) { try await app.subledger.purchase("books") }
        await #expect(throws: SubledgerError.notStarted) { try await app.subledger.restore() }
    }
}
