import AppStore
import Crypto
import Encoding
import EventLog
import Foundation
import HTTPServer
import Simulation
import SubledgerClient
import TestSupport
import Testing

@Suite("The client library against a server")
struct ClientTests {
    private static let user = UUID(uuidString: "7a3d1f52-8c4e-4a57-9c55-2b6f0c9d8e11") ?? UUID()
    private static let app = SignedBody.app

    /// The clocks of a device that is at the server's time.
    private struct FixedClock: TrustedClock {
        var now: Date { Date(timeIntervalSince1970: Double(TestBundle.now.milliseconds) / 1000) }
        var uptime: TimeInterval { 1000 }
        var bootId: String? { "boot" }

        /// Really: the client tries again after a pause, as when the server did not answer in time.
        func sleep(seconds: TimeInterval) async { try? await Task.sleep(for: .seconds(seconds)) }
    }

    private struct Backend: UserAssertion {
        func text(isRenewal: Bool) async throws -> String? {
            AssertionText.hs256(AssertionText.claims(ClientTests.user.uuidString.lowercased()))
        }
    }

    /// A transaction of production, as Apple signs it.
    private static func sign(_ sale: FakeStore.Sale) -> String {
        let id = "\(2_000_000_000_000_000 + (Int(sale.id) ?? 0))"
        func milliseconds(_ date: Date?) -> Int64 { Int64((date?.timeIntervalSince1970 ?? 0) * 1000) }
        let revocation = sale.revocationDate.map { ",\"revocationDate\":\(milliseconds($0)),\"revocationReason\":0" }
        let payload = """
            {"transactionId":"\(id)","originalTransactionId":"\(id)","bundleId":"\(app)","productId":"\(sale.productId)",\
            "purchaseDate":\(milliseconds(sale.purchaseDate)),"expiresDate":\(milliseconds(sale.expirationDate)),\
            "appAccountToken":"\(sale.user?.uuidString.lowercased() ?? "")","type":"Auto-Renewable Subscription",\
            "environment":"Production","price":480000,"currency":"JPY",\
            "signedDate":\(sale.revocationDate == nil ? 1_757_000_000_000 : 1_757_000_001_000)\(revocation ?? "")}
            """
        return String(decoding: JWSSigner(.standard).sign(Array(payload.utf8)), as: UTF8.self)
    }

    private static func makeClient(
        _ server: TestBundle, _ token: String, _ store: FakeStore, _ folder: String,
        key: HeadKey = TestBundle.headKey, port: Int? = nil
    ) throws -> Subledger {
        let key = Base64.text(key.publicKey.bytes, .url)
        let base = try #require(URL(string: "http://127.0.0.1:\(port ?? server.backend.port)/"))
        return Subledger(
            Configuration(app: app, keys: [try #require(ServerKey(key))]), store: store,
            transport: URLSessionTransport(base: base, publishableToken: token),
            cache: FileCache(folder: URL(fileURLWithPath: folder)), clock: FixedClock())
    }

    private static func makeStore() -> FakeStore {
        FakeStore(
            [
                FakeStore.Plan(
                    StoreProduct(id: "monthly", displayName: "Monthly", displayPrice: "¥480"), seconds: 2_592_000)
            ], clock: FixedClock(), sign: Self.sign)
    }

    @Test("an old app version, with an old key, hands in over the public listener, and believes no answer")
    func oldKey() async throws {
        let folder = TestFolder.path("client-old-key")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let keys = try #require(AssertionKeys(secrets: [AssertionText.secret], publicKeys: []))
        try await TestBundle.withServer(
            apps: [App(bundleId: Self.app)], roots: SignedBody.roots, assertions: [Self.app: keys], publicApps: true
        ) { server in
            let token = try await TestBundle.token(.publishable, server.database, app: Self.app)
            let store = Self.makeStore()
            let port = server.apple.port
            let old = try Self.makeClient(server, token, store, folder, key: HeadKey(), port: port)
            let new = try Self.makeClient(server, token, store, folder, port: port)
            try await old.start(user: Self.user, assertion: Backend())
            let bought = try await old.purchase("monthly")
            _ = try await eventually("the purchase is handed in") { await store.unfinished().isEmpty ? true : nil }
            try await server.isFolded()
            await #expect(throws: SubledgerError.answer("signature")) { try await old.refresh() }
            await old.signOut()
            try await new.start(user: Self.user, assertion: Backend())
            let refreshed = try await new.refresh()
            await new.signOut()

            #expect(bought.active.map(\.source) == [.device])
            #expect(bought.trust == .unverified)
            #expect(
                try await server.sql("select count(*)::text from subledger.event where kind = 'transaction'") == ["1"])
            #expect(refreshed.active.map(\.source) == [.server])
        }
    }

    @Test("a purchase is handed in, finished and verified; a restart knows it, and restoring finds it again")
    func purchase() async throws {
        let folder = TestFolder.path("client")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let keys = try #require(AssertionKeys(secrets: [AssertionText.secret], publicKeys: []))
        try await TestBundle.withServer(
            apps: [App(bundleId: Self.app)], roots: SignedBody.roots, assertions: [Self.app: keys]
        ) { server in
            let token = try await TestBundle.token(.publishable, server.database, app: Self.app)
            let store = Self.makeStore()
            let client = try Self.makeClient(server, token, store, folder)
            try await client.start(user: Self.user, assertion: Backend())

            let nothing = try await client.refresh()
            let bought = try await client.purchase("monthly")
            _ = try await eventually("the purchase is handed in") { await store.unfinished().isEmpty ? true : nil }
            try await server.isFolded()
            let refreshed = try await client.refresh()
            await client.signOut()
            let restarted = try Self.makeClient(server, token, store, folder)
            try await restarted.start(user: Self.user, assertion: Backend())
            let known = await restarted.current()
            let restored = try await restarted.restore()

            #expect(nothing.active == [] && nothing.trust == .unverified)
            #expect(bought.isActive("monthly"))
            #expect(refreshed.active.map(\.id) == ["monthly"] && refreshed.active.map(\.source) == [.server])
            #expect(refreshed.trust == .verified)
            #expect(refreshed.active.first?.until == FixedClock().now.addingTimeInterval(2_592_000))
            #expect(await store.unfinished() == [])
            #expect(known.isActive("monthly") && known.trust == .verified)
            #expect(restored.productIds == ["monthly"] && restored.refused == [])
            #expect(
                try await server.sql("select count(*)::text from subledger.event where kind = 'transaction'") == ["1"])

            let id = try #require(store.allSales.first?.id)
            store.refund(id)
            _ = try await eventually("the refund is handed in, and access has ended") {
                try await server.isFolded()
                return try await restarted.refresh().active.isEmpty ? true : nil
            }
            await restarted.signOut()
        }
    }
}
