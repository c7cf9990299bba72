import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Projector
import Subscriptions
import TestSupport
import Testing
import Verification

@Suite("Customer routes return entitlements and store links")
struct CustomerRoutesTests {
    static let here = "app=com.example.magazine&environment=production"
    private static let october: Int64 = 1_570_000_000_000
    private static let december: Int64 = 1_576_000_000_000

    /// Two subscriptions of one account, and a separate one.
    static var bodies: [V1Body] {
        [
            V1Body(
                type: "INITIAL_BUY",
                rows: [
                    V1Body.Row("10", subscription: "10", purchase: 1_560_000_000_000, expires: october),
                    V1Body.Row(
                        "20", subscription: "20", product: "com.example.books", purchase: october, expires: december),
                ], subscription: "20", autoRenew: true),
            V1Body(
                type: "INITIAL_BUY", rows: [V1Body.Row("30", subscription: "30", purchase: october, expires: december)],
                subscription: "30",
                autoRenew: true),
        ]
    }

    static func withCustomers(_ test: (TestBundle) async throws -> Void) async throws {
        try await TestBundle.withServer { server in
            for body in bodies { _ = try await server.apple.post(try body.bytes) }
            try await server.isFolded()
            try await test(server)
        }
    }

    static func put(_ server: TestBundle, _ customer: String, _ links: String) async throws -> HTTPAnswer {
        try await server.owner.put(links, to: "/customers/\(customer)/links?\(here)")
    }

    @Test("entitlements of all subscriptions are returned, with the end of inactive ones")
    func entitlements() async throws {
        try await Self.withCustomers { server in
            let answer = try await server.backend.get("/customers/10/entitlements?\(Self.here)")

            #expect(answer.status == 200)
            #expect(
                answer.body == """
                    {"app":"com.example.magazine","environment":"production","customerId":"10","knownAs":"subscription",\
                    "asOf":"2019-11-08T08:14:00.000Z","entitlements":[\
                    {"entitlement":"com.example.books","active":true,"until":"2019-12-10T17:46:40.000Z",\
                    "productIds":["com.example.books"],"subscriptions":["20"],"positions":[1]},\
                    {"entitlement":"com.example.magazine.monthly","active":false,"until":"2019-10-02T07:06:40.000Z",\
                    "productIds":["com.example.magazine.monthly"],"subscriptions":["10"],"positions":[1]}]}

                    """)
        }
    }

    @Test("links are stored, folded and found by the backend's id; an unchanged statement is not appended again")
    func links() async throws {
        try await Self.withCustomers { server in
            let first = try await Self.put(
                server, "u%2F1", #"{"links":[{"originalTransactionId":"30"},{"originalTransactionId":"10"}]}"#)
            let again = try await Self.put(
                server, "u%2F1",
                #"{"links":[{"originalTransactionId":"10"},{"originalTransactionId":"30"},{"originalTransactionId":"10"}]}"#
            )
            try await server.isFolded()
            let customer = try await server.backend.get("/customers/u%2F1?\(Self.here)")
            let entitled = try await server.backend.get("/customers/u%2F1/entitlements?\(Self.here)")
            let other = try await Self.put(server, "u%2F1", #"{"links":[]}"#)
            let otherAgain = try await Self.put(server, "u%2F1", #"{"links":[]}"#)
            try await server.isFolded()
            let gone = try await server.backend.get("/customers/u%2F1?\(Self.here)")

            #expect(first.body == "{\"position\":3,\"duplicate\":false}\n")
            #expect(again.body == "{\"position\":3,\"duplicate\":true}\n")
            #expect(again.status == 200)
            #expect(
                customer.body == """
                    {"app":"com.example.magazine","environment":"production","customerId":"u/1","knownAs":"link",\
                    "backendCustomerIds":["u/1"],"appAccountTokens":[],"appTransactionIds":[],"subscriptions":["10","20","30"]}

                    """)
            #expect(entitled.body.contains(#""active":true"#))
            #expect(entitled.body.contains(#""subscriptions":["10","30"],"positions":[1,2]"#), "\(entitled.body)")
            #expect(other.body == "{\"position\":4,\"duplicate\":false}\n")
            #expect(otherAgain.body == "{\"position\":4,\"duplicate\":true}\n")
            #expect(gone.status == 404)
            #expect(
                try await server.sql(
                    "select convert_from(body, 'UTF8') from subledger.event_body where position = 3"
                ) == [
                    #"{"backendCustomerId":"u/1","links":[{"originalTransactionId":"10"},{"originalTransactionId":"30"}],"basis":"statement"}"#
                ])
        }
    }

    @Test("links are added without a limit, and a complete set replaces them")
    func addedLinks() async throws {
        try await Self.withCustomers { server in
            var positions: [Int] = []
            for start in stride(from: 1000, to: 1250, by: 50) {
                let links = (start..<(start + 50)).map { #"{"originalTransactionId":"\#($0)"}"# }
                let added = try await server.owner.post(
                    Array(#"{"links":[\#(links.joined(separator: ","))]}"#.utf8),
                    to: "/customers/u-1/links?\(Self.here)")
                positions.append(try #require(added.json["position"] as? Int, "\(added.body)"))
            }
            let again = try await server.owner.post(
                Array(#"{"links":[{"originalTransactionId":"1007"},{"originalTransactionId":"1207"}]}"#.utf8),
                to: "/customers/u-1/links?\(Self.here)")
            try await server.isFolded()
            let all = try await server.sql(
                "select count(*)::text from subledger.customer_identity where customer_id = 'u-1' and kind = 'subscription'"
            )
            let set = try await Self.put(server, "u-1", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try await server.isFolded()
            let left = try await server.sql(
                "select id from subledger.customer_identity where customer_id = 'u-1' and kind = 'subscription'")

            #expect(Set(positions).count == 5)
            #expect(again.body == "{\"position\":\(positions[4]),\"duplicate\":true}\n")
            #expect(all == ["250"])
            #expect(set.status == 200)
            // They are of one store account.
            #expect(left == ["10", "20"])
        }
    }

    @Test(
        "a hundred ids of one customer with thousands of purchases cost what one id costs, with statistics and without",
        arguments: [false, true])
    func manyIdsOfOne(isAnalysed: Bool) async throws {
        try await TestBundle.withServer(patience: .zero) { server in
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                insert into subledger.stream (stream_id, app, environment) values (1, '\(V1Body.app)', 'production');
                insert into subledger.stream_head (stream_id, position, chain) values (1, 0, decode(repeat('00', 32), 'hex'));
                insert into subledger.ownership (
                  stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason, position
                )
                select 1, number, '-infinity', 'infinity', 'link', 'hoarder', 'link', 1
                from generate_series(1, 5000) as number;
                insert into subledger.access_period (
                  stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, product_id, position
                )
                select 1, number, '2018-01-01Z', 'infinity', 'owned', number, 'lamp ' || number % 3, 1
                from generate_series(1, 5000) as number;
                insert into subledger.customer_identity (
                  stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id
                )
                select 1, 'subscription', number, '-infinity', 'infinity', 'link', 'hoarder'
                from generate_series(1, 100) as number;
                \(isAnalysed ? "analyze subledger.ownership, subledger.access_period, subledger.customer_identity" : "")
                """, deadline: .now + .seconds(60))
            await owner.close()
            let ids = (1...100).map { "\"\($0)\"" }.joined(separator: ",")

            let answer = try await server.backend.post(
                Array(#"{"app":"\#(V1Body.app)","customerIds":[\#(ids)]}"#.utf8), to: "/customers/entitlements")

            #expect(answer.status == 200)
            let customers = try #require(answer.json["customers"] as? [[String: Any]])
            #expect(customers.count == 100)
            for customer in customers {
                let entitlements = try #require(customer["entitlements"] as? [[String: Any]])
                #expect(entitlements.compactMap { $0["entitlement"] as? String } == ["lamp 0", "lamp 1", "lamp 2"])
                #expect(entitlements.allSatisfy { $0["active"] as? Bool == true })
            }
            // The time depends on what else runs; the rows that were read do not. The nodes of a distributed database
            // count for themselves.
            if CitusCluster.isWanted { return }
            let read = try await eventually("the ended sessions have reported what they read") {
                // A session reports at the latest when it ends.
                _ = try await server.sql(
                    """
                    select pg_terminate_backend(pid)::text
                    from pg_stat_activity
                    where datname = current_database()
                      and pid <> pg_backend_pid()
                      and backend_type = 'client backend'
                    """)
                let read = try await server.sql(
                    """
                    select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::text
                    from pg_stat_user_tables
                    where relname in ('access_period', 'ownership')
                    order by relname
                    """
                ).compactMap { Int($0) }
                return read.count == 2 && read.allSatisfy { $0 >= 5000 } ? read : nil
            }
            #expect(read.allSatisfy { $0 <= 3 * 5000 }, "\(read)")
        }
    }

    @Test("a batch request returns customers in its order and marks unknown ones")
    func many() async throws {
        try await Self.withCustomers { server in
            let body = #"{"app":"com.example.magazine","environment":"production","customerIds":["30","x","10"]}"#
            let answer = try await server.backend.post(Array(body.utf8), to: "/customers/entitlements")
            let alone = try await server.backend.get("/customers/30/entitlements?\(Self.here)")

            let customers = try #require(answer.json["customers"] as? [[String: Any]])
            #expect(customers.map { $0["customerId"] as? String } == ["30", "x", "10"])
            #expect(customers[1]["unknown"] as? Bool == true)
            #expect((customers[2]["entitlements"] as? [Any])?.count == 2)
            let own = try #require(alone.json["entitlements"] as? [NSDictionary])
            #expect(customers[0]["entitlements"] as? [NSDictionary] == own)
            let tooMany =
                #"{"app":"a","customerIds":["# + repeatElement(#""x""#, count: 1001).joined(separator: ",") + "]}"
            let refused = try await server.backend.post(Array(tooMany.utf8), to: "/customers/entitlements")
            #expect(refused.status == 400)
            #expect(refused.json["detail"] as? String == "customerIds must have at most 1000 elements")
            let odd = #"{"app":"a","environment":{},"customerIds":[]}"#
            let unread = try await server.backend.post(Array(odd.utf8), to: "/customers/entitlements")
            #expect(unread.status == 400)
            #expect(unread.json["field"] as? String == "environment")
        }
    }

    @Test("an issue is readable if any subscription of the customer reaches it")
    func content() async throws {
        try await Self.withCustomers { server in
            let body = """
                {"issues":[{"id":"june","publishedAt":"2019-06-20T00:00:00Z"},{"id":"may","publishedAt":"2019-05-01T00:00:00Z"},
                {"id":"november","publishedAt":"2019-11-01T00:00:00Z"},{"id":"old","publishedAt":"2019-01-01T00:00:00Z"},
                {"id":"next","publishedAt":"2019-12-01T00:00:00Z"}]}
                """
            let answer = try await server.backend.post(Array(body.utf8), to: "/customers/20/content?\(Self.here)")

            let issues = try #require(answer.json["issues"] as? [[String: Any]])
            let readable = issues.filter { $0["readable"] as? Bool == true }.compactMap { $0["id"] as? String }
            // The issue of May was the newest when subscription 10 started, June's came in its period, and November's
            // in that of subscription 20.
            #expect(readable == ["june", "may", "november"])
        }
    }

    @Test(
        "an invalid link is rejected with the name of its field",
        arguments: [
            (#"{"links":{}}"#, "links must be an array"),
            (#"{"links":[{"appAccountToken":""}]}"#, "links[0].appAccountToken must not be empty"),
            (
                #"{"links":[{"originalTransactionId":"1"},{"appTransactionId":7}]}"#,
                "links[1].appTransactionId must be a string"
            ),
            (
                #"{"links":[{"appTransactionId":"a\u0000b"}]}"#,
                "links[0].appTransactionId must not contain a NUL character"
            ),
            (
                #"{"links":[{"email":"a"}]}"#,
                "links[0] must be an object with one of appAccountToken, appTransactionId, originalTransactionId"
            ),
            (
                #"{"links":[{"appAccountToken":"00000000-0000-0000-0000-000000000000"}]}"#,
                "links[0].appAccountToken must not be the nil UUID, which identifies no account"
            ),
            ("[]", "the body must be an object"),
            (
                #"{"links":[{"appAccountToken":"\#(String(repeating: "x", count: 257))"}]}"#,
                "links[0].appAccountToken must be at most 256 bytes"
            ),
            (
                #"{"links":[\#(repeatElement(#"{"appAccountToken":"a"}"#, count: 101).joined(separator: ","))]}"#,
                "links must have at most 100 elements"
            ),
        ])
    func badLinks(_ body: String, _ problem: String) async throws {
        try await TestBundle.withServer { server in
            let answer = try await Self.put(server, "u-1", body)

            #expect(answer.status == 400)
            #expect(answer.json["detail"] as? String == problem)
            #expect(try await server.sql("select position::text from subledger.event") == [])
        }
    }

    @Test("an unconfigured app and an unknown customer are answered 404, and an overlong id 400")
    func refused() async throws {
        try await TestBundle.withServer { server in
            let app = try await server.owner.put(
                #"{"links":[]}"#, to: "/customers/u-1/links?app=com.example.none")
            let unknown = try await server.backend.get("/customers/u-1/entitlements?\(Self.here)")
            let long = try await server.backend.get("/customers/\(String(repeating: "x", count: 257))?\(Self.here)")

            #expect(app.status == 404)
            #expect(unknown.status == 404)
            #expect(unknown.json["detail"] as? String == "no customer with this id in production")
            #expect(long.status == 400)
            #expect(long.json["detail"] as? String == "customerId must be at most 256 bytes")
        }
    }

    @Test("verify reports a changed byte in each customer table, and a rebuild repairs it")
    func verify() async throws {
        try await Self.withCustomers { server in
            _ = try await Self.put(
                server, "u-1", #"{"links":[{"originalTransactionId":"30"},{"appAccountToken":"AA"}]}"#)
            _ = try await Self.put(server, "u-1", #"{"links":[{"originalTransactionId":"30"}]}"#)
            try await server.isFolded()

            let clean = try await Self.problem(server.database)
            #expect(clean == nil)
            try await Self.script(
                server.database,
                """
                create table saved as
                select event.*, event_body.body
                from subledger.event
                join subledger.event_body using (stream_id, position, received_at)
                """)
            // Each part of the log on a node refuses every change, whoever switches the trigger off on the coordinator.
            let damages = Self.damages.filter { !CitusCluster.isWanted || !$0.0.contains("update subledger.event ") }
            #expect(damages.count >= 8)
            for (damage, undo, finding) in damages {
                try await Self.script(server.database, damage)
                let found = try await Self.problem(server.database)
                #expect(found == "stream 1 (com.example.magazine, production) " + finding)
                try await Self.script(server.database, undo)
            }

            let pool = PostgresPool(
                server.database.with(role: "subledger_projector"), limit: 4, logger: LogRecorder().logger)
            let rebuild = ProjectionRebuild(
                owner: server.database, pool: pool, app: nil, environment: nil, now: { .latest })
            let untouched = try await rebuild.run { _ in }
            try await Self.script(server.database, "delete from subledger.customer_edge")
            try await Self.script(server.database, "delete from subledger.customer_link")
            try await Self.script(server.database, "update subledger.customer_identity set customer_id = '5'")
            try await Self.script(server.database, "delete from subledger.ownership")
            let mended = try await rebuild.run { _ in }
            await pool.close()
            #expect(untouched.rowsReplaced == 0)
            #expect(mended.rowsReplaced > 5)
            #expect(try await Self.problem(server.database) == nil)
        }
    }

    private static let restored = """
        update subledger.event
        set body_sha256 = saved.body_sha256, dedupe_key = saved.dedupe_key
        from saved
        where saved.position = event.position;
        update subledger.event_body
        set body = saved.body
        from saved
        where saved.position = event_body.position
        """

    private static let damages = [
        (
            "update subledger.customer_edge set position = 2", "update subledger.customer_edge set position = 1",
            "customer_edge subscription 10 of subscription 20: differs from a fresh fold"
        ),
        (
            "update subledger.customer_link set id = '31' where position = 4",
            "update subledger.customer_link set id = '30' where position = 4",
            "customer_link subscription 31 of u-1: differs from a fresh fold"
        ),
        (
            "update subledger.customer_link set replaced_position = 5 where id = 'aa'",
            "update subledger.customer_link set replaced_position = 4 where id = 'aa'",
            "customer_link account aa of u-1: differs from a fresh fold"
        ),
        (
            "update subledger.customer_identity set customer_id = '11' where id = '20'",
            "update subledger.customer_identity set customer_id = '10' where id = '20'",
            "customer_identity subscription 20: differs from a fresh fold"
        ),
        (
            "update subledger.ownership set customer_id = '11' where original_transaction_id = '20'",
            "update subledger.ownership set customer_id = '10' where original_transaction_id = '20'",
            "ownership of subscription 20: differs from a fresh fold"
        ),
        (
            "update subledger.ownership set starts_at = '2019-11-01' where original_transaction_id = '30'",
            "update subledger.ownership set starts_at = '-infinity' where original_transaction_id = '30'",
            "ownership of subscription 30: differs from a fresh fold"
        ),
        (
            "update subledger.customer_identity set customer_id = 'u-2' where id = 'u-1'",
            "update subledger.customer_identity set customer_id = 'u-1' where id = 'u-1'",
            "customer_identity link u-1: differs from a fresh fold"
        ),
        (
            "update subledger.customer_identity set id = '31' where id = '30'",
            "update subledger.customer_identity set id = '30' where id = '31'",
            "customer_identity subscription 30: is missing"
        ),
        (
            """
            set session_replication_role = replica;
            alter table subledger.event disable trigger event_append_only;
            alter table subledger.event_body disable trigger event_body_append_only;
            update subledger.event set facts = jsonb_set(facts, '{link,backendCustomerId}', '"u-2"') where position = 4
            """,
            """
            update subledger.event set facts = jsonb_set(facts, '{link,backendCustomerId}', '"u-1"') where position = 4
            """, "position 4: facts do not match the body"
        ),
        (
            "update subledger.event set dedupe_key = sha256('x') where position = 3", restored,
            "position 3: dedupe_key does not match the body"
        ),
        (
            """
            update subledger.event_body set body = '{}' where position = 3;
            update subledger.event set body_sha256 = sha256('{}') where position = 3
            """, restored,
            "position 3: body cannot be decoded: expected customer links"
        ),
    ]

    /// What `verify` finds in a database.
    static func problem(_ database: ConnectionConfiguration) async throws -> String? {
        let role = database.with(role: "subledger_projector")
        let (events, rows) = (try await TestCluster.connect(role), try await TestCluster.connect(role))
        let outcome = try await DatabaseVerifier(
            log: LogAudit(connection: events), projections: try await ProjectionAudit(connection: rows, seed: 1),
            signatures: SignatureVerifier(roots: .apple), extent: .all
        ).run()
        await events.close()
        await rows.close()
        return outcome.finding?.description
    }

    static func script(_ database: ConnectionConfiguration, _ sql: String) async throws {
        let connection = try await TestCluster.connect(database)
        try await connection.script(sql, deadline: .now + .seconds(20))
        await connection.close()
    }
}
