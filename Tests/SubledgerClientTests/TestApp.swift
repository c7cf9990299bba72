import Foundation

@testable import SubledgerClient

/// An app on a device, with a store and a server that outlive it.
final class TestApp {
    static let alice = UUID(uuidString: "0A11CE00-0000-4000-8000-000000000001") ?? UUID()
    static let bob = UUID(uuidString: "B0B00000-0000-4000-8000-000000000002") ?? UUID()
    static let day: TimeInterval = 86_400

    let device = Device()
    let server: FakeServer
    let store: FakeStore
    let cache = MemoryCache()
    var configuration: Configuration
    private(set) var run: Run
    private(set) var subledger: Subledger

    init(deviceGrants: Configuration.DeviceGrants = .sinceLastAnswer) {
        server = FakeServer(device)
        store = FakeStore(
            [
                Self.plan("pro.monthly", 30), Self.plan("pro.yearly", 365), Self.plan("books", nil),
                Self.plan("weekly", 7),
            ], clock: device.apple, sign: FakeServer.sign)
        configuration = Configuration(
            app: FakeServer.app, keys: [server.publicKey],
            products: ["pro.monthly": ["pro"], "pro.yearly": ["pro"]], deviceGrants: deviceGrants)
        run = Run(store, server, cache)
        subledger = Subledger(
            configuration, store: run, transport: run, cache: run, clock: device, random: { 0.5 })
    }

    private static func plan(_ id: String, _ days: Double?) -> FakeStore.Plan {
        FakeStore.Plan(
            StoreProduct(id: id, displayName: id, displayPrice: "1 €"), seconds: days.map { $0 * day })
    }

    /// Kills the app and launches it again, without a user.
    func relaunch() {
        run.kill()
        run = Run(store, server, cache)
        subledger = Subledger(
            configuration, store: run, transport: run, cache: run, clock: device, random: { 0.5 })
    }

    func start(_ user: UUID = alice) async throws {
        try await subledger.start(user: user, assertion: NoAssertion())
        await settle()
    }

    /// Waits until nothing is under way in the app.
    func settle() async {
        await subledger.background?.value
        // What arrived while a user signed out is never received, and given again.
        for _ in 0..<10_000 {
            guard await subledger.listener != nil, await subledger.received < run.delivered else { return }
            await Task.yield()
        }
    }

    /// Waits until the app has received an update, and is done with it.
    func settle(afterUpdates count: Int) async {
        while run.delivered < count { await Task.yield() }
        await settle()
    }

    /// The active entitlements, each with its source.
    func active() async -> [String: Entitlement.Source] {
        Dictionary(await subledger.current().active.map { ($0.id, $0.source) }) { $1 }
    }
}
