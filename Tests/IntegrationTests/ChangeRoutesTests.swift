import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import TestSupport
import Testing

@Suite("The change feed publishes changes in order")
struct ChangeRoutesTests {
    static let here = "app=com.example.magazine&environment=production"
    /// 2019-11-08T08:14:00Z, the fixed time of the server's clock.
    private static let now: Int64 = 1_573_200_840_000
    static let hour: Int64 = 3_600_000

    private static func body(
        _ type: String = "INITIAL_BUY", subscription: String = "10", expires: Int64 = now + hour, autoRenew: Bool = true
    ) throws -> [UInt8] {
        try V1Body(
            type: type,
            rows: [V1Body.Row(subscription, subscription: subscription, purchase: now - hour, expires: expires)],
            subscription: subscription,
            autoRenew: autoRenew, changed: autoRenew ? nil : now - 1000
        ).bytes
    }

    private static func changes(_ answer: HTTPAnswer) -> [[String: Any]] {
        answer.json["changes"] as? [[String: Any]] ?? []
    }

    static func page(_ server: TestBundle, _ query: String) async throws -> (
        changes: [[String: Any]], cursor: String
    ) {
        let answer = try await server.backend.get("/changes?\(query)")
        #expect(answer.status == 200, "\(answer.body)")
        return (changes(answer), answer.json["cursor"] as? String ?? "")
    }

    @Test("a change has its kind, time, cause and customer, with the customer's entitlements")
    func shape() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.body())
            _ = try await server.apple.post(try Self.body("DID_CHANGE_RENEWAL_STATUS", autoRenew: false))
            try await server.isFolded()

            let answer = try await server.backend.get("/changes?\(Self.here)")
            let customer = """
                "customer":{"backendCustomerIds":[],"appAccountTokens":[],"appTransactionIds":[],"subscriptions":["10"],\
                "entitlements":[{"entitlement":"com.example.magazine.monthly","active":true,\
                "until":"2019-11-08T09:14:00.000Z","productIds":["com.example.magazine.monthly"],\
                "subscriptions":["10"],"positions":[1]}]}
                """
            let cursor = try #require(answer.json["cursor"] as? String)
            #expect(
                answer.body == """
                    {"app":"com.example.magazine","environment":"production","asOf":"2019-11-08T08:14:00.000Z",\
                    "changes":[\
                    {"number":1,"kind":"opened","at":"2019-11-08T08:14:00.000Z","publishedAt":"2019-11-08T08:14:00.000Z",\
                    "cause":"event","position":1,"originalTransactionId":"10",\
                    "productId":"com.example.magazine.monthly","until":"2019-11-08T09:14:00.000Z",\
                    "reason":"Transaction 10 (com.example.magazine.monthly) was paid for from 8 Nov 2019 07:14:00 UTC to \
                    8 Nov 2019 09:14:00 UTC (event 1).",\(customer)},\
                    {"number":2,"kind":"renewal_switched","at":"2019-11-08T08:14:00.000Z",\
                    "publishedAt":"2019-11-08T08:14:00.000Z","cause":"event","position":2,"originalTransactionId":"10",\
                    "autoRenewStatus":false,"reason":"Next, on 8 Nov 2019 09:14:00 UTC: access ends: renewal is switched off.",\
                    \(customer)}],"cursor":"\(cursor)"}

                    """)
            #expect(try await Self.page(server, "after=\(cursor)").changes.isEmpty)
            let first = try await server.backend.get("/changes?\(Self.here)&limit=1")
            #expect(Self.changes(first).count == 1)
            #expect(first.json["more"] as? Bool == true)
            let next = try #require(first.json["cursor"] as? String)
            #expect(try await server.backend.get("/changes?after=\(next)&limit=1").json["more"] == nil)
            #expect(try await Self.page(server, "\(Self.here)&after=now").cursor == cursor)
        }
    }

    @Test("a change lists at most 100 ids of each kind of its customer, says if there are more, and all entitlements")
    func manyIds() async throws {
        try await TestBundle.withServer { server in
            for (first, count) in [(1001, 100), (2001, 101)] {
                let rows = (first..<first + count).map { number in
                    V1Body.Row(
                        "\(number)", subscription: "\(number)", purchase: Self.now - Self.hour,
                        expires: Self.now + Self.hour)
                }
                let body = V1Body(type: "INITIAL_BUY", rows: rows, subscription: "\(first)", autoRenew: true)
                _ = try await server.apple.post(try body.bytes)
            }
            try await server.isFolded()

            let changes = try await Self.page(server, "\(Self.here)&limit=1000").changes
            #expect(changes.count == 201)
            for change in changes {
                let isOfMany = (change["originalTransactionId"] as? String)?.hasPrefix("2") == true
                let customer = try #require(change["customer"] as? [String: Any])
                let subscriptions = try #require(customer["subscriptions"] as? [String])
                #expect(subscriptions == (1...100).map { String((isOfMany ? 2000 : 1000) + $0) })
                #expect(customer["more"] as? Bool == (isOfMany ? true : nil))
                let entitlements = try #require(customer["entitlements"] as? [[String: Any]])
                #expect(entitlements.map { ($0["subscriptions"] as? [String])?.count } == [isOfMany ? 101 : 100])
            }
            let all = try await server.backend.get("/customers/2050?\(Self.here)&as=subscription&limit=1000")
            #expect((all.json["subscriptions"] as? [String])?.count == 101)
            #expect(all.json["more"] == nil)
        }
    }

    @Test("a waiting request is answered when a change arrives or its wait is over")
    func longPoll() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.body())
            try await server.isFolded()
            let cursor = try await Self.page(server, Self.here).cursor

            let start = ContinuousClock.now
            let nothing = try await Self.page(server, "after=\(cursor)&wait=1")
            #expect(nothing.changes.isEmpty)
            #expect(nothing.cursor == cursor)
            #expect(ContinuousClock.now - start >= .seconds(1))

            async let waiting = Self.page(server, "after=\(cursor)&wait=60")
            _ = try await server.apple.post(try Self.body(subscription: "20"))
            let told = try await waiting
            #expect(told.changes.map { $0["originalTransactionId"] as? String } == ["20"])
        }
    }

    @Test("a cursor is answered 410 if another change has its number now, as after a restored backup")
    func replaced() async throws {
        try await TestBundle.withServer { server in
            for subscription in ["10", "20"] {
                _ = try await server.apple.post(try Self.body(subscription: subscription))
                try await server.isFolded()
            }
            let kept = try await Self.page(server, "\(Self.here)&limit=1").cursor
            let lost = try await Self.page(server, Self.here).cursor
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                "delete from subledger.change where number > 1; update subledger.change_head set number = 1",
                deadline: .now + .seconds(20))
            await owner.close()
            for subscription in ["30", "40"] {
                _ = try await server.apple.post(try Self.body(subscription: subscription))
                try await server.isFolded()
            }

            for query in ["after=\(lost)", "after=\(lost)&wait=60"] {
                let refused = try await server.backend.get("/changes?\(query)")
                #expect(refused.status == 410)
                #expect(refused.json["field"] as? String == "after")
            }
            let next = try await Self.page(server, "after=\(kept)")
            #expect(next.changes.map { $0["originalTransactionId"] as? String } == ["30", "40"])
        }
    }

    @Test("a change of customer links is published for each affected subscription")
    func links() async throws {
        try await TestBundle.withServer { server in
            for subscription in ["10", "20", "30"] {
                _ = try await server.apple.post(try Self.body(subscription: subscription))
            }
            try await server.isFolded()
            let before = try await Self.page(server, Self.here).cursor

            _ = try await server.owner.put(
                #"{"links":[{"originalTransactionId":"10"},{"originalTransactionId":"20"}]}"#,
                to: "/customers/u-1/links?\(Self.here)")
            try await server.isFolded()
            let linked = try await Self.page(server, "after=\(before)")
            #expect(linked.changes.map { $0["kind"] as? String } == ["customer_changed", "customer_changed"])
            #expect(linked.changes.map { $0["position"] as? Int } == [4, 4])
            for change in linked.changes {
                let customer = try #require(change["customer"] as? [String: Any])
                #expect(customer["backendCustomerIds"] as? [String] == ["u-1"])
                #expect(customer["subscriptions"] as? [String] == ["10", "20"])
                let entitlements = try #require(customer["entitlements"] as? [[String: Any]])
                #expect(entitlements.map { $0["subscriptions"] as? [String] } == [["10", "20"]])
            }

            _ = try await server.owner.put(
                #"{"links":[{"originalTransactionId":"10"}]}"#, to: "/customers/u-1/links?\(Self.here)")
            try await server.isFolded()
            let parted = try await Self.page(server, "after=\(linked.cursor)")
            let links = parted.changes.map { change in
                [change["originalTransactionId"] as? String ?? ""]
                    + ((change["customer"] as? [String: Any])?["backendCustomerIds"] as? [String] ?? [])
            }
            #expect(links == [["20", "u-1"]])
            // The customer has lost it, so there is no end of its access.
            #expect(parted.changes.map { $0["until"] as? String } == [nil])
            #expect(linked.changes.allSatisfy { $0["until"] is String })
        }
    }

    @Test("cursors survive restarts and rebuilds; a rebuild with equal rows publishes nothing")
    func restarts() async throws {
        let database = try await TestCluster.freshDatabase()
        var cursor = ""
        try await TestBundle.withServer(database: database) { server in
            _ = try await server.apple.post(try Self.body())
            try await server.isFolded()
            cursor = try await Self.page(server, Self.here).cursor
        }
        let pool = PostgresPool(
            database.with(role: "subledger_projector"), limit: 3, logger: LogRecorder().logger)
        let rebuild = ProjectionRebuild(
            owner: database, pool: pool, app: nil, environment: nil, now: { TestBundle.now })
        #expect(try await rebuild.run { _ in }.rowsReplaced == 0)
        await pool.close()
        try await TestBundle.withServer(database: database) { server in
            #expect(try await Self.page(server, "after=\(cursor)").changes.isEmpty)
            _ = try await server.apple.post(try Self.body(subscription: "20"))
            try await server.isFolded()
            let told = try await Self.page(server, "after=\(cursor)")
            #expect(told.changes.map { $0["number"] as? Int } == [2])
        }
    }

    @Test("a rebuild that changes rows and a change of products publish their effects, each with its cause")
    func causes() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.body())
            _ = try await server.apple.post(try Self.body(subscription: "20"))
            try await server.isFolded()
            var cursor = try await Self.page(server, Self.here).cursor

            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                "update subledger.access_period set ends_at = '2019-11-08T08:00:00Z' where original_transaction_id = '10'",
                deadline: .now + .seconds(20))
            await owner.close()
            let pool = PostgresPool(
                server.database.with(role: "subledger_projector"), limit: 3, logger: LogRecorder().logger)
            let rebuild = ProjectionRebuild(
                owner: server.database, pool: pool, app: nil, environment: nil, now: { TestBundle.now })
            _ = try await rebuild.run { _ in }
            await pool.close()
            let rebuilt = try await Self.page(server, "after=\(cursor)")
            #expect(rebuilt.changes.map { $0["kind"] as? String } == ["opened"])
            #expect(rebuilt.changes.map { $0["cause"] as? String } == ["rebuild"])
            #expect(rebuilt.changes.map { $0["originalTransactionId"] as? String } == ["10"])
            cursor = rebuilt.cursor

            let once = V1Body(
                type: "INITIAL_BUY",
                rows: [
                    V1Body.Row(
                        "30", subscription: "30", product: "com.example.magazine.season", purchase: Self.now - 1000,
                        expires: nil)
                ], subscription: "30", autoRenew: true)
            _ = try await server.apple.post(try once.bytes)
            let owned = try await Self.page(server, "after=\(cursor)&wait=30")
            #expect(owned.changes.map { $0["kind"] as? String } == ["opened"])
            #expect(owned.changes.map { $0["until"] is NSNull } == [true])
            let stated = try await server.owner.put(
                #"{"kind":"non-renewing","duration":"P3M"}"#,
                to: "/products/com.example.magazine.season?app=com.example.magazine")
            #expect(stated.status < 300, "\(stated.body)")
            let shortened = try await Self.page(server, "after=\(owned.cursor)&wait=30")
            #expect(shortened.changes.map { $0["kind"] as? String } == ["shortened"])
            #expect(shortened.changes.map { $0["cause"] as? String } == ["products"])
            #expect(shortened.changes.map { $0["until"] as? String } == ["2020-02-08T08:13:59.000Z"])
        }
    }

    @Test(
        "an invalid request is rejected, and the answer names the invalid field",
        arguments: [
            ("", 400, "app"), ("app=", 400, "app"), ("app=com.example.nothing", 404, nil),
            ("\(here)&after=17", 400, "after"), ("\(here)&after=';drop", 400, "after"),
            ("\(here)&limit=0", 400, "limit"), ("\(here)&limit=1001", 400, "limit"),
            ("\(here)&wait=61", 400, "wait"), ("\(here)&wait=soon", 400, "wait"),
            ("app=com.example.magazine&environment=PROD", 400, "environment"),
            // A cursor of the log, one of another app, and one past the last change.
            ("after=MiAwICBwcm9kdWN0aW9uIGNvbS5leGFtcGxlLm1hZ2F6aW5l", 400, "after"),
            ("app=com.example.other&after=YzIgMCAgcHJvZHVjdGlvbiBjb20uZXhhbXBsZS5tYWdhemluZQ", 400, "after"),
            ("after=YzIgNyAgcHJvZHVjdGlvbiBjb20uZXhhbXBsZS5tYWdhemluZQ", 410, "after"),
        ] as [(String, Int, String?)])
    func refusals(query: String, status: Int, field: String?) async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.body())
            try await server.isFolded()
            let kinds: [[String: String]] = [[:], ["Accept": "text/event-stream"]]
            for headers in kinds {
                let answer = try await server.backend.send("GET", "/changes?\(query)", headers: headers)
                #expect(answer.status == status, "\(answer.body)")
                #expect(answer.json["field"] as? String == field)
            }
        }
    }

    @Test("server-sent events resume after the last event id")
    func events() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.body())
            try await server.isFolded()
            let token = try #require(server.backend.token)
            let path = "/changes?\(Self.here)"
            let first = try EventStream(port: server.backend.port, token: token, path: path)
            let opened = try await eventually("an event arrives") { first.next() }
            #expect(opened.data.hasPrefix(#"{"number":1,"kind":"opened""#))
            _ = try await server.apple.post(try Self.body(subscription: "20"))
            let more = try await eventually("another arrives") { first.next() }
            #expect(more.data.hasPrefix(#"{"number":2,"kind":"opened""#))

            let second = try EventStream(
                port: server.backend.port, token: token, path: path, lastEventID: opened.id)
            let again = try await eventually("the other arrives again") { second.next() }
            #expect(again.data == more.data)
            #expect(again.id == more.id)
        }
    }
}
