import Foundation
import Postgres
import TestSupport
import Testing

@Suite("access is given by hand, and taken back")
struct GrantTests {
    private static let here = "app=com.example.magazine&environment=production"

    private static func put(
        _ server: TestBundle, _ customer: String, _ id: String, _ body: String, query: String = here
    ) async throws -> HTTPAnswer {
        try await server.owner.put(body, to: "/customers/\(customer)/grants/\(id)?\(query)")
    }

    private static func plus(until day: String) -> String {
        #"{"entitlement":"plus","from":"2019-11-01T00:00:00Z","until":"\#(day)T00:00:00Z","reason":"case 1"}"#
    }

    private static func entitlements(
        _ server: TestBundle, _ customer: String, _ more: String = ""
    ) async throws -> [String] {
        let answer = try await server.backend.get("/customers/\(customer)/entitlements?\(here)\(more)")
        return (answer.json["entitlements"] as? [[String: Any]] ?? []).map {
            "\($0["entitlement"] ?? "") \($0["active"] as? Bool == true) \($0["until"] as? String ?? "for ever")"
        }
    }

    @Test("a grant is an entitlement until its end, now and at past instants; a repeat states nothing new")
    func give() async throws {
        try await TestBundle.withServer { server in
            let body = Self.plus(until: "2019-11-20")

            let first = try await Self.put(server, "u-1", "g-1", body)
            try await server.isFolded()
            let second = try await Self.put(server, "u-1", "g-1", body)
            let other = try await Self.put(server, "u-2", "g-1", body)
            let now = try await Self.entitlements(server, "u-1")
            let before = try await Self.entitlements(server, "u-1", "&at=2019-10-31T23:59:59Z")
            let after = try await Self.entitlements(server, "u-1", "&at=2019-11-20T00:00:00Z")
            let longer = try await Self.put(
                server, "u-1", "g-1", body.replacing("2019-11-20", with: "2019-12-20"))
            try await server.isFolded()
            let later = try await Self.entitlements(server, "u-1")
            let listed = try await server.sql(
                """
                select concat_ws(' ', grant_id, (ends_at at time zone 'utc')::date, reason, revoked_at, position)
                from analyst.grants
                """)

            #expect(listed == ["g-1 2019-12-20 case 1 2"])
            #expect(first.status == 200 && first.json["duplicate"] as? Bool == false, "\(first.body)")
            #expect(second.json["duplicate"] as? Bool == true)
            #expect(other.status == 409)
            #expect(now == ["plus true 2019-11-20T00:00:00.000Z"])
            #expect(before == [])
            #expect(after == ["plus false 2019-11-20T00:00:00.000Z"])
            #expect(longer.json["duplicate"] as? Bool == false)
            #expect(later == ["plus true 2019-12-20T00:00:00.000Z"])
        }
    }

    @Test("a grant without an end is revoked from now on; links that a backend replaces leave it alone")
    func revoke() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let body = #"{"entitlement":"plus","from":"2019-11-01T00:00:00Z","until":null,"reason":"press"}"#
            _ = try await Self.put(server, "u-1", "g-1", body)
            _ = try await CustomerRoutesTests.put(server, "u-1", #"{"links":[{"originalTransactionId":"20"}]}"#)
            try await server.isFolded()
            _ = try await CustomerRoutesTests.put(server, "u-1", #"{"links":[]}"#)
            try await server.isFolded()
            let given = try await Self.entitlements(server, "u-1")

            let strange = try await server.owner.send(
                "DELETE", "/customers/u-2/grants/g-1?\(Self.here)&reason=mistake")
            let revoked = try await server.owner.send(
                "DELETE", "/customers/u-1/grants/g-1?\(Self.here)&reason=mistake&by=anna")
            try await server.isFolded()
            let again = try await server.owner.send(
                "DELETE", "/customers/u-1/grants/g-1?\(Self.here)&reason=mistake")
            let taken = try await Self.entitlements(server, "u-1")
            let earlier = try await Self.entitlements(server, "u-1", "&at=2019-11-02T00:00:00Z")
            let listed = try await server.sql(
                """
                select
                  concat_ws(
                    '|', app, environment, grant_id, customer_id, entitlement, starts_at at time zone 'utc',
                    ends_at at time zone 'utc', given_at at time zone 'utc', coalesce(given_by, '-'), source, reason,
                    revoked_at at time zone 'utc', revoked_by, revoked_because
                  )
                from analyst.grants
                """)
            let knownBefore = try await server.backend.get("/events?\(Self.here)&source=backend")
            let problem = try await CustomerRoutesTests.problem(server.database)

            #expect(given == ["plus true for ever"])
            #expect(strange.status == 404)
            #expect(revoked.status == 200 && revoked.json["duplicate"] as? Bool == false, "\(revoked.body)")
            #expect(again.json["duplicate"] as? Bool == true)
            #expect(taken == ["plus false 2019-11-08T08:14:00.000Z"])
            #expect(earlier.count == 1 && earlier[0].hasPrefix("plus true"))
            #expect(knownBefore.body.contains(#""kind":"grant_revoked""#) && knownBefore.body.contains("anna"))
            #expect(problem == nil)
            #expect(
                listed == [
                    "com.example.magazine|production|g-1|u-1|plus|2019-11-01 00:00:00|2019-11-08 08:14:00|"
                        + "2019-11-08 08:14:00|-|backend|press|2019-11-08 08:14:00.001|anna|mistake"
                ])
        }
    }

    @Test("the explanation and the history name it, and the feed reports it")
    func explained() async throws {
        try await TestBundle.withServer { server in
            let body = Self.plus(until: "2019-12-01")
            _ = try await Self.put(server, "u-1", "g-1", body)
            try await server.isFolded()

            let explanation = try await server.backend.get(
                "/customers/u-1/explanation?\(Self.here)&entitlement=plus")
            let history = try await server.backend.get("/customers/u-1/history?\(Self.here)")
            let changes = try await server.backend.get("/changes?\(Self.here)&limit=10")
            let owner = try await TestCluster.connect(server.database)
            let rows = try await owner.query(
                Statement(
                    "granted", "select string_agg(payer_state, ' ') from subledger.access_period"),
                deadline: .now + .seconds(10))
            await owner.close()

            #expect(explanation.body.contains(#""rule":"granted""#), "\(explanation.body)")
            #expect(explanation.body.contains("was given by hand from 1 Nov 2019"), "\(explanation.body)")
            #expect(history.body.contains(#""kind":"#), "\(history.body)")
            #expect(changes.body.contains(#""entitlement":"plus""#), "\(changes.body)")
            #expect(try rows[0].value(String.self, at: 0) == "granted")
        }
    }

    @Test(
        "a grant that is none is refused, with the field",
        arguments: [
            (#"{"entitlement":"plus","reason":"x"}"#, "until"),
            (#"{"entitlement":"plus","until":null}"#, "reason"),
            (#"{"until":null,"reason":"x"}"#, "entitlement"),
            (#"{"entitlement":"","until":null,"reason":"x"}"#, "entitlement"),
            (#"{"entitlement":"plus","until":"2019-11-01T00:00:00Z","reason":"x"}"#, "until"),
            (#"{"entitlement":"plus","until":"soon","reason":"x"}"#, "until"),
            (#"{"entitlement":"plus","until":null,"reason":" "}"#, "reason"),
            (#"{"entitlement":"plus","until":null,"reason":"x","by":7}"#, "by"),
            (#"{"entitlement":"plus","until":null,"reason":"two\nlines"}"#, "reason"),
        ])
    func refused(body: String, field: String) async throws {
        try await TestBundle.withServer { server in
            let backend = try await server.client(with: .link)
            let answer = try await Self.put(server, "u-1", "g-1", body)
            let scope = try await backend.put(
                body, to: "/customers/u-1/grants/g-1?\(Self.here)")
            let app = try await Self.put(
                server, "u-1", "g-1", #"{"entitlement":"plus","until":null,"reason":"x"}"#,
                query: "app=com.example.other")

            #expect(answer.status == 400 && answer.json["field"] as? String == field, "\(answer.body)")
            #expect(scope.status == 403)
            #expect(app.status == 404)
        }
    }

    @Test("figures of payers, money and churn are the same with and without grants")
    func figures() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            func rows() async throws -> [String] {
                try await server.sql(
                    """
                    select 'active_subscriptions ' || to_jsonb(figure)::text from analyst.active_subscriptions as figure
                    union all
                    select 'active_customers ' || to_jsonb(figure)::text from analyst.active_customers as figure
                    union all
                    select 'mrr ' || to_jsonb(figure)::text from analyst.mrr as figure
                    union all
                    select 'movements ' || to_jsonb(figure)::text from analyst.movements as figure
                    union all
                    select 'customer_movements ' || to_jsonb(figure)::text from analyst.customer_movements as figure
                    union all
                    select 'churn_rate ' || to_jsonb(figure)::text from analyst.churn_rate as figure
                    union all
                    select 'customer_churn_rate ' || to_jsonb(figure)::text from analyst.customer_churn_rate as figure
                    union all
                    select 'trials ' || to_jsonb(figure)::text from analyst.trials as figure
                    union all
                    select 'retention ' || to_jsonb(figure)::text from analyst.retention as figure
                    union all
                    select 'renewal_retention ' || to_jsonb(figure)::text from analyst.renewal_retention as figure
                    union all
                    select 'refunds ' || to_jsonb(figure)::text from analyst.refunds as figure
                    union all
                    select 'refund_rate ' || to_jsonb(figure)::text from analyst.refund_rate as figure
                    union all
                    select 'plans ' || to_jsonb(figure)::text from analyst.plans as figure
                    union all
                    select 'plan_changes ' || to_jsonb(figure)::text from analyst.plan_changes as figure
                    union all
                    select 'renewal_outlook ' || to_jsonb(figure)::text from analyst.renewal_outlook as figure
                    union all
                    select 'revenue ' || to_jsonb(figure)::text from analyst.revenue as figure
                    union all
                    select 'mrr_movements ' || to_jsonb(figure)::text from analyst.mrr_movements as figure
                    union all
                    select 'billing_retries ' || to_jsonb(figure)::text from analyst.billing_retries as figure
                    union all
                    select 'proceeds ' || to_jsonb(figure)::text from analyst.proceeds as figure
                    union all
                    select 'offers ' || to_jsonb(figure)::text from analyst.offers as figure
                    union all
                    select 'price_cohorts ' || to_jsonb(figure)::text from analyst.price_cohorts as figure
                    union all
                    select 'plan_mix ' || to_jsonb(figure)::text from analyst.plan_mix as figure
                    order by 1
                    """)
            }
            let before = try await rows()
            for (id, body) in [
                ("past", #""from":"2019-09-01T00:00:00Z","until":"2019-10-02T00:00:00Z""#),
                ("now", #""from":"2019-11-01T00:00:00Z","until":"2019-12-01T00:00:00Z""#),
                ("ever", #""from":"2019-01-01T00:00:00Z","until":null"#),
            ] {
                let given = try await Self.put(
                    server, "u-1", id, #"{"entitlement":"com.example.books",\#(body),"reason":"x"}"#)
                #expect(given.status == 200, "\(given.body)")
            }
            try await server.isFolded()

            #expect(!before.isEmpty)
            #expect(try await rows() == before)
            let states = try await server.sql(
                """
                select coalesce(payer_state, '')
                from subledger.access_period
                where original_transaction_id like 'grant:%'
                """)
            #expect(states == ["granted", "granted", "granted"])
        }
    }

    @Test("no store is asked about a grant")
    func unasked() async throws {
        try await TestBundle.withServer { server in
            _ = try await Self.put(server, "u-1", "g-1", Self.plus(until: "2019-11-09"))
            try await server.isFolded()

            #expect(try await server.sql("select original_transaction_id from subledger.check_schedule") == [])
        }
    }

    @Test("backends cannot link a grant to another customer")
    func unlinkable() async throws {
        try await TestBundle.withServer { server in
            _ = try await Self.put(server, "u-1", "g-1", #"{"entitlement":"plus","until":null,"reason":"x"}"#)
            let linked = try await server.owner.put(
                #"{"links":[{"originalTransactionId":"grant:g-1"}],"transfer":true}"#,
                to: "/customers/u-2/links?\(Self.here)")
            try await server.isFolded()

            #expect(linked.status == 400 && linked.json["field"] as? String == "links[0].originalTransactionId")
            #expect(try await Self.entitlements(server, "u-1") == ["plus true for ever"])
        }
    }

    @Test("of several who give one grant to two customers at once, one customer has it")
    func atOnce() async throws {
        try await TestBundle.withServer { server in
            let body = #"{"entitlement":"plus","from":"2019-11-01T00:00:00Z","until":null,"reason":"x"}"#
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<6 {
                    group.addTask { try await Self.put(server, "u-\(number % 2)", "g-1", body).status }
                }
                return try await group.reduce(into: [Int]()) { $0.append($1) }
            }
            try await server.isFolded()
            let given = try await Self.entitlements(server, "u-0") + Self.entitlements(server, "u-1")
            let events = try await server.sql("select kind from subledger.event order by position")

            #expect(statuses.sorted() == [200, 200, 200, 409, 409, 409])
            #expect(given == ["plus true for ever"])
            #expect(events == ["link", "grant"])
        }
    }

    @Test("taken back and given again, it has the gap in between, and a later word counts even within a millisecond")
    func again() async throws {
        try await TestBundle.withServer { server in
            let body = Self.plus(until: "2019-12-01")
            _ = try await Self.put(server, "u-1", "g-1", body)
            _ = try await server.owner.send("DELETE", "/customers/u-1/grants/g-1?\(Self.here)&reason=x")
            try await server.isFolded()
            let taken = try await Self.entitlements(server, "u-1")
            let given = try await Self.put(
                server, "u-1", "g-1", #"{"entitlement":"plus","until":null,"reason":"again"}"#)
            try await server.isFolded()
            let earlier = try await Self.entitlements(server, "u-1", "&at=2019-11-02T00:00:00Z")
            let later = try await Self.entitlements(server, "u-1")
            let problem = try await CustomerRoutesTests.problem(server.database)

            #expect(taken == ["plus false 2019-11-08T08:14:00.000Z"])
            #expect(given.status == 200 && given.json["duplicate"] as? Bool == false)
            #expect(earlier == [])
            #expect(later == ["plus true for ever"])
            #expect(problem == nil)
        }
    }

    @Test("where products are configured, the name must be that of an entitlement, whatever products are called")
    func configured() async throws {
        try await TestBundle.withServer { server in
            for (product, entitlements) in [("monthly", "plus"), ("gold", "plus"), ("books", "books")] {
                let stated = try await server.owner.put(
                    #"{"kind":"consumable","entitlements":["\#(entitlements)"]}"#,
                    to: "/products/\(product)?app=com.example.magazine")
                #expect(stated.status == 200, "\(stated.body)")
            }
            func give(_ entitlement: String) async throws -> HTTPAnswer {
                try await Self.put(
                    server, "u-1", entitlement, #"{"entitlement":"\#(entitlement)","until":null,"reason":"x"}"#)
            }
            let (plus, books) = (try await give("plus"), try await give("books"))
            let (gold, typed) = (try await give("gold"), try await give("plsu"))
            try await server.isFolded()

            #expect(plus.status == 200 && books.status == 200, "\(plus.body) \(books.body)")
            for answer in [gold, typed] {
                #expect(answer.status == 400 && answer.json["field"] as? String == "entitlement", "\(answer.body)")
            }
            #expect(try await Self.entitlements(server, "u-1") == ["books true for ever", "plus true for ever"])
        }
    }

    @Test("the command gives access and takes it back beside a server; verify and rebuild find nothing wrong")
    func command() async throws {
        let folder = TestFolder.path("grant")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        let apps = TestFolder.path("grant-apps.json")
        defer { try? FileManager.default.removeItem(atPath: apps) }
        try Data(#"[{"bundleId":"\#(V1Body.app)","sharedSecrets":["\#(V1Body.secret)"]}]"#.utf8)
            .write(to: URL(fileURLWithPath: apps))
        let owner: [FileAttributeKey: Any] = try ServerAccount.ifRoot().map { [.ownerAccountName: $0.name] } ?? [:]
        try FileManager.default.setAttributes(owner.merging([.posixPermissions: 0o600]) { $1 }, ofItemAtPath: apps)
        let server = try ServerProcess(dataFolder: folder)
        let port = try await server.ports().private
        let backend = HTTPClient(port: port, token: try ServerProcess.token("read", dataFolder: folder))
        let grant = ["grant", "--app", V1Body.app, "--apps-file", apps]
        let some = ["--customer", "u-1", "--entitlement", "plus", "--reason", "case 1", "--by", "anna"]

        let given = try run(grant + some + ["--days", "10", "--id", "g-1"])
        let ever = try run(grant + some + ["--forever", "--id", "g-2"])
        let other = try run(
            grant + ["--customer", "u-2", "--entitlement", "plus", "--reason", "x", "--forever", "--id", "g-2"])
        let revoked = try run(grant + ["--revoke", "g-1", "--reason", "mistake", "--by", "anna"])
        let nothing = try run(grant + ["--revoke", "g-3", "--reason", "mistake"])
        let endless = try run(grant + some)
        let unknown = try run(["grant", "--app", "com.example.other", "--apps-file", apps] + some + ["--forever"])
        let entitlements = try await eventually("the grant is folded") {
            let answer = try await backend.get("/customers/u-1/entitlements?app=\(V1Body.app)")
            return answer.body.contains("grant:g-2") ? answer : nil
        }
        let verified = try run(["verify", "--all"])
        let rebuilt = try run(["rebuild", "--diff"])
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(
            given.status == 0 && given.output.contains(#""grantId":"g-1","position":2,"duplicate":false"#), "\(given)")
        #expect(ever.status == 0, "\(ever)")
        #expect(other.status == 65 && other.error.contains("another customer"), "\(other)")
        #expect(revoked.status == 0 && revoked.output.contains(#""duplicate":false"#), "\(revoked)")
        #expect(nothing.status == 65 && nothing.error.contains("no such grant"), "\(nothing)")
        #expect(endless.status == 64, "\(endless)")
        #expect(unknown.status == 78, "\(unknown)")
        #expect(entitlements.body.contains(#""entitlement":"plus","active":true"#), "\(entitlements.body)")
        #expect(verified.status == 0, "\(verified)")
        #expect(rebuilt.status == 0, "\(rebuilt)")
    }
}
