import Encoding
import Foundation
import Postgres

/// A report that a store offers for download.
package struct StoreReport: Sendable, Hashable {
    /// SHA-256 of the file as it was downloaded.
    package let digest: [UInt8]
    package let kind: String
    package let name: String
    /// As `2026-11-25`.
    package let firstDay: String
    package let lastDay: String

    package init(digest: [UInt8], kind: String, name: String, firstDay: String, lastDay: String) {
        self.digest = digest
        self.kind = kind
        self.name = name
        self.firstDay = firstDay
        self.lastDay = lastDay
    }

    /// A row, see table `store_report_row`.
    package struct Row: Sendable, Hashable {
        package let line: Int
        /// All columns that are kept, by their names in lower case.
        package let fields: [String: String]
        /// As `2026-11-25`.
        package var day = ""
        package var event = ""
        package var app: String?
        package var productId: String?
        package var appleId: String?
        /// ISO 3166-1, two or three letters.
        package var country: String?
        package var currency: String?
        package var units: Decimal?
        package var amount: Decimal?
        package var proceeds: Decimal?
        package var proceedsCurrency: String?
        package var orderId: String?

        package init(line: Int, fields: [String: String]) {
            self.line = line
            self.fields = fields
        }
    }
}

/// The stores' reports in the database.
package enum StoreReports {
    package enum Outcome: Sendable, Equatable {
        case added(replaces: Bool)
        /// The same file was imported before, perhaps under another name.
        case known
    }

    package struct Differences: Sendable {
        /// A JSON object each.
        package let lines: [String]
        package let reasons: [(reason: String, count: Int)]
    }

    /// Adds a report. Atomic; durable when it returns; safe to repeat.
    ///
    /// - Parameter connection: Has the rights of `subledger_products`.
    package static func add(
        _ report: StoreReport, _ rows: [StoreReport.Row], on connection: PostgresConnection
    ) async throws(PostgresError) -> Outcome {
        let deadline = ContinuousClock.now + Limits.reportWaitMax
        var added = false
        var replaces = false
        let first = try await connection.begin(
            with: [
                Step(
                    ReportStatements.add,
                    [
                        Parameter(report.digest), Parameter(report.kind), Parameter(report.name),
                        Parameter(report.firstDay), Parameter(report.lastDay), Parameter(Int32(rows.count)),
                    ])
            ], deadline: deadline)
        do {
            if let row = first[0].first {
                added = true
                replaces = try row.value(at: 0)
                for start in stride(from: 0, to: rows.count, by: Limits.reportBatchRows) {
                    let batch = rows[start..<min(rows.count, start + Limits.reportBatchRows)]
                    _ = try await connection.query(
                        ReportStatements.addRows,
                        [Parameter(report.digest), Parameter(JSONB(utf8: json(batch))), Parameter(report.name)],
                        deadline: deadline)
                }
            }
            try await connection.commit(deadline: deadline)
        } catch {
            try? await connection.rollback(deadline: .now + Limits.readWaitMax)
            throw error
        }
        return added ? .added(replaces: replaces) : .known
    }

    /// Where the sales reports and the log differ, by day.
    ///
    /// - Parameters:
    ///   - zone: The time zone of the days in Apple's reports.
    ///   - month: As `2026-11`; nil for all.
    ///   - connection: Has the rights of a reader.
    package static func differences(
        zone: String, month: String?, on connection: PostgresConnection
    ) async throws(PostgresError) -> Differences {
        let rows = try await connection.query(
            ReportStatements.differences, [Parameter(zone), Parameter(month)], deadline: .now + Limits.reportWaitMax)
        var lines: [String] = []
        var reasons: [String: Int] = [:]
        for row in rows {
            lines.append(try row.value(at: 0))
            let reason: String = try row.value(at: 1)
            reasons[reason, default: 0] += 1
        }
        return Differences(
            lines: lines,
            reasons: reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) })
    }

    private static func json(_ rows: ArraySlice<StoreReport.Row>) -> [UInt8] {
        var writer = JSONWriter(bytesExpected: rows.count * 1024)
        writer.array(rows) { writer, row in
            writer.object { writer in
                writer.member("line", Int64(row.line))
                writer.member("day", row.day)
                writer.member("event", row.event)
                writer.member("app", row.app)
                writer.member("product_id", row.productId)
                writer.member("apple_id", row.appleId)
                writer.member("country", row.country)
                writer.member("currency", row.currency)
                writer.member("units", row.units.map { "\($0)" })
                writer.member("amount", row.amount.map { "\($0)" })
                writer.member("proceeds", row.proceeds.map { "\($0)" })
                writer.member("proceeds_currency", row.proceedsCurrency)
                writer.member("order_id", row.orderId)
                writer.key("fields")
                writer.object { writer in
                    // In any order: PostgreSQL has its own.
                    for (name, value) in row.fields {
                        writer.key(name)
                        writer.value(value)
                    }
                }
            }
        }
        return writer.bytes
    }
}

enum ReportStatements {
    static let add = Statement(
        "report_add",
        """
        insert into subledger.store_report (sha256, kind, name, first_day, last_day, rows)
        select $1, $2, $3, $4::date, $5::date, $6
        where not exists (
          -- A copy under another name would count twice. Files of several days may be alike: those without rows, and
          -- those of Apple's Subscription report, whose rows have no day.
          select
          from subledger.store_report as same
          where same.sha256 = $1
            and (same.name = $3 or same.rows > 0 and same.first_day = $4::date)
        )
        on conflict (name, sha256) do nothing
        returning exists (
          select
          from subledger.store_report as earlier
          where earlier.kind = $2
            and earlier.name = $3
        )
        """)

    static let addRows = Statement(
        "report_add_rows",
        """
        insert into subledger.store_report_row (
          name, sha256, line, day, event, app, product_id, apple_id, country, currency, units, amount, proceeds,
          proceeds_currency, order_id, fields
        )
        select
          $3, $1, line, day, event, app, product_id, apple_id, analyst.country(country), currency, units, amount, proceeds,
          proceeds_currency, order_id, fields
        from jsonb_to_recordset($2) as row (
          line integer, day date, event text, app text, product_id text, apple_id text, country text, currency text,
          units numeric, amount numeric, proceeds numeric, proceeds_currency text, order_id text, fields jsonb
        )
        """)

    static let differences = Statement(
        "report_differences",
        """
        select to_jsonb(difference)::text, reason
        from analyst.report_differences_in($1, ($2::text || '-01')::date) as difference
        order by day, report, product_id, country, currency, event, order_id
        """)
}
