import EventLog
import Foundation
import Postgres
import Readers
import TestSupport
import Testing

@Suite("The console shows where the stores' reports and the ledger differ")
struct ConsoleReportTests {
    private static let path = "/console/reports"

    /// A server whose ledger has a sale that agrees with the report, one of another amount in each of two currencies, one that
    /// is not reported, and a reported order that it does not know.
    private static func with(
        _ test: (TestBundle, ConsoleBrowser, String) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(apps: []) { server in
            let owner = try await TestCluster.connect(server.database)
            let purchases = try StoredPurchase.insertion([
                .google(1, "2026-10-01 12:00Z"), .google(2, "2026-10-02 12:00Z"),
                .google(3, "2026-10-03 12:00Z", country: "JP", price: 1_500_000, currency: "JPY"),
                .google(4, "2026-10-04 12:00Z", price: 4990),
            ])
            try await owner.script(purchases, deadline: .now + .seconds(20))
            try await owner.script(
                """
                insert into subledger.stream_head (stream_id, position, chain) values (1, 0, sha256(''));
                insert into subledger.exchange_rate (currency, day, per_euro) values ('JPY', '2026-10-01', 160);
                """, deadline: .now + .seconds(20))
            var rows: [StoreReport.Row] = []
            for (number, day, country, currency, amount) in [
                (1, "01", "DE", "EUR", "9.99"), (2, "02", "DE", "EUR", "109.99"), (3, "03", "JP", "JPY", "2500"),
                (5, "20", "DE", "EUR", "19.99"),
            ] {
                var row = StoreReport.Row(line: number, fields: Array("{}".utf8))
                (row.day, row.event, row.app) = ("2026-10-\(day)", "sale", "com.example.reader")
                (row.productId, row.country, row.currency) = ("pro", country, currency)
                (row.units, row.amount) = (1, Decimal(string: amount))
                row.orderId = "GPA.3300-0000-0000-0000\(number)"
                rows.append(row)
            }
            let report = StoreReport(
                digest: Array(repeating: 7, count: 32), kind: "google_sales", name: "salesreport_202610",
                firstDay: "2026-10-01", lastDay: "2026-10-31", rows: rows.count)
            var rest = rows[...]
            let added = try await StoreReports.add(report, on: owner) { rest.popFirst() }
            await owner.close()
            #expect(added == .added(replaces: false))
            let (browser, cookie) = try await server.session()
            try await test(server, browser, cookie)
        }
    }

    /// The cells of the rows of a table, as text.
    private static func rows(_ page: String, of table: String) -> [String] {
        guard let caption = page.range(of: "id=\"\(table)-caption\"") else { return [] }
        let rest = page[caption.upperBound...]
        // A table without rows is none.
        let end = rest.range(of: "<h2 id=")?.lowerBound ?? rest.endIndex
        let body = rest[..<end].firstMatch(of: /<tbody>(.*?)<\/tbody>/.dotMatchesNewlines())?.1 ?? ""
        return body.matches(of: /<tr>(.*?)<\/tr>/.dotMatchesNewlines()).map { row in
            row.1.matches(of: /<td[^>]*>(.*?)<\/td>/.dotMatchesNewlines()).map { cell in
                String(cell.1).replacing(/<[^>]*>/, with: "")
            }.joined(separator: " ")
        }
    }

    @Test("the largest difference comes first, in whatever currency, with the reason, the lines and the purchases")
    func differences() async throws {
        try await Self.with { _, browser, cookie in
            let page = try await browser.get(Self.path, cookie: cookie)
            let rows = Self.rows(page.body, of: "differences")
            let csv = try await browser.get("\(Self.path)?csv=differences", cookie: cookie)

            #expect(page.status == 200, "\(page.body)")
            // 100 euros, 19.99 euros, 1000 yen (6.25 euros) and 4.99 euros.
            #expect(
                rows.map { $0.split(separator: " ").prefix(2).joined(separator: " ") } == [
                    "2026-10-02 Google", "2026-10-20 Google", "2026-10-03 Google", "2026-10-04 Google",
                ], "\(page.body)")
            #expect(rows[0].contains("109.99 9.99 EUR other amount"), "\(rows[0])")
            #expect(rows[0].contains("salesreport_202610:2") && rows[0].contains("GPA.3300-0000-0000-00002"))
            #expect(rows[1].contains("unknown order") && rows[2].contains("2500 1500 JPY"), "\(rows)")
            #expect(
                Set(Self.rows(page.body, of: "reasons").map { $0.split(separator: " ").last.map(String.init) ?? "" })
                    == ["1", "2"])
            #expect(Self.rows(page.body, of: "imported") == ["Google sales 1 2026-10-01 2026-10-31"])
            #expect(page.body.contains("/console/search?"), "\(page.body)")
            #expect(csv.status == 200 && csv.body.contains("109.99"), "\(csv.body)")
        }
    }

    @Test("one month has its own differences, and what is no month is refused")
    func month() async throws {
        try await Self.with { _, browser, cookie in
            let october = try await browser.get("\(Self.path)?month=2026-10", cookie: cookie)
            let september = try await browser.get("\(Self.path)?month=2026-09", cookie: cookie)
            let wrong = try await browser.get("\(Self.path)?month=2026-13", cookie: cookie)

            #expect(Self.rows(october.body, of: "differences").count == 4)
            #expect(Self.rows(september.body, of: "differences").isEmpty)
            #expect(september.body.contains("None: the reports and the ledger agree."), "\(september.body)")
            #expect(wrong.status == 400 && wrong.body.contains("month must be one such as 2026-11"))
        }
    }

    @Test("without a report, the page says how to import one, and figures lead to it")
    func nothing() async throws {
        try await TestBundle.withServer(apps: []) { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get(Self.path, cookie: cookie)

            #expect(page.status == 200)
            #expect(page.body.contains("No report is imported, so nothing is compared."), "\(page.body)")
            #expect(page.body.contains("subledger report import FILE"))
        }
    }
}
