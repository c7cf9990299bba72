import Foundation
import Postgres
import TestSupport

/// The time that an operator waits for the import of a large report, and for the differences of a month to the reports of a
/// large log. Both are commands of the program.
///
/// The log is that of ``BenchmarkLog``, folded by the projector. The reports of the month have what the ledger has, apart
/// from how offers are called: so the comparison reads everything, and little is left to explain.
struct ReportsRun {
    let settings: RunSettings
    /// Of the log, and rows of the imported report.
    let events: Int
    let runs: Int

    private static let limit = 600.0

    func measure(_ samples: inout Samples) async throws {
        let report = settings.folder.file("S_D_85000000_202601.txt")
        try writeReport(to: report)
        samples.add("reports.rows", Double(events))
        for round in 1...runs {
            progress("import, run \(round) of \(runs)")
            let database = try await SharedDatabase.make()
            let (seconds, output) = try time(["import", report], on: database)
            guard output.hasSuffix(": \(events) rows imported\n") else { throw BenchError(output) }
            samples.add("reports.import", seconds)
            try await database.drop()
        }
        try FileManager.default.removeItem(atPath: report)

        let database = try await SharedDatabase.make()
        progress("making a log of \(events) events")
        _ = try await BenchmarkLog.filled(database) { _, made in
            made >= events ? nil : min(events, made + BenchmarkLog.step)
        }
        progress("writing the reports of a month")
        let owner = try await TestCluster.connect(database.configuration)
        try await owner.script(Self.reports, deadline: .now + .seconds(1200))
        await owner.close()
        let made = try await database.lines("select count(*)::text from subledger.event")
        samples.add("reports.events", Double(made[0]) ?? 0)
        for round in 1...runs {
            progress("differences, run \(round) of \(runs)")
            let (seconds, output) = try time(["differences", "--month", "2025-10"], on: database)
            samples.add("reports.differences", seconds)
            samples.add("reports.different", Double(output.split(separator: "\n").count))
        }
        try await database.drop()
    }

    /// Runs a command `report` of the program.
    private func time(_ arguments: [String], on database: SharedDatabase) throws -> (seconds: Double, output: String) {
        let start = ContinuousClock.now
        let run = try ServerProcess.run(
            ["report"] + arguments, environment: database.environment(), limit: Self.limit)
        // Of the differences, 1 says that there are some.
        guard run.status == 0 || run.status == 1 && !run.output.isEmpty else { throw BenchError(run.error) }
        return ((ContinuousClock.now - start).inSeconds, run.output)
    }

    /// A Sales report of January, each row of which is different.
    private func writeReport(to path: String) throws {
        let header = [
            "Provider", "Provider Country", "SKU", "Developer", "Title", "Version", "Product Type Identifier", "Units",
            "Developer Proceeds", "Begin Date", "End Date", "Customer Currency", "Country Code",
            "Currency of Proceeds", "Apple Identifier", "Customer Price", "Promo Code", "Parent Identifier",
            "Subscription", "Period", "Category", "CMB", "Device", "Supported Platforms", "Proceeds Reason",
            "Preserved Pricing", "Client", "Order Type",
        ]
        var text = header.joined(separator: "\t") + "\n"
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let file = FileHandle(forWritingAtPath: path)
        else { throw BenchError("\(path) cannot be written") }
        for number in 0..<events {
            let day = number % 31 + 1
            let date = "01/\(day < 10 ? "0" : "")\(day)/2026"
            text += """
                APPLE\tUS\tcom.example.product.\(number % 500)\tExample GmbH\tProduct\t\tIAY\t\(number % 7 + 1)\t6.99\t\(date)\t\
                \(date)\tEUR\tDE\tEUR\t\(1_500_000_000 + number % 500)\t\(number / 15_500 + 1).99\t\tcom.example.app\tRenewal\t\
                1 Month\tUtilities\t\tiPhone\tiOS\t\t\t\t\n
                """
            if text.utf8.count > 1 << 20 {
                try file.write(contentsOf: Data(text.utf8))
                text = ""
            }
        }
        try file.write(contentsOf: Data(text.utf8))
        try file.close()
    }

    /// A file for each day of the month, of sales, of the events of subscriptions, and of their stock at the end of the day.
    private static let reports = """
        insert into subledger.store_report (sha256, kind, name, first_day, last_day, rows)
        select sha256(convert_to(kind || day, 'UTF8')), kind, kind || '_' || day, day, day, 0
        from generate_series(date '2025-10-01', '2025-10-31', interval '1 day') as days (at)
        cross join lateral (select at::date) as named (day)
        cross join (values ('apple_sales'), ('apple_subscription_event'), ('apple_subscription')) as kinds (kind);

        create temporary table found as
        select
          'apple_sales' as kind, day, 'sale' as event, product_id, country, currency, count(*) as units, sum(price) as amount,
          '{}'::jsonb as fields
        from (
          select
            (purchase_date at time zone 'America/Los_Angeles')::date as day, product_id,
            analyst.country(storefront) as country, currency, price
          from analyst.refund_rate_detail
          where environment = 'production'
            and analyst.store(original_transaction_id) = 'apple'
            and price <> 0
        ) as sold
        group by day, product_id, country, currency
        union all
        select
          'apple_subscription_event', (starts_at at time zone 'America/Los_Angeles')::date,
          case movement when 'resubscribed' then 'Reactivate' when 'renewal' then 'Renew' else 'Subscribe' end,
          product_id, country, null, count(*), null, '{}'
        from analyst.ordered_periods
        join lateral (
          select analyst.country(storefront) as country
          from subledger.transaction
          where transaction.stream_id = ordered_periods.stream_id
            and transaction.original_transaction_id = ordered_periods.original_transaction_id
            and transaction.transaction_id = ordered_periods.transaction_id
        ) as bought on true
        where environment = 'production'
          and movement in ('trial_start', 'new', 'renewal', 'resubscribed')
          and payer_state in ('paying', 'trial')
        group by 1, 2, 3, 4, 5
        union all
        select
          'apple_subscription', day, 'active', product_id, country, null, null, null,
          jsonb_build_object(
            'active standard price subscriptions', (count(*) filter (where payer_state = 'paying'))::text,
            'active free trial introductory offer subscriptions', (count(*) filter (where payer_state = 'trial'))::text,
            'grace period', (count(*) filter (where payer_state = 'grace'))::text
          )
        from generate_series(date '2025-10-01', '2025-10-31', interval '1 day') as days (at)
        cross join lateral (
          select at::date as day, (at::date + 1)::timestamp at time zone 'America/Los_Angeles' as ends_at
        ) as cut
        join analyst.held_periods as held on held.starts_at < cut.ends_at and held.ends_at >= cut.ends_at
        join lateral (
          select analyst.country(storefront) as country
          from subledger.transaction
          where transaction.stream_id = held.stream_id
            and transaction.original_transaction_id = held.original_transaction_id
            and transaction.transaction_id = held.transaction_id
        ) as bought on true
        where held.environment = 'production'
          and held.payer_state in ('paying', 'trial', 'grace')
        group by day, product_id, country;

        insert into subledger.store_report_row (
          name, sha256, line, day, event, product_id, apple_id, country, currency, units, amount, fields
        )
        select
          report.name, report.sha256, row_number() over (partition by report.name), found.day, found.event,
          case found.kind when 'apple_sales' then found.product_id end, '15' || abs(hashtext(found.product_id)),
          found.country, found.currency, found.units, found.amount, found.fields
        from found
        join subledger.store_report as report on report.kind = found.kind and report.first_day = found.day
        where found.product_id is not null;

        analyze subledger.store_report, subledger.store_report_row;
        """
}
