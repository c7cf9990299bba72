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
    /// Number of its rows.
    package let rows: Int

    package init(digest: [UInt8], kind: String, name: String, firstDay: String, lastDay: String, rows: Int) {
        self.digest = digest
        self.kind = kind
        self.name = name
        self.firstDay = firstDay
        self.lastDay = lastDay
        self.rows = rows
    }

    /// A row, see table `store_report_row`.
    package struct Row: Sendable, Hashable {
        package let line: Int
        /// All columns that are kept, by their names in lower case: a JSON object.
        package let fields: [UInt8]
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

        package init(line: Int, fields: [UInt8]) {
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
    /// The rows are stored in batches, so that memory use does not depend on their number.
    ///
    /// - Parameters:
    ///   - batchRows: Most rows that are in memory at a time, twice; nil for ``Limits/reportBatchRows``.
    ///   - connection: Has the rights of `subledger_products`.
    ///   - next: Returns the next row, and nil after the last one; then it is not called again, and neither if the report is
    ///     known.
    /// - Throws: `PostgresError`, and what `next` throws; then nothing is added.
    package static func add(
        _ report: StoreReport, batchRows: Int? = nil, on connection: PostgresConnection,
        next: () throws -> StoreReport.Row?
    ) async throws -> Outcome {
        let deadline = ContinuousClock.now + Limits.reportWaitMax
        let first = try await connection.begin(
            with: [
                Step(
                    ReportStatements.add,
                    [
                        Parameter(report.digest), Parameter(report.kind), Parameter(report.name),
                        Parameter(report.firstDay), Parameter(report.lastDay), Parameter(Int32(report.rows)),
                    ])
            ], deadline: deadline)
        do {
            var outcome = Outcome.known
            if let row = first[0].first {
                outcome = .added(replaces: try row.value(at: 0))
                try await copy(
                    report, batchRows ?? Limits.reportBatchRows, on: connection, deadline: deadline, next: next)
            }
            try await connection.commit(deadline: deadline)
            return outcome
        } catch {
            try? await connection.rollback(deadline: .now + Limits.readWaitMax)
            throw error
        }
    }

    private static func copy(
        _ report: StoreReport, _ batchRows: Int, on connection: PostgresConnection, deadline: ContinuousClock.Instant,
        next: () throws -> StoreReport.Row?
    ) async throws {
        // Of two letters or three, by how the rows name them.
        var countries: [String: String] = [:]
        var batch = try rows(batchRows, next)
        while !batch.isEmpty {
            let unknown = Set(batch.compactMap(\.country)).subtracting(countries.keys)
            if !unknown.isEmpty {
                let found = try await connection.query(
                    ReportStatements.countries, [Parameter.array(Array(unknown))], deadline: deadline)
                for row in found {
                    let code: String = try row.value(at: 0)
                    countries[code] = try row.value(at: 1)
                }
            }
            let table = copyRows(batch, of: report, countries)
            async let copied = connection.query(Step(ReportStatements.copy, copying: table), deadline: deadline)
            // The server stores these while the next ones are read.
            batch = batch.count < batchRows ? [] : try rows(batchRows, next)
            _ = try await copied
        }
    }

    private static func rows(
        _ count: Int, _ next: () throws -> StoreReport.Row?
    ) throws -> [StoreReport.Row] {
        var rows: [StoreReport.Row] = []
        while rows.count < count, let row = try next() { rows.append(row) }
        return rows
    }

    private static func copyRows(
        _ rows: [StoreReport.Row], of report: StoreReport, _ countries: [String: String]
    ) -> CopyRows {
        var table = CopyRows(columns: 16, rows: rows.count, rowBytes: 1024)
        for row in rows {
            let day: Int32? = Instant(iso8601: row.day).map { Int32($0.milliseconds / 86_400_000 - daysUntil2000) }
            let country: String? = row.country.map { countries[$0] ?? $0 }
            table.beginRow()
            table.append(report.name)
            table.append(bytes: report.digest)
            table.append(Int32(clamping: row.line))
            table.append(day)
            table.append(row.event)
            table.append(row.app)
            table.append(row.productId)
            table.append(row.appleId)
            table.append(country)
            table.append(row.currency)
            table.append(numeric: row.units.map { "\($0)" })
            table.append(numeric: row.amount.map { "\($0)" })
            table.append(numeric: row.proceeds.map { "\($0)" })
            table.append(row.proceedsCurrency)
            table.append(row.orderId)
            table.append(json: row.fields)
        }
        return table
    }

    /// From 1970-01-01: PostgreSQL sends a date as the days since 2000-01-01.
    private static let daysUntil2000: Int64 = 10_957

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

    static let countries = Statement(
        "report_countries",
        """
        select code, analyst.country(code)
        from unnest($1::text[]) as code
        """)

    static let copy = Statement(
        "report_copy",
        """
        copy subledger.store_report_row (
          name, sha256, line, day, event, app, product_id, apple_id, country, currency, units, amount, proceeds,
          proceeds_currency, order_id, fields
        ) from stdin (format binary)
        """)

    static let differences = Statement(
        "report_differences",
        """
        select to_jsonb(difference)::text, reason
        from analyst.report_differences_in($1, ($2::text || '-01')::date) as difference
        order by day, report, product_id, country, currency, event, order_id
        """)
}
