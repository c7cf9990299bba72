import Foundation
import Postgres
import Server
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("The analyst views agree with the simulator's figures")
struct AnalystTests {
    private static let usual = 84
    /// The number of stories; SUBLEDGER_TEST_SUBSCRIPTIONS sets a larger one.
    private static let subscriptions = TestScale.number("SUBLEDGER_TEST_SUBSCRIPTIONS", usual)

    @Test(
        "the views return every figure of every story, shuffled and repeated; late refunds change past figures",
        .timeLimit(.minutes(subscriptions > usual ? 60 : 5)), arguments: AnalystRun.Kind.allCases)
    func figures(_ kind: AnalystRun.Kind) async throws {
        let run = try await AnalystRun(kind, stories: Self.subscriptions)
        let right = run.figures(nil)

        try await SimulatedLog.with { log in
            try await log.script(AnalystLog.tables)
            _ = try await log.append(run.events)
            if let linked = run.linked { try await log.append(linksOf: linked) }
            try await AnalystLog.fold(log)
            let before = try await AnalystLog.figures(log.database)
            _ = try await log.append(run.late)
            try await AnalystLog.fold(log)
            let after = try await AnalystLog.figures(log.database)

            #expect(right.count > 200)
            for view in run.changed {
                #expect(Self.differences(before, right).contains { $0.hasPrefix("\(view) ") })
            }
            #expect(Self.differences(after, right) == [])
            #expect(try await log.lines(Self.unexplained) == [])
        }
    }

    @Test(
        "the views return every figure of subscriptions that go on until now", .timeLimit(.minutes(5)),
        arguments: TestScale.isFull ? AnalystRun.Kind.allCases : [.appleV2, .google])
    func figuresUntilNow(_ kind: AnalystRun.Kind) async throws {
        let window = StoryWindow(until: SystemClock.now(), churn: 0.06)
        let run = try await AnalystRun(kind, stories: 56, window: window)

        try await SimulatedLog.with { log in
            try await log.script(AnalystLog.tables)
            _ = try await log.append(run.events + run.late)
            if let linked = run.linked { try await log.append(linksOf: linked) }
            try await AnalystLog.fold(log)
            // What ends while the views are read is read again.
            var right: [String: Int64]
            var found: [String: Int64]
            repeat {
                right = run.figures(SystemClock.now())
                found = try await AnalystLog.figures(log.database, goesOn: true)
            } while right != run.figures(SystemClock.now())

            #expect(Self.differences(found, right) == [])
            for column in ["active", "increase_asked"] {
                #expect(right.keys.contains { $0.hasPrefix("price_cohorts ") && $0.hasSuffix(" \(column)") })
            }
        }
    }

    /// Months in which the number of subscriptions or customers with access does not change by the movements.
    private static let unexplained: StaticString = """
        with month as (
          select month::date, (month + interval '1 month')::date as next
          from generate_series(timestamp '2024-12-01', '2026-07-01', interval '1 month') as month
        ), active (counted, day, number) as (
          select 'subscriptions', day, paying + in_trial + in_grace from analyst.active_subscriptions
          union all
          select 'customers', day, paying + in_trial + in_grace from analyst.active_customers
        ), moved (counted, month, net) as (
          select 'subscriptions', month, net from analyst.movements
          union all
          select 'customers', month, net from analyst.customer_movements
        ), balance as (
          select
            kind.counted,
            month.month,
            coalesce((
              select sum(number) from active where active.counted = kind.counted and day = month.month
            ), 0) as opening,
            coalesce((
              select sum(number) from active where active.counted = kind.counted and day = month.next
            ), 0) as closing,
            coalesce((
              select sum(net) from moved where moved.counted = kind.counted and moved.month = month.month
            ), 0) as net
          from month
          cross join (values ('subscriptions'), ('customers')) as kind (counted)
        )
        select format('%s %s: %s + %s is not %s', counted, month, opening, net, closing)
        from balance
        where opening + net <> closing
        union all
        select format('no movements of %s', counted)
        from balance
        group by counted
        having sum(abs(net)) = 0
        """

    private static func differences(_ found: [String: Int64], _ right: [String: Int64]) -> [String] {
        Set(found.keys).union(right.keys).sorted().filter { found[$0] != right[$0] }
            .map { "\($0): found \(found[$0] ?? 0), right \(right[$0] ?? 0)" }
    }

    @Test("every view and every column has a comment")
    func comments() async throws {
        let connection = try await TestCluster.connect(try await TestCluster.freshDatabase())

        let bare = try await connection.query(
            Statement(
                "bare",
                """
                select format('%s.%s', relname, attname)
                from pg_class
                left join pg_attribute on attrelid = pg_class.oid and attnum > 0
                where relnamespace = 'analyst'::regnamespace
                  and (obj_description(pg_class.oid, 'pg_class') is null or col_description(attrelid, attnum) is null)
                order by 1
                """), deadline: .now + .seconds(20))
        let views = try await connection.query(
            Statement("views", "select count(*) from pg_views where schemaname = 'analyst'"),
            deadline: .now + .seconds(20))

        #expect(try (0..<bare.count).map { try bare[$0].value(String.self, at: 0) } == [])
        #expect(try views[0].value(Int64.self, at: 0) >= 20)
        await connection.close()
    }

    @Test(
        "analysts and readers can read every view and write nothing",
        arguments: ["subledger_analyst", "subledger_reader"])
    func rights(_ role: String) async throws {
        let database = try await TestCluster.freshDatabase()
        let connection = try await TestCluster.connect(database.with(role: role))

        try await connection.script(
            """
            do $$
            declare
              name text;
            begin
              for name in select viewname from pg_views where schemaname = 'analyst' loop
                execute format('select from analyst.%I', name);
              end loop;
            end
            $$
            """, deadline: .now + .seconds(20))
        let writing = await #expect(throws: PostgresError.self) {
            try await connection.script("create table analyst.mine ()", deadline: .now + .seconds(20))
        }
        let body = await #expect(throws: PostgresError.self) {
            try await connection.script("select body from subledger.event_body", deadline: .now + .seconds(20))
        }

        #expect(writing?.sqlstate == "42501")
        #expect(body?.sqlstate == "42501")
        await connection.close()
    }

    @Test("every position in a detail view is an event of the same subscription, app and environment")
    func positions() async throws {
        let simulation = try #require(AnalystLog.simulation(seed: 7, subscriptions: 28, format: .both))
        try await SimulatedLog.with { log in
            try await log.append(try await AnalystLog.verified(simulation.deliveries))
            try await AnalystLog.fold(log)

            let lost = try await log.lines(
                """
                with detail as (
                  select 'active' as name, app, environment, original_transaction_id, positions
                  from analyst.active_subscriptions_detail
                  union all
                  select 'movements', app, environment, original_transaction_id, positions from analyst.movements_detail
                  union all
                  select 'mrr', app, environment, original_transaction_id, positions from analyst.mrr_detail
                  union all
                  select 'trials', app, environment, original_transaction_id, positions from analyst.trials_detail
                  union all
                  select 'retention', app, environment, original_transaction_id, positions from analyst.retention_detail
                  union all
                  select 'renewals', app, environment, original_transaction_id, positions
                  from analyst.renewal_retention_detail
                  union all
                  select 'refunds', app, environment, original_transaction_id, positions from analyst.refunds_detail
                  union all
                  select 'churn', app, environment, original_transaction_id, positions from analyst.churn_rate_detail
                  union all
                  select 'purchases', app, environment, original_transaction_id, positions
                  from analyst.refund_rate_detail
                  union all
                  select 'outlook', app, environment, original_transaction_id, positions
                  from analyst.renewal_outlook_detail
                  union all
                  select 'retries', app, environment, original_transaction_id, positions
                  from analyst.billing_retries_detail
                  union all
                  select 'plans', app, environment, original_transaction_id, positions from analyst.plan_changes_detail
                  union all
                  select 'offers', app, environment, original_transaction_id, positions from analyst.offers_detail
                  union all
                  select 'prices', app, environment, original_transaction_id, positions from analyst.price_cohorts_detail
                )
                select format('%s %s %s', detail.name, detail.original_transaction_id, position)
                from detail
                cross join unnest(coalesce(nullif(positions, '{}'), '{0}')) as position
                left join analyst.events using (app, environment, position)
                where events.original_transaction_id is distinct from detail.original_transaction_id
                """)

            #expect(lost == [])
        }
    }
}
