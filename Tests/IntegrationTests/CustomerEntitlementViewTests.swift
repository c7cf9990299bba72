import EventLog
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("View entitlement and function entitlement_at return a customer's entitlements")
struct CustomerEntitlementViewTests {
    typealias Row = CustomerLog.Row

    /// `entitlement active until positions` of a customer on a day of January 2024.
    private static func entitlements(
        of customer: String, on day: String, _ log: CustomerLog, environment: String = "production"
    ) async throws -> [String] {
        try await log.lines(
            """
            select concat_ws(' ', entitlement, active, to_char(until at time zone 'UTC', 'YYYY-MM-DD'), positions)
            from subledger.entitlement_at('2024-01-\(day)T00:00:00Z')
            where customer = '\(customer)'
              and environment = '\(environment)'
            order by entitlement
            """)
    }

    private static let smallTables = [" on app_join", " on stream "]

    @Test("overlapping and adjacent periods of all subscriptions are merged, and a gap separates them")
    func runs() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("10", 1..<5, account: "aa")]), .rows([Row("20", 5..<9, account: "aa")]),
                .rows([Row("10", 8..<12, transaction: "11")]), .rows([Row("20", 20..<25, transaction: "21")]),
            ])

            #expect(try await Self.entitlements(of: "20", on: "04", log) == ["monthly t 2024-01-12 {1,2,3}"])
            #expect(try await Self.entitlements(of: "aa", on: "11", log) == ["monthly t 2024-01-12 {1,2,3}"])
            #expect(try await Self.entitlements(of: "aa", on: "12", log) == ["monthly f 2024-01-12 {1,2,3}"])
            #expect(try await Self.entitlements(of: "10", on: "20", log) == ["monthly t 2024-01-25 {4}"])
            #expect(try await Self.entitlements(of: "10", on: "26", log) == ["monthly f 2024-01-25 {4}"])
            #expect(try await Self.entitlements(of: "aa", on: "01", log) == ["monthly t 2024-01-12 {1,2,3}"])
            #expect(try await Self.entitlements(of: "aa", on: "26", log, environment: "sandbox") == [])
        }
    }

    @Test("a product gives the entitlements that it is mapped to, effective immediately")
    func mapping() async throws {
        try await CustomerLog.with { log in
            try await log.tell([
                .rows([Row("10", 1..<10, product: "gold", account: "aa")]),
                .rows([Row("20", 10..<20, product: "silver", account: "aa")]),
            ])
            let unmapped = try await Self.entitlements(of: "10", on: "05", log)
            try await log.script(
                """
                insert into subledger.product_entitlement (app, product_id, entitlement)
                values
                  ('com.example.magazine', 'gold', 'read'), ('com.example.magazine', 'gold', 'listen'),
                  ('com.example.magazine', 'silver', 'read'), ('com.example.other', 'silver', 'listen')
                """)

            #expect(unmapped == ["gold t 2024-01-10 {1}"])
            #expect(
                try await Self.entitlements(of: "10", on: "05", log)
                    == ["listen t 2024-01-10 {1}", "read t 2024-01-20 {1,2}"])
        }
    }

    @Test("a non-consumable has no end, and no entitlement before its purchase")
    func forEver() async throws {
        try await CustomerLog.with { log in
            try await log.script(
                """
                insert into subledger.stream (stream_id, app, environment)
                values (1, 'com.example.magazine', 'production');
                insert into subledger.customer_identity (
                  stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id
                )
                values (1, 'subscription', '10', '-infinity', 'infinity', 'subscription', '10');
                insert into subledger.ownership (
                  stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason
                )
                values (1, '10', '-infinity', 'infinity', 'subscription', '10', 'unclaimed');
                insert into subledger.access_period (
                  stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, product_id, position
                )
                values (1, '10', '2024-01-05Z', 'infinity', 'owned', '10', 'gold', 7)
                """)

            #expect(try await Self.entitlements(of: "10", on: "04", log) == [])
            let now = try await log.lines(
                """
                select concat_ws(' ', app, environment, customer, known_as, owner_kind, owner_id, entitlement, active,
                  until, positions)
                from subledger.entitlement
                """)
            #expect(now == ["com.example.magazine production 10 subscription subscription 10 gold t infinity {7}"])
        }
    }

    @Test("a lookup among 50,000 subscriptions uses only indexes and reads at most 40 pages")
    func plan() async throws {
        try await CustomerLog.with { log in
            try await log.script(
                """
                insert into subledger.stream (stream_id, app, environment)
                values (1, 'com.example.magazine', 'production'), (2, 'com.example.magazine', 'sandbox');
                insert into subledger.customer_identity (
                  stream_id, kind, id, starts_at, ends_at, customer_kind, customer_id
                )
                select 1, 'subscription', number::text, '-infinity'::timestamptz, 'infinity'::timestamptz, 'link',
                  'u-' || number / 2
                from generate_series(2, 50001) as number
                union all
                select 1, 'link', 'u-' || number, '-infinity', 'infinity', 'link', 'u-' || number
                from generate_series(1, 25000) as number;
                insert into subledger.ownership (
                  stream_id, original_transaction_id, starts_at, ends_at, customer_kind, customer_id, reason, position
                )
                select 1, number::text, '-infinity', 'infinity', 'link', 'u-' || number / 2, 'link', number
                from generate_series(2, 50001) as number;
                insert into subledger.access_period (
                  stream_id, original_transaction_id, starts_at, ends_at, cause, transaction_id, product_id, position
                )
                select 1, number::text, now() - interval '1 day', now() + interval '1 day', 'paid', number::text, 'gold',
                  number
                from generate_series(2, 50001) as number;
                insert into subledger.product_entitlement (app, product_id, entitlement)
                select 'com.example.magazine', 'p-' || number, 'read' from generate_series(1, 500) as number;
                insert into subledger.stream (stream_id, app, environment)
                select number, 'app-' || number, 'production' from generate_series(3, 300) as number;
                analyze
                """)

            for relation in ["subledger.entitlement", "subledger.entitlement_at('2024-01-05Z')"] {
                let plan = try await log.explain(
                    "select * from \(relation) where customer = 'u-777' and environment = 'production'")

                // A table of a few pages is read as a whole.
                let scans = plan.filter { $0.contains("Seq Scan") && !Self.smallTables.contains(where: $0.contains) }
                #expect(scans.isEmpty && !plan.contains { $0.contains("Function Scan") }, "\(plan)")
                #expect(plan.filter { $0.contains("Index") }.count >= 4, "\(plan)")
                let buffers = plan.first { $0.contains("Buffers: shared hit=") }
                let hits = buffers?.split(separator: "hit=").last?.prefix { $0.isNumber }
                #expect(hits.flatMap { Int($0) }.map { $0 <= 40 } == true, "\(plan)")
            }
        }
    }
}

extension CustomerLog {
    /// The plan of a query that was run once before, so that its pages are in memory.
    func explain(_ sql: String) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        try await connection.script(
            """
            create function pg_temp.plan() returns setof text language plpgsql as $$
            begin
              execute \(Self.quoted(sql));
              return query execute \(Self.quoted("explain (analyze, buffers, timing off) " + sql));
            end
            $$
            """, deadline: .now + .seconds(60))
        let rows = try await connection.query(
            Statement("plan", "select plan from pg_temp.plan() as plan"), deadline: .now + .seconds(60))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("'", with: "''") + "'"
    }
}
