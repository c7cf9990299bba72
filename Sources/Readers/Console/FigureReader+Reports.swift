import Encoding
import Postgres

/// Where the stores' reports and the ledger differ, for people.
package struct ReportComparison: Sendable {
    /// An imported report that counts, with its files.
    package struct Imported: Sendable, Hashable {
        /// As `apple_sales`.
        package let kind: String
        package let files: Int64
        /// As `2026-11-25`.
        package let firstDay: String
        package let lastDay: String
    }

    package struct Difference: Sendable, Hashable {
        package let report: String
        package let day: String
        package let productId: String?
        package let country: String?
        package let event: String
        package let orderId: String?
        package let currency: String?
        package let reportedUnits: String
        package let ourUnits: String
        package let reportedAmount: String
        /// Nil if it is not known.
        package let ourAmount: String?
        package let reason: String
        /// Files and lines.
        package let lines: [String]
        package let purchases: [String]
    }

    package let imported: [Imported]
    package let reasons: [(reason: String, count: Int64)]
    /// The largest first: by the amount, in euros where there is a rate.
    package let differences: [Difference]
    package let sql: String

    /// - Parameters:
    ///   - imported: In the order of their kinds.
    ///   - reasons: The most frequent first.
    package init(
        imported: [Imported], reasons: [(reason: String, count: Int64)], differences: [Difference], sql: String
    ) {
        self.imported = imported
        self.reasons = reasons
        self.differences = differences
        self.sql = sql
    }
}

extension FigureReader {
    /// The differences of production, of which the first ``Limits/reportDifferencesShownMax`` are listed.
    ///
    /// - Parameter month: As `2026-11`; nil for all.
    package func reports(month: String?) async -> Result<ReportComparison, FigureFailure> {
        let values = [month ?? "", "\(Limits.reportDifferencesShownMax)"]
        let sql = ReadableSQL(Statements.differences, values.map { .text($0) }).text
        do throws(PostgresError) {
            let deadline = ContinuousClock.now + Limits.figureWaitMax
            var imported: [ReportComparison.Imported] = []
            for row in try await pool.query(Statements.imported, [], deadline: deadline) {
                imported.append(
                    ReportComparison.Imported(
                        kind: try row.value(at: 0), files: try row.value(at: 1), firstDay: try row.value(at: 2),
                        lastDay: try row.value(at: 3)))
            }
            var reasons: [(reason: String, count: Int64)] = []
            var differences: [ReportComparison.Difference] = []
            for row in try await pool.query(
                Statements.differences, values.map { Parameter($0) }, deadline: deadline)
            {
                let reason: String = try row.value(at: 11)
                if let count: Int64 = try row.optional(at: 14) {
                    reasons.append((reason, count))
                } else {
                    differences.append(try ReportComparison.Difference(row, reason))
                }
            }
            return .success(
                ReportComparison(imported: imported, reasons: reasons, differences: differences, sql: sql))
        } catch {
            return .failure(FigureFailure(error, sql: sql))
        }
    }

    private enum Statements {
        static let imported = Statement(
            "reports_imported",
            """
            select kind, count(*), min(first_day)::text, max(last_day)::text
            from analyst.store_reports
            where replaced_at is null
            group by kind
            order by kind
            """)

        /// First a row for each reason, with its count, and then the differences.
        static let differences = Statement(
            "reports_differences",
            """
            with different as materialized (
              select *
              from analyst.report_differences_in('America/Los_Angeles', (nullif($1::text, '') || '-01')::date)
            ), listed as (
              select
                different.*,
                row_number() over (
                  order by
                    abs(different.reported_amount - coalesce(different.our_amount, 0)) / coalesce(
                      (select rate.per_euro from analyst.rate_on(different.currency, different.day) as rate), 1
                    ) desc,
                    abs(different.reported_units - different.our_units) desc, different.day, different.report,
                    different.product_id, different.event, different.order_id, different.country
                ) as place
              from different
            )
            select
              report, day::text, product_id, country, event, order_id, currency, reported_units::text, our_units::text,
              reported_amount::text, our_amount::text, reason, reported_lines, our_purchases, null::bigint, place
            from listed
            where place <= ($2::text)::bigint
            union all
            select
              null, null, null, null, null, null, null, null, null, null, null, reason, null, null, count(*),
              -count(*)
            from different
            group by reason
            order by place, reason
            """)
    }
}

extension ReportComparison.Difference {
    fileprivate init(_ row: Row, _ reason: String) throws(PostgresError) {
        self.init(
            report: try row.value(at: 0), day: try row.value(at: 1), productId: try row.optional(at: 2),
            country: try row.optional(at: 3), event: try row.value(at: 4), orderId: try row.optional(at: 5),
            currency: try row.optional(at: 6), reportedUnits: try row.value(at: 7), ourUnits: try row.value(at: 8),
            reportedAmount: try row.value(at: 9), ourAmount: try row.optional(at: 10), reason: reason,
            lines: try row.array(of: String.self, at: 12).compactMap(\.self),
            purchases: try row.array(of: String.self, at: 13).compactMap(\.self))
    }
}
