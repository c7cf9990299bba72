import Encoding
import EventLog
import Postgres
import Projector
import Readers
import Subscriptions
import TestSupport
import Testing

/// An app of the App Store, `com.example.magazine`, and one of Google Play.
@Suite("Customers of an app of each store that are joined")
struct JoinedAppTests {
    typealias Row = CustomerLog.Row

    static let play = "com.example.play"
    private static let token = "0A1B2C3D-0000-4000-8000-00000000000A"

    /// A purchase on Google Play from the day until February 1.
    static func bought(_ token: String, on start: Int, account: String?) -> CustomerLog.Told {
        var snapshot = PurchaseSnapshot(
            purchaseToken: token, kind: .subscription, stateName: PurchaseSnapshot.State.active.rawValue)
        snapshot.startTime = day(start)
        snapshot.obfuscatedAccountId = account
        var item = PurchaseSnapshot.Item(productId: "premium")
        item.expiryTime = day(32)
        item.orderId = "G-\(token)"
        item.isAutoRenewing = true
        snapshot.items = [item]
        return .purchase(.snapshot(snapshot), on: start)
    }

    static let join = """
        insert into subledger.app_join (app, joined_app)
        values ('com.example.magazine', 'com.example.play'), ('com.example.play', 'com.example.magazine')
        """

    /// An app user with a purchase in each store, which grant `plus` until January 10 and February 1.
    static func withBoth(_ test: (CustomerLog) async throws -> Void) async throws {
        try await CustomerLog.with { log async throws in
            try await log.tell([.rows([Row("10", 1..<10, account: token)])], on: 2)
            try await log.tell([bought("g", on: 5, account: token.lowercased())], app: play, on: 5)
            try await log.script(
                """
                insert into subledger.product_entitlement (app, product_id, entitlement)
                values ('com.example.magazine', 'monthly', 'plus'), ('com.example.play', 'premium', 'plus')
                """)
            try await log.script(join)
            try await test(log)
        }
    }

    private static func question(
        _ id: String, as kind: CustomerKey.Kind? = nil, at date: Int, app: String? = nil,
        in environment: Subscriptions.Environment = .production
    ) -> CustomerReader.Question {
        CustomerReader.Question(
            CustomerReader.Reference(app: app, environment: environment, id: id, kind: kind), at: day(date))
    }

    /// `entitlement until subscriptions positions, joined app: its subscriptions and positions`, read from the projections
    /// and folded again, which must be equal; or why there is no answer.
    private static func entitlements(
        _ question: CustomerReader.Question, _ log: CustomerLog
    ) async throws -> [String] {
        let reader = CustomerReader(pool: log.reader)
        let now = text(try await reader.entitlements(question))
        #expect(text(try await reader.entitlements(question, knownAt: day(60))) == now)
        return now
    }

    private static func text(_ answer: CustomerReader.Answer<CustomerReader.Found>) -> [String] {
        switch answer {
        case .found(let found):
            found.entitlements.map { given in
                let joined = given.joined.map { ", \($0.app): \($0.subscriptions) \($0.positions)" } ?? ""
                return "\(given.entitlement) \(given.until) \(given.subscriptions) \(given.positions)\(joined)"
            }
        case .unknown: ["unknown"]
        case .severalApps(let apps): ["several apps: \(apps)"]
        case .severalKinds(let kinds): ["several kinds: \(kinds.map(\.rawValue))"]
        }
    }

    @Test("the same app user has the purchases of both stores through either app, and after unjoining those of each")
    func union() async throws {
        try await Self.withBoth { log async throws in
            let until = day(32)
            let apple = "plus \(until) [\"10\", \"g\"] [1], com.example.play: [\"g\"] [1]"
            let google = "plus \(until) [\"10\", \"g\"] [1], com.example.magazine: [\"10\"] [1]"
            for id in [Self.token, Self.token.lowercased()] {
                #expect(try await Self.entitlements(Self.question(id, at: 7), log) == [apple])
                #expect(
                    try await Self.entitlements(Self.question(id, as: .account, at: 7, app: CustomerLog.app), log)
                        == [apple])
                #expect(try await Self.entitlements(Self.question(id, at: 7, app: Self.play), log) == [google])
            }
            #expect(try await Self.entitlements(Self.question("g", at: 7), log) == [google])
            #expect(try await Self.entitlements(Self.question("g", at: 7, app: CustomerLog.app), log) == [apple])
            #expect(
                try await Self.entitlements(Self.question(Self.token, at: 7, in: .sandbox), log) == ["unknown"])

            try await log.script("delete from subledger.app_join")

            #expect(
                try await Self.entitlements(Self.question(Self.token, at: 7), log)
                    == ["several apps: [\"com.example.magazine\", \"com.example.play\"]"])
            #expect(
                try await Self.entitlements(Self.question(Self.token, at: 7, app: CustomerLog.app), log)
                    == ["plus \(day(10)) [\"10\"] [1]"])
            #expect(
                try await Self.entitlements(Self.question("g", at: 7, app: CustomerLog.app), log) == ["unknown"])
        }
    }

    @Test("production and sandbox are joined apart")
    func environments() async throws {
        try await Self.withBoth { log async throws in
            try await log.tell(
                [Self.bought("t", on: 5, account: Self.token)], app: Self.play, environment: .sandbox, on: 5)

            let production = try await Self.entitlements(Self.question(Self.token, at: 7, app: CustomerLog.app), log)
            let sandbox = try await Self.entitlements(
                Self.question(Self.token, at: 7, app: CustomerLog.app, in: .sandbox), log)

            #expect(production == ["plus \(day(32)) [\"10\", \"g\"] [1], com.example.play: [\"g\"] [1]"])
            #expect(sandbox == ["plus \(day(32)) [\"t\"] [], com.example.play: [\"t\"] [1]"])
        }
    }

    @Test("an instant in the past, and what was known then, count in both stores")
    func times() async throws {
        try await Self.withBoth { log async throws in
            let reader = CustomerReader(pool: log.reader)
            func known(at date: Int, _ knownAt: Int) async throws -> [String] {
                Self.text(
                    try await reader.entitlements(
                        Self.question(Self.token, at: date, app: CustomerLog.app), knownAt: day(knownAt)))
            }

            #expect(
                try await Self.entitlements(Self.question(Self.token, at: 4, app: CustomerLog.app), log)
                    == ["plus \(day(32)) [\"10\", \"g\"] [1], com.example.play: [\"g\"] [1]"])
            #expect(try await known(at: 7, 1) == ["unknown"])
            #expect(try await known(at: 7, 3) == ["plus \(day(10)) [\"10\"] [1]"])
            #expect(
                try await known(at: 7, 6) == ["plus \(day(32)) [\"10\", \"g\"] [1], com.example.play: [\"g\"] [1]"])
        }
    }

    @Test("a link in one app gives the other app's purchases with the token to the backend's customer")
    func link() async throws {
        try await Self.withBoth { log async throws in
            try await log.tell([.links("u-1", [CustomerKey(.account, Self.token)])], on: 8)
            try await log.tell([Self.bought("h", on: 6, account: "other")], app: Self.play, on: 6)

            let expected = ["plus \(day(32)) [\"10\", \"g\"] [1], com.example.play: [\"g\"] [1]"]
            for id in ["u-1", Self.token, "10", "g"] {
                #expect(
                    try await Self.entitlements(Self.question(id, at: 7, app: CustomerLog.app), log) == expected,
                    "\(id)")
            }
            #expect(
                try await Self.entitlements(Self.question("u-1", as: .link, at: 7, app: Self.play), log)
                    == ["plus \(day(32)) [\"10\", \"g\"] [1], com.example.magazine: [\"10\"] [1]"])

            try await log.tell([.links("u-1", [CustomerKey(.subscription, "h")])], app: Self.play, on: 9)

            #expect(
                try await Self.entitlements(Self.question("u-1", at: 7, app: CustomerLog.app), log)
                    == ["plus \(day(32)) [\"10\", \"g\", \"h\"] [1], com.example.play: [\"g\", \"h\"] [1, 2]"])
        }
    }

    @Test("other app users, store accounts, and what the apps' links give to different customers stay apart")
    func apart() async throws {
        try await Self.withBoth { log async throws in
            try await log.tell([.rows([Row("20", 1..<20, account: "aa")]), .rows([Row("30", 1..<20)])], on: 3)
            try await log.tell([Self.bought("h", on: 6, account: "bb")], app: Self.play, on: 6)
            try await log.tell([.links("u-1", [CustomerKey(.account, Self.token)])], on: 8)
            try await log.tell([.links("u-2", [CustomerKey(.account, Self.token)])], app: Self.play, on: 8)
            let app = CustomerLog.app

            #expect(
                try await Self.entitlements(Self.question("aa", at: 7, app: app), log)
                    == ["plus \(day(20)) [\"20\"] [2]"])
            #expect(
                try await Self.entitlements(Self.question("30", at: 7, app: app), log)
                    == ["plus \(day(20)) [\"30\"] [3]"])
            #expect(
                try await Self.entitlements(Self.question("u-1", at: 7, app: app), log)
                    == ["plus \(day(10)) [\"10\"] [1]"])
            #expect(
                try await Self.entitlements(Self.question("u-2", at: 7, app: Self.play), log)
                    == ["plus \(day(32)) [\"g\"] [1]"])
            #expect(
                try await Self.entitlements(Self.question(Self.token, at: 7), log)
                    == ["several apps: [\"com.example.magazine\", \"com.example.play\"]"])
        }
    }

    @Test("ids, history and content are those of both parts")
    func parts() async throws {
        try await Self.withBoth { log async throws in
            let reader = CustomerReader(pool: log.reader)
            let reference = Self.question(Self.token, at: 7, app: CustomerLog.app).customer
            var ids: [String] = []
            var after: CustomerKey?
            repeat {
                guard case .found(let page) = try await reader.ids(reference, at: day(7), after: after, limit: 2) else {
                    break
                }
                ids += page.keys.map { "\($0.id.text)\(page.joinedKeys.contains($0) ? " joined" : "")" }
                #expect(page.identity.joinedApp == Self.play)
                after = page.hasMore ? page.keys.last : nil
            } while after != nil
            guard
                case .found(let history) = try await reader.history(
                    reference, at: day(7), through: day(7), limit: 10),
                case .found(let customer) = try await reader.customer(reference, at: day(7))
            else {
                Issue.record("no customer")
                return
            }

            #expect(ids.filter { $0.hasPrefix("g") || $0.hasPrefix("10") } == ["10", "g joined"])
            #expect(ids.contains(Self.token.lowercased()) && Set(ids).count == ids.count)
            #expect(
                history.entries.map { "\($0.kind.rawValue) \($0.originalTransactionId ?? "") \($0.joinedApp ?? "")" }
                    == ["opened g com.example.play", "opened 10 "])
            #expect(customer.subscriptions.map(\.originalTransactionId) == ["10"])
            #expect(customer.joinedSubscriptions.map(\.originalTransactionId) == ["g"])
        }
    }

    @Test("an explanation names the app of each rule that decides")
    func explanation() async throws {
        try await Self.withBoth { log async throws in
            let reader = CustomerReader(pool: log.reader)
            func explanation(at date: Int) async throws -> Explanation? {
                let answer = try await reader.explanations(
                    Self.question(Self.token, at: date, app: CustomerLog.app), of: "plus", knownAt: nil)
                guard case .found(let found) = answer else { return nil }
                return found.explanations.first
            }
            let active = try #require(try await explanation(at: 12))
            let chained = try #require(try await explanation(at: 3))
            let over = try #require(try await explanation(at: 40))

            #expect(active.active && active.until == day(32))
            #expect(active.because.map(\.rule) == [.paid, .mapped, .tiedByAccountToken])
            #expect(active.because.allSatisfy { $0.joinedApp == Self.play })
            #expect(active.sentence.contains("event 1 of com.example.play)"))
            #expect(active.because.first?.by.map(\.source) == ["google-api"])
            #expect(chained.active && chained.until == day(32) && chained.because.first?.joinedApp == nil)
            #expect(chained.because.first?.by.map(\.source) == ["apple-v1"])
            #expect(!over.active && over.because.first?.rule == .clock && over.because.first?.joinedApp == Self.play)
        }
    }

    @Test("view entitlement has the union for each id, with the positions of the row's app")
    func views() async throws {
        try await Self.withBoth { log async throws in
            try await log.tell([.links("u-1", [CustomerKey(.account, Self.token)])], on: 8)
            func rows() async throws -> [String] {
                try await log.lines(
                    """
                    select concat_ws(' ', app, known_as, customer, owner_kind, owner_id, entitlement,
                      to_char(until at time zone 'UTC', 'MM-DD'), positions)
                    from subledger.entitlement_at('2024-01-07Z')
                    where known_as <> 'subscription'
                    order by 1
                    """)
            }
            let token = Self.token.lowercased()

            #expect(
                try await rows() == [
                    "com.example.magazine account \(token) link u-1 plus 02-01 {1}",
                    "com.example.magazine link u-1 link u-1 plus 02-01 {1}",
                    "com.example.play account \(token) link u-1 plus 02-01 {1}",
                ])

            try await log.script("delete from subledger.app_join")

            #expect(
                try await rows() == [
                    "com.example.magazine account \(token) link u-1 plus 01-10 {1}",
                    "com.example.magazine link u-1 link u-1 plus 01-10 {1}",
                    "com.example.play account \(token) account \(token) plus 02-01 {1}",
                ])
        }
    }

    @Test("the projector records the configured joins, and forgets those that are not configured any longer")
    func recorded() async throws {
        try await CustomerLog.with { log async throws in
            func joins(configured: [(String, String)]) async throws -> [String] {
                let logger = LogRecorder().logger
                let role = log.database.with(role: "subledger_projector")
                let pool = PostgresPool(role, limit: 2, logger: logger)
                let projector = Projector(
                    pool: pool, listener: role, ownership: ["a": .standard, "b": .standard, "c": .standard],
                    joins: configured, now: { .latest }, logger: logger)
                let marker = "delete from subledger.app_ownership where app = 'c'"
                try await log.script(marker)
                let running = Task { await projector.run() }
                _ = try await eventually("the rules are recorded") {
                    try await log.lines("select app as line from subledger.app_ownership where app = 'c'").first
                }
                running.cancel()
                await running.value
                await pool.close()
                return try await log.lines("select app || ' ' || joined_app from subledger.app_join order by 1")
            }
            try await log.script("insert into subledger.app_join (app, joined_app) values ('x', 'y'), ('y', 'x')")

            #expect(try await joins(configured: [("b", "a")]) == ["a b", "b a", "x y", "y x"])
            #expect(try await joins(configured: [("b", "a")]) == ["a b", "b a", "x y", "y x"])
            #expect(try await joins(configured: [("c", "a")]) == ["a c", "c a", "x y", "y x"])
            #expect(try await joins(configured: []) == ["x y", "y x"])
        }
    }
}
