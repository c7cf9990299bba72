import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing

@Suite("Product settings in the database take effect without a restart")
struct ProductTests {
    private static let purchase = ExampleBodies.ms("2019-10-01")

    /// A purchase without an expiry, which V1 does not classify.
    private static func bought(
        _ product: String, subscription: String = "77", quantity: Int = 1, cancelled: Int64? = nil
    )
        -> V1Body
    {
        var body = V1Body(
            type: cancelled == nil ? "INITIAL_BUY" : "REFUND",
            rows: [
                V1Body.Row(
                    subscription, subscription: subscription, product: product, purchase: purchase, expires: nil,
                    cancelled: cancelled)
            ],
            subscription: subscription, autoRenew: true)
        var receipt = body["unified_receipt"] as? [String: Any] ?? [:]
        var rows = receipt["latest_receipt_info"] as? [[String: String]] ?? []
        rows[0]["quantity"] = String(quantity)
        receipt["latest_receipt_info"] = rows
        body["unified_receipt"] = receipt
        return body
    }

    /// Runs SQL as a role, as with psql.
    private static func run(
        _ sql: String, as role: String? = nil, on database: ConnectionConfiguration
    ) async throws {
        let connection = try await TestCluster.connect(role.map { database.with(role: $0) } ?? database)
        do {
            try await connection.script(sql, deadline: .now + .seconds(20))
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }

    private static func json(_ server: TestBundle, _ subscription: String = "77") async throws -> [String: Any] {
        try await server.subscription("/subscriptions/\(subscription)").json
    }

    private static let ends: StaticString = """
        select case when isfinite(ends_at) then (ends_at at time zone 'UTC')::text else ends_at::text end
        from subledger.access_period
        """

    @Test("a non-renewing product ends after its duration as soon as SQL sets one")
    func nonRenewing() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.bought("com.example.season").bytes)
            try await server.isFolded()
            #expect(try await server.sql(Self.ends) == ["infinity"])
            #expect(try await Self.json(server)["status"] as? String == "owned")
            #expect(try await Self.json(server)["accessUntil"] is NSNull, "an infinite end is null")

            try await Self.run(
                """
                insert into subledger.product (app, product_id, kind, duration)
                values ('\(V1Body.app)', 'com.example.season', 'non-renewing', 'P3M')
                """, as: "subledger_owner", on: server.database)

            // Answers use the current settings; the rows follow.
            #expect(try await Self.json(server)["accessUntil"] as? String == "2020-01-01T00:00:00.000Z")
            try await eventually("the row is folded again") {
                try await server.sql(Self.ends) == ["2020-01-01 00:00:00"] ? () : nil
            }

            try await Self.run("update subledger.product set duration = 'P10D'", on: server.database)
            try await eventually("the row is folded again") {
                try await server.sql(Self.ends) == ["2019-10-11 00:00:00"] ? () : nil
            }
            try await Self.run("truncate subledger.product", on: server.database)
            try await eventually("the row is folded again") {
                try await server.sql(Self.ends) == ["infinity"] ? () : nil
            }
        }
    }

    @Test("settings of a product in another app have no effect")
    func otherApp() async throws {
        try await TestBundle.withServer { server in
            try await Self.run(
                """
                insert into subledger.product (app, product_id, kind)
                values ('com.example.other', 'com.example.season', 'consumable')
                """, on: server.database)

            _ = try await server.apple.post(try Self.bought("com.example.season").bytes)
            try await server.isFolded()

            #expect(try await Self.json(server)["status"] as? String == "owned")
            let products = try await server.sql("select products from subledger.checkpoint")
            #expect(products == [""])
        }
    }

    @Test("a consumable gives no access; its quantities are counted without refunded ones")
    func consumable() async throws {
        try await TestBundle.withServer { server in
            try await Self.run(
                """
                insert into subledger.product (app, product_id, kind)
                values ('\(V1Body.app)', 'com.example.coins', 'consumable')
                """, on: server.database)

            _ = try await server.apple.post(try Self.bought("com.example.coins", quantity: 3).bytes)
            try await server.isFolded()
            let bought = try await Self.json(server)
            #expect(bought["active"] as? Bool == false)
            #expect(bought["consumables"] as? Int == 3)
            #expect(try await server.sql(Self.ends) == [])

            let refund = Self.bought("com.example.coins", quantity: 3, cancelled: ExampleBodies.ms("2019-10-05"))
            _ = try await server.apple.post(try refund.bytes)
            try await server.isFolded()
            #expect(try await Self.json(server)["consumables"] as? Int == 0)
        }
    }

    @Test("a non-consumable is owned from its purchase until it is refunded")
    func nonConsumable() async throws {
        try await TestBundle.withServer { server in
            try await Self.run(
                """
                insert into subledger.product (app, product_id, kind)
                values ('\(V1Body.app)', 'com.example.archive', 'non-consumable')
                """, on: server.database)

            _ = try await server.apple.post(try Self.bought("com.example.archive").bytes)
            try await server.isFolded()
            #expect(try await server.sql(Self.ends) == ["infinity"])

            let refund = Self.bought("com.example.archive", cancelled: ExampleBodies.ms("2019-10-05"))
            _ = try await server.apple.post(try refund.bytes)
            try await server.isFolded()
            #expect(try await server.sql(Self.ends) == [])
        }
    }

    @Test("changed entitlements of a product take effect without folding")
    func entitlements() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try Self.bought("com.example.archive").bytes)
            try await server.isFolded()
            let version: StaticString =
                "select xmin::text from subledger.subscription where original_transaction_id = '77'"
            let before = try await server.sql(version)

            let path = "/products/com.example.archive?app=\(V1Body.app)"
            let answer = try await server.owner.put("{\"entitlements\":[\"plus\",\"archive\"]}", to: path)

            #expect(answer.json["entitlements"] as? [String] == ["archive", "plus"])
            // The projector has checked once it has folded an event after the change.
            _ = try await server.apple.post(try Self.bought("com.example.other", subscription: "78").bytes)
            try await server.isFolded()
            #expect(before.count == 1)
            #expect(try await server.sql(version) == before)
        }
    }

    @Test("a change of a product kind by any session notifies the projector")
    func wakes() async throws {
        let database = try await TestCluster.freshDatabase()
        let listener = try await TestCluster.connect(database.with(role: "subledger_projector"))
        try await listener.listen(to: "subledger_event", deadline: .now + .seconds(20))

        try await Self.run(
            "insert into subledger.product (app, product_id, kind) values ('a', 'p', 'consumable')", on: database)

        let woken = try await listener.notifications(until: .now + .seconds(20))
        #expect(woken.map(\.channel) == ["subledger_event"])
        await listener.close()
    }

    @Test("a rebuild uses the current products, and verify finds no problem")
    func rebuild() async throws {
        let database = try await TestCluster.freshDatabase()
        try await TestBundle.withServer(database: database) { server in
            _ = try await server.apple.post(try Self.bought("com.example.season").bytes)
            try await server.isFolded()
        }
        // Changed while no projector is running.
        try await Self.run(
            """
            insert into subledger.product (app, product_id, kind, duration)
            values ('\(V1Body.app)', 'com.example.season', 'non-renewing', 'P3M')
            """, on: database)
        let pool = PostgresPool(database.with(role: "subledger_projector"), limit: 1, logger: LogRecorder().logger)
        let rebuild = ProjectionRebuild(owner: database, pool: pool, app: nil, environment: nil, now: { .latest })

        let before = try await Self.finding(database)
        let first = try await rebuild.run { _ in }
        let after = try await Self.finding(database)
        let second = try await rebuild.run { _ in }

        await pool.close()
        // The period, and the subscription with the end of its access, each deleted and inserted again.
        #expect(first.rowsReplaced == 4)
        #expect(second.rowsReplaced == 0)
        #expect(before == nil && after == nil)
        try await TestBundle.withServer(database: database) { server in
            #expect(try await server.sql(Self.ends) == ["2020-01-01 00:00:00"])
            let products = try await server.sql("select products from subledger.checkpoint")
            #expect(products == ["non-renewing P3M\tcom.example.season"])
        }
    }

    /// The finding of `verify`, if any.
    private static func finding(_ database: ConnectionConfiguration) async throws -> String? {
        let connection = try await TestCluster.connect(database.with(role: "subledger_projector"))
        let audit = try await ProjectionAudit(connection: connection, seed: 1)
        var finding: String?
        do {
            _ = try await audit.check(stream: 1, .all) { _, _ in }
        } catch let problem as ProjectionAudit.Problem {
            finding = "\(problem)"
        }
        await connection.close()
        return finding
    }

    @Test(
        "the reader, analyst, receiver and projector roles cannot change products",
        arguments: ["subledger_reader", "subledger_analyst", "subledger_receiver", "subledger_projector"])
    func roles(_ role: String) async throws {
        let database = try await TestCluster.freshDatabase()

        for table in ["product (app, product_id)", "product_entitlement (app, product_id, entitlement)"] {
            let values = table.contains("entitlement)") ? "('a', 'p', 'e')" : "('a', 'p')"
            let insert = "insert into subledger.\(table) values \(values)"
            let error = await #expect(throws: PostgresError.self) {
                // An analyst's transactions are read-only by default.
                try await Self.run("set transaction_read_only = off; \(insert)", as: role, on: database)
            }
            #expect(error?.sqlstate == "42501")
            try await Self.run(insert, as: "subledger_products", on: database)
        }
        let error = await #expect(throws: PostgresError.self) {
            try await Self.run("select from subledger.event", as: "subledger_products", on: database)
        }
        #expect(error?.sqlstate == "42501")
    }
}
