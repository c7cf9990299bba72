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

@testable import subledger

@Suite("A closed month keeps its figures, and what changed since has its events")
struct ClosedMonthTests {
    /// A log of which the first two thirds are folded, in production.
    private struct Ledger {
        let database: SharedDatabase
        let log: SimulatedLog
        let rest: ArraySlice<SimulatedLog.Delivery>
        let key: String

        func close(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["close"] + arguments + ["--head-key", key], environment: database.environment())
        }

        func fold() async { await log.projector.foldAllStreams() }

        /// The figures of a month now, as `figure product country currency count amount`.
        func figures(_ month: String) async throws -> [String] {
            let connection = try await TestCluster.connect(log.database)
            let rows = try await connection.query(
                Statement(
                    "figures_of_month",
                    """
                    select concat_ws(' ', figure, coalesce(product_id, '-'), coalesce(country, '-'), coalesce(currency, '-'),
                      coalesce(count, 0), coalesce(amount, 0)::numeric(20, 3))
                    from analyst.month_figures
                    where month = ($1 || '-01')::date
                    order by 1
                    """), [Parameter(month)], deadline: .now + .seconds(30))
            let lines: [String] = try rows.map { try $0.value(at: 0) }
            await connection.close()
            return lines
        }
    }

    private func withLedger(_ test: (Ledger, String) async throws -> Void) async throws {
        let database = try await SharedDatabase.make()
        let key = TestFolder.path("head-key") + ".pem"
        defer { try? FileManager.default.removeItem(atPath: key) }
        try await SimulatedLog.with(database: database.configuration) { log in
            let deliveries = try await SimulatedLog.deliveries(environment: .production)
            let part = deliveries.count * 2 / 3
            try await log.append(deliveries[..<part])
            await log.projector.foldAllStreams()
            let month = try await database.lines(
                """
                select to_char(month, 'YYYY-MM')
                from analyst.month_figures
                where figure = 'payments' and month < date_trunc('month', now() at time zone 'UTC')
                group by month
                order by sum(count) desc, month
                limit 1
                """)[0]
            try await test(Ledger(database: database, log: log, rest: deliveries[part...], key: key), month)
        }
        try await database.drop()
    }

    @Test("figures are kept with position and signature, and restated by the events that came since")
    func restated() async throws {
        try await withLedger { ledger, month in
            let before = try await ledger.figures(month)
            let closed = try ledger.close(month)
            #expect(closed.status == 0, "\(closed.error)")
            let line = try JSONDocument(Array(closed.output.utf8)).root
            let closing = try MonthClosing(json: try #require(line["closing"]))
            let head = try await ledger.database.lines(
                "select position || ' ' || encode(chain, 'hex') from subledger.event order by position desc offset 1 limit 1"
            )
            #expect(head == ["\(closing.position) \(Hex.text(closing.chain))"])
            let kept = closing.figures.map { figure in
                let amount = Decimal(string: figure.amount ?? "0") ?? -1
                return
                    "\(figure.name) \(figure.productId ?? "-") \(figure.country ?? "-") \(figure.currency ?? "-") \(figure.count ?? 0) \(Self.text(amount))"
            }
            #expect(kept.sorted() == before.sorted())

            // The signature is of this statement and of no other.
            let publicKey = try #require(
                closing.signature.flatMap { HeadPublicKey(hexadecimal: Hex.text($0.publicKey)) })
            #expect(closing.isSigned(byOneOf: [publicKey]))
            #expect(!closing.isSigned(byOneOf: [HeadKey().publicKey]))
            var forged = MonthClosing(
                .close, month: closing.month, position: closing.position + 1, chain: closing.chain, at: closing.at,
                by: closing.by, reason: nil, figures: closing.figures)
            forged.signature = closing.signature
            #expect(!forged.isSigned(byOneOf: [publicKey]))

            let restatements: StaticString = """
                select concat_ws(' ', figure, coalesce(product_id, '-'), coalesce(country, '-'), coalesce(currency, '-'),
                  count, amount::numeric(20, 3))
                from analyst.restatements
                order by 1
                """
            await ledger.fold()
            #expect(try await ledger.database.lines(restatements) == [])

            try await ledger.log.append(ledger.rest)
            await ledger.fold()
            let after = try await ledger.figures(month)
            // What is different, computed from the figures before and after.
            let beforeKeys = Dictionary(before.map { (Self.key($0), $0) }, uniquingKeysWith: { $1 })
            let afterKeys = Dictionary(after.map { (Self.key($0), $0) }, uniquingKeysWith: { $1 })
            let expected = Set(beforeKeys.keys).union(afterKeys.keys)
                .filter { beforeKeys[$0] != afterKeys[$0] }
                .map { afterKeys[$0] ?? "\($0) 0 0.000" }
            #expect(expected.count > 3)
            #expect(try await ledger.database.lines(restatements).sorted() == expected.sorted())
            // Each has its events, all of them after the closing.
            let unexplained = try await ledger.database.lines(
                """
                select format('%s %s %s %s %s %s %s', figure, product_id, country, currency, closed_count, count, positions)
                from analyst.restatements
                join analyst.closed_months using (app, environment, month)
                where positions = '{}'
                  -- Purchases in another currency showed how long the plan is.
                  and (figure <> 'mrr_at_end' or closed_count <> count)
                or exists (
                  select from unnest(positions) as later where later <= closed_months.event_position
                )
                """)
            #expect(unexplained == [])
        }
    }

    /// Without count and amount.
    private static func key(_ figure: String) -> String {
        figure.split(separator: " ").prefix(4).joined(separator: " ")
    }

    private static func text(_ amount: Decimal) -> String {
        let text = "\(amount)"
        let parts = text.split(separator: ".")
        let fraction = parts.count > 1 ? String(parts[1]) : ""
        return "\(parts[0]).\(fraction)\(String(repeating: "0", count: max(0, 3 - fraction.count)))"
    }

    @Test("a month is closed once, opened again with a reason, and closed with other figures; each is a verified event")
    func again() async throws {
        try await withLedger { ledger, month in
            #expect(try ledger.close(month, "--by", "Ada").status == 0)
            let twice = try ledger.close(month)
            #expect(twice.status == 65)
            #expect(twice.error.hasPrefix("subledger: \(month) of \(V1Body.app) is closed since 20"), "\(twice.error)")
            #expect(try ledger.close(month, "--reopen").status == 64)
            #expect(try ledger.close(month, "--reopen", "--reason", "a refund was missing").status == 0)
            #expect(try await ledger.database.lines("select month::text from analyst.closed_months") == [])
            let open = try ledger.close(month, "--reopen", "--reason", "again")
            #expect(
                open.status == 65 && open.error.hasSuffix("\(month) of \(V1Body.app) is not closed\n"), "\(open.error)")
            try await ledger.log.append(ledger.rest)
            let behind = try ledger.close(month)
            #expect(behind.status == 69 && behind.error.contains("repeat the command when they have caught up"))
            await ledger.fold()
            #expect(try ledger.close(month).status == 0)
            #expect(try await ledger.database.lines("select figure from analyst.restatements") == [])

            let kinds = try await ledger.database.lines(
                "select kind || ' ' || (facts #>> '{closing,by}') from subledger.event where source = 'operator' order by position"
            )
            #expect(kinds.count == 3 && kinds[0] == "month_closed Ada" && kinds[1].hasPrefix("month_reopened "))
            await ledger.fold()
            let connection = try await TestCluster.connect(ledger.log.database.with(role: "subledger_projector"))
            let other = try await TestCluster.connect(ledger.log.database.with(role: "subledger_projector"))
            let outcome = try await DatabaseVerifier(
                log: LogAudit(connection: connection),
                projections: try await ProjectionAudit(connection: other, seed: TestSeed.value),
                signatures: SignatureVerifier(roots: SimulatedLog.roots), extent: .all
            ).run()
            #expect(outcome.findings.count == 0, "\(outcome.findings)")
            await connection.close()
            await other.close()
        }
    }

    @Test("what is no closed month is refused", arguments: ["2026-13", "October", "2026-1"])
    func malformed(month: String) throws {
        let result = try ServerProcess.run(["close", month])
        #expect(result.status == 64 && result.error.contains("expected a month such as 2026-10"), "\(result.error)")
    }

    @Test("a month that is not over cannot be closed")
    func running() throws {
        let result = try ServerProcess.run(["close", "2999-01"])
        #expect(result.status == 65)
        #expect(
            result.error
                == "subledger: 2999-01 is not over: close it on the first day of the next month, UTC\n")
    }
}
