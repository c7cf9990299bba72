import Foundation
import Testing

@testable import SubledgerClient

@Suite("Seeded schedules of kills, offline times, clock changes, refunds and two users")
struct ScheduleTests {
    /// SplitMix64.
    private struct Seeded: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return mixed ^ (mixed >> 31)
        }
    }

    /// The number of schedules; SUBLEDGER_TEST_SCHEDULES sets a larger one.
    private static let count =
        ProcessInfo.processInfo.environment["SUBLEDGER_TEST_SCHEDULES"].flatMap { UInt64($0) } ?? 100

    @Test(
        "nothing is finished before it is stored, nothing granted that no valid answer grants, nobody locked out within one",
        arguments: stride(from: 0, to: count, by: 50).map { $0..<min($0 + 50, count) })
    func schedules(_ seeds: Range<UInt64>) async throws {
        for seed in seeds {
            var schedule = Schedule(seed: seed)
            try await schedule.run()
            #expect(schedule.wrongs == [], "seed \(seed)")
        }
    }

    private struct Schedule {
        private var random: Seeded
        private let app = TestApp()
        private var user: UUID?
        private var isClockWrong = false
        private(set) var wrongs: [String] = []

        init(seed: UInt64) {
            random = Seeded(state: seed)
        }

        mutating func run() async throws {
            for _ in 0..<25 {
                try await step()
                await check()
            }
            // In the end, everything arrives.
            app.server.setAway(false)
            app.device.setClock(wrongBy: 0)
            for user in [TestApp.alice, TestApp.bob] {
                app.relaunch()
                try await app.start(user)
                _ = try await app.subledger.refresh()
            }
            let lost = app.store.allSales.filter { !app.server.storedIds.contains($0.id) }
            if !lost.isEmpty { wrongs.append("lost: \(lost.map(\.id))") }
            let unfinished = await app.store.unfinished()
            if !unfinished.isEmpty { wrongs.append("never finished: \(unfinished.map(\.id))") }
            wrongs += app.server.wrongs
        }

        private mutating func step() async throws {
            switch Int.random(in: 0..<13, using: &random) {
            case 0, 1: app.device.pass(.random(in: 1...3 * TestApp.day, using: &random))
            case 2: app.server.setAway(true)
            case 3: app.server.setAway(false)
            case 4, 5, 6: try await buy()
            case 7: try await launch()
            case 8: refund()
            case 9:
                isClockWrong.toggle()
                app.device.setClock(
                    wrongBy: isClockWrong ? .random(in: -40 * TestApp.day...40 * TestApp.day, using: &random) : 0)
            case 10 where !isClockWrong:
                app.device.restart()
                try await launch()
            case 11: try await signIn()
            default: _ = try? await app.subledger.refresh()
            }
            if user == nil { try await signIn() }
            await app.settle()
        }

        /// Buys, and is killed at any moment while it does, or not.
        private mutating func buy() async throws {
            guard user != nil else { return }
            let product = ["pro.monthly", "pro.yearly", "weekly", "books"].randomElement(using: &random) ?? ""
            let isKilled = Bool.random(using: &random)
            if isKilled { app.run.kill(after: .random(in: 0..<8, using: &random)) }
            _ = try? await app.subledger.purchase(product)
            if isKilled { try await launch() }
        }

        private mutating func launch() async throws {
            app.relaunch()
            if let user { try await app.start(user) }
        }

        private mutating func signIn() async throws {
            await app.subledger.signOut()
            user = Bool.random(using: &random) ? TestApp.alice : TestApp.bob
            if let user { try await app.start(user) }
        }

        /// The store and the device learn of a refund, or the server alone.
        private mutating func refund() {
            guard let sale = app.store.allSales.randomElement(using: &random) else { return }
            if Bool.random(using: &random) { app.store.refund(sale.id) } else { app.server.revoke(sale.id) }
        }

        private mutating func check() async {
            guard let user else { return }
            let customer = user.uuidString.lowercased()
            let entitlements = await app.subledger.current()
            let time = app.device.time
            for entitlement in entitlements.active {
                let isRight =
                    entitlement.source == .device
                    ? await isCurrent(entitlement.id, of: user, at: time)
                    : app.server.hasAnswered(entitlement.id, to: customer, validAt: time)
                if !isRight { wrongs.append("granted: \(entitlement), \(entitlements.trust)") }
            }
            guard let kept = app.cache.read(user),
                let answer = try? JSONDecoder().decode(CachedAnswer.self, from: kept),
                let token = answer.token.flatMap({ try? EntitlementToken($0, expectation(customer)) }),
                time < token.validUntil
            else { return }
            for grant in token.grants where grant.isActive(at: time) && !entitlements.isActive(grant.id) {
                wrongs.append("locked out of \(grant)")
            }
        }

        private func expectation(_ customer: String) -> EntitlementToken.Expectation {
            EntitlementToken.Expectation(
                keys: [app.server.publicKey], app: FakeServer.app, customerId: customer, environment: "production")
        }

        private func isCurrent(_ entitlement: String, of user: UUID, at time: Date) async -> Bool {
            await app.store.current().contains { purchase in
                FakeServer.entitlement(of: purchase.productId) == entitlement && purchase.appAccountToken == user
                    && (isClockWrong || time < purchase.purchaseDate.addingTimeInterval(7 * TestApp.day))
            }
        }
    }
}
