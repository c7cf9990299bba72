import Foundation
import Postgres
import Simulation
import TestSupport
import Testing

@Suite("SQL agrees with the simulator's expected answers about Google Play")
struct GoogleAnswerKeyTests {
    /// The number of compared answers about purchases and the wrong ones, from the lines of `store-simulator --expected`.
    private static let differences = Statement(
        "google_differences",
        """
        with answer as materialized (
          select line ->> 'app' as app, line ->> 'environment' as environment, line ->> 'purchaseToken' as token,
            (line ->> 'at')::timestamptz as at, (line ->> 'active')::boolean as active,
            coalesce((line ->> 'until')::timestamptz, 'infinity') as until, line ->> 'productId' as product_id
          from (
            select text::jsonb as line
            from unnest($1::text[]) as input (text)
          ) as input
          where line ? 'purchaseToken'
        )
        select count(*),
          coalesce(string_agg(answer::text || ' ' || coalesce(given::text, 'nothing'), E'\n') filter (
            where coalesce(given.active, false) is distinct from answer.active
              or answer.active and given.until is distinct from answer.until
              or answer.product_id is not null and given.product_id is distinct from answer.product_id
          ), '')
        from answer
        left join lateral (
          select bool_or(period.starts_at <= answer.at and period.ends_at > answer.at) as active,
            max(period.ends_at) filter (where period.run = period.run_at) as until,
            (array_agg(period.product_id order by period.cause = 'grace', period.starts_at desc) filter (
              where period.starts_at <= answer.at and period.ends_at > answer.at
            ))[1] as product_id
          from (
            select run.*, max(run.run) filter (where run.starts_at <= answer.at) over () as run_at
            from (
              select access_period.*,
                count(*) filter (where covered_until is null or covered_until < starts_at)
                  over (order by starts_at, ends_at) as run
              from (
                select starts_at, ends_at, cause, product_id,
                  max(ends_at) over (
                    order by starts_at, ends_at
                    rows between unbounded preceding and 1 preceding
                  ) as covered_until
                from subledger.access_period
                join subledger.stream using (stream_id)
                where stream.app = answer.app
                  and stream.environment = answer.environment
                  and access_period.original_transaction_id = answer.token
              ) as access_period
            ) as run
          ) as period
        ) as given on true
        """)

    /// The ids of subscriptions with access that are not in the answers or, though active once, not in the view, and of those
    /// of which the view says something else than their last end.
    private static let presentDifferences = Statement(
        "google_present_differences",
        """
        select count(*), coalesce(string_agg(coalesce(token, original_transaction_id), ' '), '')
        from (
          select line ->> 'environment' as environment, line ->> 'purchaseToken' as token,
            bool_or((line ->> 'active')::boolean) as was_active
          from (
            select text::jsonb as line
            from unnest($1::text[]) as input (text)
          ) as input
          where line ? 'purchaseToken'
          group by 1, 2
        ) as answer
        full join subledger.subscription_now as present
          on present.environment = answer.environment
          and present.original_transaction_id = answer.token
        where answer.token is null and present.access_ends_at is not null
          or present.original_transaction_id is null and answer.was_active
          or present.active is distinct from coalesce(present.access_ends_at > now(), false)
        """)

    @Test("every answer of every story, with lost, shuffled and repeated pushes; an altered row is found")
    func everyStory() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
        // A server that root starts has another user.
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("expected.jsonl").path
        let database = try await SharedDatabase.make()

        let run = try ServerProcess.simulate(
            [
                "--in-step", "--store", "google", "--seed", "11", "--subscriptions",
                "\(PlayStory.allCases.count)", "--lose", "0.3", "--order", "shuffled", "--duplicate", "0.2",
                "--store-faults", "0.05", "--expected", file, "--database-url",
                try #require(database.environment()["SUBLEDGER_DATABASE_URL"]),
            ], limit: 300)

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(run.output.contains(/folded \d{3,} changes about Google Play, differences: 0\n/), "\(run.output)")
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map(String.init)
        let owner = try await TestCluster.connect(database.configuration)
        let purchases = try await Self.compare(Self.differences, lines, owner)
        let customers = try await Self.compare(AnswerKeyTests.differences, lines, owner)
        #expect(purchases.compared > 400 && customers.compared > 200)
        #expect(purchases.wrong == "")
        #expect(customers.wrong == "")
        #expect(try await Self.compare(Self.presentDifferences, lines, owner).wrong == "")
        let view = try await owner.query(AnswerKeyTests.viewDifferences, deadline: .now + .seconds(60))
        #expect(try view[0].value(Int64.self, at: 0) == 0)
        print("compared \(purchases.compared) answers about purchases and \(customers.compared) about customers")

        try await Self.alter(lines, owner)
        await owner.close()
    }

    /// Alters one row at a time, each of which must be reported.
    private static func alter(_ lines: [String], _ owner: PostgresConnection) async throws {
        let answers = try lines.map {
            try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        let renewed = answers.filter { $0["story"] as? String == "renewals" && $0["active"] as? Bool == true }
        let purchase = try #require(renewed.first { $0["purchaseToken"] != nil })
        let customer = try #require(renewed.first { $0["customerId"] != nil })
        let token = try #require(purchase["purchaseToken"] as? String)
        let user = try #require(customer["customerId"] as? String)

        let product = try await owner.query(
            Statement(
                "alter_product",
                """
                update subledger.access_period
                set product_id = 'another'
                where original_transaction_id = $1
                  and starts_at <= $2::text::timestamptz
                  and ends_at > $2::text::timestamptz
                returning 1
                """), [Parameter(token), Parameter(try #require(purchase["at"] as? String))],
            deadline: .now + .seconds(10))
        #expect(product.count == 1)
        #expect(try await compare(differences, lines, owner).wrong.contains(token))

        let identity = try await owner.query(
            Statement(
                "alter_identity",
                """
                update subledger.customer_identity
                set id = 'another'
                where kind = 'account'
                  and id = $1
                returning 1
                """), [Parameter(user)], deadline: .now + .seconds(10))
        #expect(identity.count == 1)
        #expect(try await compare(AnswerKeyTests.differences, lines, owner).wrong.contains(user))
    }

    private static func report(
        _ arguments: [String], _ database: SharedDatabase
    ) throws -> (status: Int32, output: String, error: String) {
        try ServerProcess.run(["report"] + arguments, environment: database.environment(), limit: 240)
    }

    private static func add(_ folder: String, _ database: SharedDatabase) throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        let imported = try report(["import"] + names.map { "\(folder)/\($0)" }, database)
        #expect(imported.status == 0, "\(imported.error)")
    }

    /// Of what the stores report some days later, nothing is unexplained.
    private static func reconcileLate(_ folder: String, _ database: SharedDatabase) async throws {
        try add(folder, database)
        let reasons = try await database.lines(
            "select distinct reason from analyst.report_differences order by reason")
        #expect(reasons.contains("settled_later"))
        let explained: Set = ["settled_later", "neighbouring_day", "not_reported_yet"]
        #expect(explained.isSuperset(of: reasons), "\(reasons)")
    }

    /// The reports agree with the ledger; without a charge, with another amount, or with an order that nobody made, exactly that
    /// is a difference.
    private static func reconcile(_ folder: String, _ database: SharedDatabase) async throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        try add(folder, database)
        let kinds = try await database.lines(
            "select concat_ws(' ', kind, event) from analyst.store_report_rows group by kind, event order by 1")
        #expect(
            kinds == [
                "apple_finance_detail refund", "apple_finance_detail sale", "apple_sales partial_refund",
                "apple_sales refund", "apple_sales sale", "apple_subscription active", "google_earnings Charge",
                "google_earnings Charge refund", "google_sales refund", "google_sales sale",
            ])
        let equal = try report(["differences"], database)
        #expect(equal.status == 0 && equal.output == "", "\(equal.output)\(equal.error)")

        let reports = try names.filter { $0.hasPrefix("salesreport_") }.map { name in
            let text = try String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)
            return (name, text.split(separator: "\n").map(String.init))
        }
        var (name, lines) = try #require(reports.max { $0.1.count < $1.1.count })
        try #require(lines.count > 4)
        let missing = lines.remove(at: 2)
        lines[2] = lines[2].replacing(/^(GPA[^,]*)/) { "\($0.1)99" }
        let changed = "\(folder)/changed/\(name)"
        try FileManager.default.createDirectory(atPath: "\(folder)/changed", withIntermediateDirectories: true)
        try (lines.joined(separator: "\n") + "\n").write(toFile: changed, atomically: true, encoding: .utf8)
        #expect(try report(["import", changed], database).status == 0)
        let reasons = try await database.lines(
            "select concat_ws(' ', order_id, reason) from analyst.report_differences where report = 'google_sales' order by 1"
        )
        let order = String(missing.prefix { $0 != "," })
        #expect(reasons.contains("\(order) not_reported"), "\(reasons)")
        #expect(reasons.count { $0.hasSuffix("99 unknown_order") } == 1 && reasons.count == 3, "\(reasons)")
    }

    private static func compare(
        _ statement: Statement, _ lines: [String], _ owner: PostgresConnection
    ) async throws -> (compared: Int64, wrong: String) {
        let found = try await owner.query(statement, [.array(lines)], deadline: .now + .seconds(120))
        return (try found[0].value(at: 0), try found[0].value(at: 1))
    }

    /// The views of which a lost notification changes nothing, once everything was asked again.
    private static let moneyViews = ["revenue", "proceeds", "proceeds_detail", "refunds", "refund_rate"]

    /// Both stores, with 30 percent of the notifications lost and asked again.
    @Test("what was paid and paid back is what the stores' books and reports say, an offer's price included")
    func revenue() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("subledger-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("figures.jsonl").path
        let database = try await SharedDatabase.make()
        let scale = TestScale.count(1, full: 5)

        let stories = [
            "--store", "both", "--environment", "production", "--apple-id", "1234567890", "--seed", "11",
            "--subscriptions", "\(8 * scale)", "--stories",
            "introductory-price,one-time-purchase,refund-by-amount,prepaid,refund-of-older,trial,add-ons,promotion,"
                + "trial-conversion,refund-of-old-period,refund-of-current-period,prorated-refund,price-rise-accepted",
        ]
        let late = folder.appendingPathComponent("late").path
        let run = try ServerProcess.simulate(
            stories + [
                "--in-step", "--by-api", "--lose", "0.3", "--order", "shuffled", "--duplicate", "0.1", "--figures",
                file, "--settle-days", "3", "--write-reports", late, "--database-url",
                try #require(database.environment()["SUBLEDGER_DATABASE_URL"]),
            ], limit: 300)

        #expect(run.status == 0, "\(run.output)\(run.error)")
        #expect(run.output.contains(/audited \d+ notifications of \d+ days: \d+ arrived, [1-9]\d* fetched/))
        let isOfMoney: (String) -> Bool = { name in Self.moneyViews.contains { name.hasPrefix("\($0) ") } }
        let right = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map {
            let line = try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
            return "\(line["figure"] ?? "") \(line["value"] ?? "")"
        }.filter(isOfMoney)
        try await database.script(AnalystLog.tables)
        let found = try await AnalystLog.figures(database.configuration).map { "\($0.key) \($0.value)" }
            .filter(isOfMoney)
        #expect(right.contains { $0.hasPrefix("refunds ") && $0.contains(" plus:") })
        #expect(right.contains { $0.hasPrefix("refunds ") && $0.contains(" com.example.") })
        #expect(found.sorted() == right.sorted())
        try await Self.reconcileLate(late, database)
        // The same, with everything on its day.
        try await database.script("truncate subledger.store_report, subledger.store_report_row")
        let prompt = folder.appendingPathComponent("prompt").path
        let written = try ServerProcess.simulate(stories + ["--write-reports", prompt])
        #expect(written.status == 0, "\(written.error)")
        try await Self.reconcile(prompt, database)
    }
}
