import Encoding
import Foundation
import Postgres
import Readers
import Server
import Simulation
import TestSupport
import Testing

@testable import subledger

@Suite("The stores' reports are imported as they are, and compared with the log")
struct ReportTests {
    private static let fixtures = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Fixtures/Reports")

    /// A database, and a folder for reports.
    private struct Ledger {
        let database: SharedDatabase
        let folder: String

        func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["report"] + arguments, environment: database.environment(), limit: 240)
        }

        func write(_ content: String, _ name: String) throws -> String {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let path = "\(folder)/\(name)"
            try Data(content.utf8).write(to: URL(fileURLWithPath: path))
            return path
        }

        /// Imports the files of a simulated store.
        func add(_ files: [(name: String, content: String)]) throws {
            let paths = try files.map { try write($0.content, $0.name) }
            let imported = try run(["import"] + paths)
            #expect(imported.status == 0, "\(imported.error)")
            #expect(imported.output.split(separator: "\n").count == paths.count)
        }

        /// Inserts the only purchases.
        func insert(_ purchases: [StoredPurchase]) async throws {
            try await database.script(try StoredPurchase.insertion(purchases))
        }

        /// Imports a Sales report of several days, with rows that all are in euros and of Germany.
        func addSales(_ rows: [(product: String, day: String, units: Int, price: String)]) throws {
            let header = [
                "Provider", "SKU", "Product Type Identifier", "Units", "Developer Proceeds", "Begin Date", "End Date",
                "Customer Currency", "Country Code", "Currency of Proceeds", "Apple Identifier", "Customer Price",
            ]
            let lines = rows.map {
                ["APPLE", $0.product, "IAY", "\($0.units)", "1", $0.day, $0.day, "EUR", "DE", "EUR", "15", $0.price]
            }
            let text = ([header] + lines).map { $0.joined(separator: "\t") }.joined(separator: "\n")
            let imported = try run(["import", try write(text + "\n", "S_D_85000000_202609.txt")])
            #expect(imported.output.hasSuffix(": \(rows.count) rows imported\n"), "\(imported.error)")
        }

        /// Each as `day product country event reported ours reason`.
        func differences(_ more: [String] = [], of report: String? = nil) throws -> [String] {
            let result = try run(["differences"] + more)
            #expect(result.status == (result.output.isEmpty ? 0 : 1), "\(result.error)")
            return try result.output.split(separator: "\n").compactMap { line in
                let json = try JSONDocument(Array(line.utf8)).root
                guard report == nil || json["report"]?.string == report else { return nil }
                func text(_ key: StaticString) -> String { json[key]?.string ?? json[key]?.numberText ?? "-" }
                return
                    "\(text("day")) \(text("product_id")) \(text("country")) \(text("event")) \(text("reported_units")) \(text("our_units")) \(text("reason"))"
            }
        }
    }

    private func withLedger(_ test: (Ledger) async throws -> Void) async throws {
        let database = try await SharedDatabase.make()
        let folder = TestFolder.path("reports")
        try await test(Ledger(database: database, folder: folder))
        try? FileManager.default.removeItem(atPath: folder)
        try await database.drop()
    }

    /// With every story of the App Store, in production.
    private func withEveryStory(_ test: (Ledger, SalesReports) async throws -> Void) async throws {
        try await withLedger { ledger in
            try await SimulatedLog.with(database: ledger.database.configuration) { log in
                try await log.append(try await SimulatedLog.deliveries(environment: .production))
                await log.projector.foldAllStreams()
                try await log.script("analyze")
            }
            try await test(ledger, SalesReports(SimulatedLog.simulation(environment: .production)))
        }
    }

    @Test("what the simulated store reports of its books is what the ledger has")
    func equal() async throws {
        try await withEveryStory { ledger, reports in
            #expect(reports.entries.count { $0.price > 0 && $0.units > 0 } > 50)
            #expect(reports.entries.contains { $0.units < 0 })
            try ledger.add(reports.files)
            let differences = try ledger.differences()
            #expect(differences == [])
            // In another zone some purchases are of the next day.
            let utc = try ledger.differences(["--zone", "UTC"])
            #expect(!utc.isEmpty && utc.allSatisfy { $0.hasSuffix(" neighbouring_day") }, "\(utc)")
        }
    }

    @Test("a missing sale, a double, a wrong country and a refund of another month are reported, and nothing else")
    func injected() async throws {
        try await withEveryStory { ledger, reports in
            var wrong = reports
            // Purchases whose day has no other one like them.
            func alone(_ entry: SalesReports.Entry) -> Bool {
                reports.entries.allSatisfy { other in
                    other == entry || other.productId != entry.productId
                        || abs(other.at.milliseconds - entry.at.milliseconds) > 8 * 86_400_000
                }
            }
            // The first and the last day keep other sales, so that all days have a file.
            let first = try #require(reports.entries.first).at.advanced(by: .seconds(5 * 86_400))
            let last = try #require(reports.entries.last).at.advanced(by: .seconds(-40 * 86_400))
            let inside = reports.entries.filter { $0.at > first && $0.at < last && alone($0) }
            let sales = inside.filter { $0.units == 1 && $0.price > 0 }
            let refund = try #require(inside.first { $0.units == -1 })
            try #require(sales.count >= 3)
            func index(_ entry: SalesReports.Entry) throws -> Int { try #require(wrong.entries.firstIndex(of: entry)) }
            wrong.entries.remove(at: try index(sales[0]))
            wrong.entries.append(sales[1])
            let country = sales[2].country == "JPN" ? "DEU" : "JPN"
            wrong.entries[try index(sales[2])].country = country
            wrong.entries[try index(refund)].at = refund.at.advanced(by: .seconds(35 * 86_400))
            try ledger.add(wrong.files)

            let differences = try ledger.differences().map {
                $0.split(separator: " ").dropFirst().joined(separator: " ")
            }
            let expected = [
                "\(sales[0].productId) \(sales[0].country) sale 0 1 unexplained",
                "\(sales[1].productId) \(sales[1].country) sale 2 1 unexplained",
                "\(sales[2].productId) \(sales[2].country) sale 0 1 other_country",
                "\(sales[2].productId) \(country) sale 1 0 other_country",
                "\(refund.productId) \(refund.country) refund 0 -1 other_month",
                "\(refund.productId) \(refund.country) refund -1 0 other_month",
            ]
            #expect(differences.sorted() == expected.sorted())
            let purchases = try await ledger.database.lines(
                """
                select distinct concat_ws(' ', event, (extract(epoch from at) * 1000)::bigint)
                from analyst.report_differences
                cross join unnest(our_purchases) as id
                join subledger.transaction on transaction_id = id
                cross join lateral (
                  select case event when 'sale' then purchase_date else revocation_date end
                ) as made (at)
                """)
            #expect(
                purchases.sorted()
                    == (sales[0...2].map { "sale \($0.at.milliseconds)" } + ["refund \(refund.at.milliseconds)"])
                    .sorted()
            )

            // The corrected files count, and the ledger agrees with them.
            try ledger.add(reports.files)
            #expect(try ledger.differences() == [])
        }
    }

    @Test("the Subscriber report is compared too, by Apple's numbers of the products")
    func subscribers() async throws {
        try await withEveryStory { ledger, reports in
            let renewing = Set(
                try await ledger.database.lines(
                    """
                    select distinct product_id
                    from subledger.transaction
                    where coalesce(type, 'Auto-Renewable Subscription') = 'Auto-Renewable Subscription'
                      and expires_date is not null
                    """))
            // The report has whole purchases and refunds of subscriptions; free ones are not compared.
            let entries = reports.entries.filter { renewing.contains($0.productId) && $0.price > 0 && $0.units != 0 }
            let header = [
                "Event Date", "Subscription Apple ID", "Customer Price", "Customer Currency", "Developer Proceeds",
                "Proceeds Currency", "Country", "Subscriber ID", "Refund", "Units",
            ]
            func write(_ entries: some Collection<SalesReports.Entry>) throws -> String {
                let rows = entries.map { entry in
                    let day = SalesReports.day(entry.at)
                    return [
                        "\(day.prefix(4))-\(day.dropFirst(4).prefix(2))-\(day.suffix(2))",
                        SalesReports.appleId(of: entry.productId), "\(Decimal(entry.price) / 1000)", entry.currency,
                        "1",
                        entry.currency, entry.country, "1", entry.units < 0 ? "Yes" : "", "\(abs(entry.units))",
                    ]
                }
                return try ledger.write(
                    ([header] + rows).map { $0.joined(separator: "\t") }.joined(separator: "\n") + "\n",
                    "Subscriber_85000000_V1_3.txt")
            }
            /// Those of refunds in part are in no such report.
            func differences() throws -> [String] {
                try ledger.differences(of: "apple_subscriber").filter { !$0.contains(" refund 0 0 ") }
            }
            #expect(entries.count > 50 && entries.contains { $0.units < 0 })

            // Without a sales report, nothing says which product a number is.
            #expect(try ledger.run(["import", try write(entries)]).status == 0)
            let unnamed = try differences()
            #expect(!unnamed.isEmpty && unnamed.allSatisfy { $0.hasSuffix(" unknown_product") }, "\(unnamed)")
            try ledger.add(reports.files)
            #expect(try differences() == [])
            #expect(try ledger.differences(of: "apple_sales") == [])

            let first = try #require(entries.first)
            let alike = entries.filter {
                $0.productId == first.productId && $0.country == first.country && $0.units > 0
                    && SalesReports.day($0.at) == SalesReports.day(first.at)
            }
            #expect(try ledger.run(["import", try write([first] + entries)]).status == 0)
            let doubled = try differences()
            #expect(doubled.count == 1)
            #expect(doubled.first?.contains(" sale \(alike.count + 1) \(alike.count) ") == true, "\(doubled)")
        }
    }

    @Test("starts, renewals, reactivations and refunds of the Subscription Event report are counted beside ours")
    func events() async throws {
        try await withEveryStory { ledger, reports in
            var events = SubscriptionEventReports(SimulatedLog.simulation(environment: .production))
            #expect(Set(events.entries.map(\.event)).isSuperset(of: ["Subscribe", "Renew", "Reactivate", "Refund"]))
            func add() throws -> [String] {
                try ledger.add(events.files)
                return try ledger.differences(of: "apple_subscription_event")
            }
            // Sales reports say which product a number is.
            try ledger.add(reports.files)
            let differences = try add()
            #expect(differences == [])

            // One more of an event, on a day that has it.
            let renewed = try #require(events.entries.first { $0.event == "Renew" })
            let alike = events.entries.filter {
                $0.event == "Renew" && $0.productId == renewed.productId && $0.country == renewed.country
                    && SalesReports.day($0.at) == SalesReports.day(renewed.at)
            }
            events.entries.append(renewed)
            let doubled = try add()
            #expect(doubled.count == 1)
            #expect(doubled.first?.contains(" renewal \(alike.count + 1) \(alike.count) ") == true, "\(doubled)")
            let purchases = try await ledger.database.lines(
                "select cardinality(our_purchases)::text from analyst.report_differences")
            #expect(purchases == ["\(alike.count)"])
        }
    }

    @Test("the Subscription report is compared with the states at the end of each day, and only what is wrong differs")
    func stock() async throws {
        try await withEveryStory { ledger, reports in
            let stock = SubscriptionReports(SimulatedLog.simulation(environment: .production))
            #expect(
                Set(stock.entries.map(\.state)).isSuperset(of: [
                    "Active Standard Price Subscriptions", "Active Free Trial Introductory Offer Subscriptions",
                    "Billing Retry", "Grace Period",
                ]))
            // Sales reports say which product a number is.
            try ledger.add(reports.files)

            // More than ever were in a state, and one in another state than it was, on days without a change.
            func alike(_ entry: SubscriptionReports.Entry) -> Int { stock.entries.count { $0 == entry } }
            let days = Set(stock.entries.map(\.day)).sorted()
            func isCalm(_ entry: SubscriptionReports.Entry) -> Bool {
                guard let index = days.firstIndex(of: entry.day), index > 0, index + 1 < days.count else {
                    return false
                }
                return days[index - 1...index + 1].allSatisfy { day in
                    var same = entry
                    same.day = day
                    return alike(same) == 1
                }
            }
            let retries = stock.entries.filter { $0.state == "Billing Retry" }
            let inRetry = Set(retries.map { [$0.productId, $0.country] })
            let standard = stock.entries.filter { $0.state == "Active Standard Price Subscriptions" }
            let more = try #require(standard.first)
            let moved = try #require(
                standard.first { $0.day != more.day && !inRetry.contains([$0.productId, $0.country]) && isCalm($0) })
            var retried = moved
            retried.state = "Billing Retry"
            var wrong = stock
            wrong.entries.removeAll { $0 == moved }
            wrong.entries += [retried] + Array(repeating: more, count: 100)
            try ledger.add(wrong.files)

            let found = try await ledger.database.lines(
                """
                select concat_ws(' ', to_char(day, 'YYYYMMDD'), product_id, country, event, reported_units, our_units,
                  reason, cardinality(our_purchases))
                from analyst.report_differences
                """)
            let before = alike(more)
            let (first, second) = ("\(more.productId) \(more.country)", "\(moved.productId) \(moved.country)")
            let expected = [
                "\(more.day) \(first) standard \(before + 100) \(before) unexplained \(before)",
                "\(moved.day) \(second) standard 0 1 other_state 1",
                "\(moved.day) \(second) billing_retry 1 0 other_state 0",
            ]
            #expect(found.sorted() == expected.sorted())

            // The corrected files count, and the ledger agrees with them.
            try ledger.add(stock.files.filter { $0.name.contains(more.day) || $0.name.contains(moved.day) })
            let differences = try ledger.differences()
            #expect(differences == [])
            // In another zone, the stock is that of an hour that is eight hours away at most.
            let utc = try ledger.differences(["--zone", "UTC"], of: "apple_subscription")
            #expect(!utc.isEmpty && utc.allSatisfy { $0.hasSuffix(" time_of_day") }, "\(utc)")
            // What agreed in an earlier file of the day was restated.
            wrong.entries.append(more)
            try ledger.add(wrong.files.filter { $0.name.contains(more.day) })
            let restated = try ledger.differences()
            #expect(restated.count == 1)
            let end = " \(first) standard \(before + 101) \(before) restated"
            #expect(restated.first?.hasSuffix(end) == true, "\(restated)")
        }
    }

    /// Names of Apple's help and of files.
    @Test("events of Apple's reports are recognised by their names, of earlier years too")
    func names() async throws {
        let kinds: [(kind: String, names: [String])] = [
            (
                "start",
                [
                    "Subscribe", "Opt-In", "Start Introductory Offer", "Start Offer Code", "Start Promotional Offer",
                    "Start Free Trial", "Start Introductory Price", "Subscribe with Contingent Price",
                ]
            ),
            (
                "reactivation",
                [
                    "Reactivate", "Reactivate with Crossgrade", "Reactivate with Upgrade to Introductory Offer",
                    "Reactivate to Introductory Price", "Reactivation to Promotional Offer",
                ]
            ),
            (
                "renewal",
                [
                    "Renew", "Renewal from Billing Retry", "Renewals from Grace Period",
                    "Paid Subscription from Introductory Offer", "Paid subscription from introductory offer",
                    "Paid Subscription from Opt-In", "Paid Subscription from Win-Back Offer",
                ]
            ),
            (
                "-",
                [
                    "Cancel", "Canceled from Billing Retry", "Cancelled from Billing Retry",
                    "Canceled from Billing Grace Period", "Canceled After Renewal Extension", "Refund", "Upgrade",
                    "Crossgrade From Introductory Offer", "Downgrade From Introductory Offer",
                    "Upgrade from Billing Retry", "Upgrade from Opt-In", "Downgrade from Grace Period",
                    "Billing Retry from Paid Subscription", "Billing Retry from Introductory Offer",
                    "Introductory Offer from Introductory Offer", "Introductory Price from Paid Subscription",
                    "Promotional Offer from Win-Back Offer", "Paid Subscription from Win-Back Offer with Upgrade",
                ]
            ),
        ]
        let database = try await SharedDatabase.make()
        let connection = try await TestCluster.connect(database.configuration)
        for (kind, names) in kinds {
            let found = try await connection.query(
                Statement(
                    "names",
                    """
                    select name
                    from unnest($1::text[]) as name
                    where coalesce(analyst.subscription_event(name), '-') <> $2
                    """), [.array(names), Parameter(kind)], deadline: .now + .seconds(20))
            let others: [String] = try (0..<found.count).map { try found[$0].value(at: 0) }
            #expect(others == [], "\(kind)")
        }
        await connection.close()
        try await database.drop()
    }

    @Test("Google's earnings are compared by order, and their amounts where the tax is known")
    func earnings() async throws {
        try await withLedger { ledger in
            // Orders 1 and 3 agree; of 2, the tax is not known; 4 has another amount, 5 is not reported, 6 was refunded here
            // alone, 7 in part, and 9 is not known here.
            try await ledger.insert([
                .google(1, "2026-10-01 12:00Z", tax: 1595).refunded("2026-10-04 12:00Z"),
                .google(2, "2026-10-02 12:00Z"),
                // The day before, in Pacific Time.
                .google(3, "2026-11-01 04:00Z", tax: 1595), .google(4, "2026-10-04 12:00Z", tax: 1595),
                .google(5, "2026-10-05 12:00Z", tax: 1595),
                .google(6, "2026-10-06 12:00Z", tax: 1595).refunded("2026-10-07 12:00Z"),
                .google(7, "2026-10-07 12:00Z", tax: 1595).refunded("2026-10-08 12:00Z", "REFUND_AMOUNT")
                    .with { $0.refundedPrice = 4995 },
            ])
            let header =
                "Description,Transaction Date,Transaction Type,Refund Type,Product id,Sku Id,Buyer Country,Buyer Currency,"
                + "Amount (Buyer Currency),Merchant Currency,Amount (Merchant Currency)"
            func row(_ order: Int, _ day: Int, _ amount: String, _ type: String = "Charge", _ refund: String = "")
                -> String
            {
                "GPA.3300-0000-0000-0000\(order),\"Oct \(day), 2026\",\(type),\(refund),com.example.reader,pro,DE,EUR,"
                    + "\(amount),EUR,\(amount)"
            }
            let rows = [
                row(1, 1, "8.39"), row(1, 1, "-1.26", "Google fee"), row(1, 4, "-8.40", "Charge refund", "Full"),
                row(2, 2, "8.39"), row(3, 31, "8.40"), row(4, 4, "7.00"), row(6, 6, "8.39"), row(7, 7, "8.39"),
                row(7, 8, "-4.20", "Charge refund", "Partial"), row(9, 9, "8.39"),
            ]
            let path = try ledger.write(
                ([header] + rows).joined(separator: "\n") + "\n", "earnings_202610_1234-5.csv")
            #expect(
                try ledger.run(["import", path]).output.hasPrefix(
                    "google_earnings earnings_202610_1234-5, 2026-10-01 to 2026-10-31: 10 rows"))

            #expect(
                try ledger.differences(of: "google_earnings") == [
                    "2026-10-04 pro DEU sale 1 1 other_amount", "2026-10-05 pro DEU sale 0 1 not_reported",
                    "2026-10-07 pro DEU refund 0 -1 not_reported", "2026-10-09 pro DEU sale 1 0 unknown_order",
                ])
        }
    }

    @Test("Google's orders are compared one by one")
    func orders() async throws {
        try await withLedger { ledger in
            // Order 1 agrees, 2 has another amount, 3 was refunded here alone, 4 is not reported, 5 is not known here, 6
            // is of a product that nobody knows, 7 is too new, and 8 is of another country. 10 is reported twice, and
            // the refund of 11 a month late.
            try await ledger.insert([
                .google(1, "2026-10-01 00:30Z"), .google(2, "2026-10-02 12:00Z"),
                .google(3, "2026-10-03 12:00Z").refunded("2026-10-04 12:00Z"), .google(4, "2026-10-04 12:00Z"),
                .google(7, "2026-10-31 23:30Z"), .google(8, "2026-10-20 12:00Z", country: "AT"),
                .google(10, "2026-10-10 12:00Z"), .google(11, "2026-09-01 12:00Z").refunded("2026-09-05 12:00Z"),
            ])
            let header =
                "Order Number,Order Charged Date,Financial Status,Product ID,SKU ID,Currency of Sale,Charged Amount,Country of Buyer"
            func row(
                _ order: Int, _ day: String, _ sku: String = "pro", _ amount: String = "9.99",
                _ status: String = "Charged"
            ) -> String {
                "GPA.3300-0000-0000-0000\(order),2026-10-\(day),\(status),com.example.reader,\(sku),EUR,\(amount),DE"
            }
            let rows = [
                row(1, "01"), row(2, "02", "pro", "\"1,008.99\""), row(3, "03"), row(5, "05"), row(6, "06", "unheard"),
                row(8, "20"), row(9, "31", "unheard", "0.00"), row(10, "10"), row(10, "10"),
                row(11, "25", "pro", "-9.99", "Refund"),
            ]
            let path = try ledger.write(([header] + rows).joined(separator: "\n") + "\n", "salesreport_202610 (1).csv")
            #expect(
                try ledger.run(["import", path]).output
                    == "google_sales salesreport_202610, 2026-10-01 to 2026-10-31: 10 rows imported\n")

            #expect(
                try ledger.differences() == [
                    "2026-10-02 pro DEU sale 1 1 other_amount",
                    "2026-10-04 pro DEU refund 0 -1 not_reported",
                    "2026-10-04 pro DEU sale 0 1 not_reported",
                    "2026-10-05 pro DEU sale 1 0 unknown_order",
                    "2026-10-06 unheard DEU sale 1 0 unknown_product",
                    "2026-10-10 pro DEU sale 2 1 reported_twice",
                    "2026-10-20 pro DEU sale 1 1 other_country",
                    "2026-10-25 pro DEU refund -1 -1 other_month",
                    "2026-10-31 pro DEU sale 0 1 not_reported_yet",
                ])
            #expect(try ledger.differences(["--month", "2026-09"]) == [])
            let purchases = try await ledger.database.lines(
                """
                select concat_ws(' ', reason, right(our_purchases[1], 6))
                from analyst.report_differences
                where reason in ('reported_twice', 'other_month', 'other_country', 'other_amount')
                order by 1
                """)
            #expect(
                purchases == [
                    "other_amount -00002", "other_country -00008", "other_month 000011", "reported_twice 000010",
                ])
        }
    }

    /// Apple's days have no orders: what is lacking on a day is looked for in the reports of the next seven.
    @Test("what Apple reports some days later is explained, and what it never reports or reports too late is not")
    func settled() async throws {
        try await withLedger { ledger in
            // 1 and 2 are reported later, 1 from before the first report, and 3 on its day. 4 is missing, 5 is reported
            // after eight days, and 6 perhaps after the last report. 7 was refunded, which the store reports a month
            // later. Of 8, a receipt gave neither price nor country.
            try await ledger.insert([
                .apple(1, "2026-08-30 12:00Z", product: "monthly"), .apple(2, "2026-09-03 11:00Z", product: "monthly"),
                .apple(3, "2026-09-03 12:00Z", product: "monthly"), .apple(4, "2026-09-14 12:00Z", product: "monthly"),
                .apple(5, "2026-09-10 12:00Z", product: "yearly"), .apple(6, "2026-10-29 12:00Z", product: "yearly"),
                .apple(7, "2026-09-01 12:00Z", product: "weekly", price: 1990).refunded("2026-09-05 12:00Z", nil),
                .apple(8, "2026-09-20 12:00Z", product: "weekly", country: nil, price: nil),
            ])
            try ledger.addSales([
                ("weekly", "09/01/2026", 1, "1.99"), ("monthly", "09/01/2026", 1, "9.99"),
                ("monthly", "09/03/2026", 1, "9.99"), ("monthly", "09/06/2026", 1, "9.99"),
                ("yearly", "09/18/2026", 1, "9.99"), ("weekly", "09/20/2026", 1, "2.99"),
                ("weekly", "10/07/2026", -1, "-1.99"), ("other", "10/31/2026", 1, "0"),
            ])

            #expect(
                try ledger.differences() == [
                    "2026-08-30 monthly DEU sale 0 1 settled_later",
                    "2026-09-01 monthly DEU sale 1 0 settled_later",
                    "2026-09-03 monthly DEU sale 1 2 settled_later",
                    "2026-09-05 weekly DEU refund 0 -1 other_month",
                    "2026-09-06 monthly DEU sale 1 0 settled_later",
                    "2026-09-10 yearly DEU sale 0 1 unexplained",
                    "2026-09-14 monthly DEU sale 0 1 unexplained",
                    "2026-09-18 yearly DEU sale 1 0 unexplained",
                    "2026-09-20 weekly DEU sale 1 0 unknown_country",
                    "2026-09-20 weekly - sale 0 1 unknown_country",
                    "2026-10-07 weekly DEU refund -1 0 other_month",
                    "2026-10-29 yearly DEU sale 0 1 not_reported_yet",
                ])
        }
    }

    /// The App Store does not say when it refunds some of several seats, so a refund counts on the day of its first report.
    @Test("a refund of seats that became known later is explained, one that has a date is not")
    func undated() async throws {
        try await withLedger { ledger in
            func seats(_ number: Int, _ at: String, _ product: String, _ days: [String]) -> StoredPurchase {
                .apple(number, at, product: product, price: 30_000).refunded(days.last ?? at, "REFUND_AMOUNT").with {
                    $0.quantity = 3
                    $0.refundedPrice = 10_000 * Int64(days.count)
                    $0.refunds = days.map { .init(at: $0, amount: 10_000) }
                }
            }
            // The refund of "lost" was learned of late. That of "dated" has a date, and "later" was bought after what is
            // reported. "team" was refunded twice, and each is reported on its day.
            try await ledger.insert([
                seats(1, "2026-09-01T12:00:00Z", "lost", ["2026-09-20T12:00:00Z"]),
                .apple(2, "2026-09-01T12:00:00Z", product: "dated", price: 10_000)
                    .refunded("2026-09-20T12:00:00Z", "REFUND_PRORATED").with { $0.revocationPercentage = 50_000 },
                seats(3, "2026-09-10T12:00:00Z", "later", ["2026-09-20T12:00:00Z"]),
                seats(4, "2026-09-01T12:00:00Z", "team", ["2026-09-12T12:00:00Z", "2026-09-14T12:00:00Z"]),
            ])
            try ledger.addSales([
                ("lost", "09/01/2026", 3, "10.00"), ("dated", "09/01/2026", 1, "10.00"),
                ("team", "09/01/2026", 3, "10.00"), ("lost", "09/05/2026", 0, "-10.00"),
                ("dated", "09/05/2026", 0, "-5.00"), ("later", "09/05/2026", 0, "-10.00"),
                ("later", "09/10/2026", 3, "10.00"), ("team", "09/12/2026", 0, "-10.00"),
                ("team", "09/14/2026", 0, "-10.00"), ("other", "10/31/2026", 1, "0"),
            ])

            #expect(
                try ledger.differences() == [
                    "2026-09-05 dated DEU refund 0 0 unexplained", "2026-09-05 later DEU refund 0 0 unexplained",
                    "2026-09-05 lost DEU refund 0 0 undated", "2026-09-20 dated DEU refund 0 0 unexplained",
                    "2026-09-20 later DEU refund 0 0 unexplained", "2026-09-20 lost DEU refund 0 0 undated",
                ])
        }
    }

    /// By the day of the purchase, whenever it was settled.
    @Test("Apple's Finance Detail report is compared by the days of the purchases")
    func financeDetail() async throws {
        try await withLedger { ledger in
            // 1 was settled in the period before, of which no report is imported, 2 agrees, 3 has another amount, 4 is
            // missing, and 5 may be settled later. The refund in part of 1 is not compared.
            try await ledger.insert([
                .apple(1, "2026-09-28 12:00Z").refunded("2026-10-02 12:00Z", "REFUND_PRORATED")
                    .with { $0.revocationPercentage = 50_000 },
                .apple(2, "2026-10-02 12:00Z"), .apple(3, "2026-10-03 12:00Z"), .apple(4, "2026-10-04 12:00Z"),
                .apple(5, "2026-11-20 12:00Z"),
            ])
            let header = [
                "Transaction Date", "Settlement Date", "Apple Identifier", "SKU", "Product Type Identifier",
                "Country of Sale", "Quantity", "Extended Partner Share", "Partner Share Currency", "Customer Price",
                "Customer Currency", "Sale or Return",
            ]
            func row(_ day: String, _ settled: String, _ price: String = "9.99") -> [String] {
                [day, settled, "15", "pro", "IAY", "DE", "1", "6.99", "EUR", price, "EUR", "S"]
            }
            let lines =
                [["Vendor Name", "Example"], ["Start Date", "09/29/2026"], ["End Date", "11/28/2026"], header] + [
                    row("09/28/2026", "10/01/2026"), row("10/02/2026", "10/05/2026"),
                    row("10/03/2026", "11/20/2026", "8.99"),
                ] + [
                    ["Country Of Sale", "Partner Share Currency", "Quantity", "Extended Partner Share"],
                    ["DE", "EUR", "3", "20.97"],
                ]
            let text = lines.map { $0.joined(separator: "\t") }.joined(separator: "\r\n") + "\r\n"
            let path = try ledger.write(text, "FD_85000000_202610_Z1.txt")
            #expect(
                try ledger.run(["import", path]).output
                    == "apple_finance_detail FD_85000000_202610_Z1, 2026-09-29 to 2026-11-28: 3 rows imported\n")

            #expect(
                try ledger.differences() == [
                    "2026-10-03 pro DEU sale 1 1 other_amount", "2026-10-04 pro DEU sale 0 1 unexplained",
                    "2026-11-20 pro DEU sale 0 1 not_reported_yet",
                ])
        }
    }

    @Test(
        "reports of both stores are imported as they are downloaded, once, and a newer file of the name replaces them")
    func samples() async throws {
        try await withLedger { ledger in
            let expected = [
                ("apple_sales_summary_1_0.txt.gz", "apple_sales", 9),
                ("apple_subscriber_1_3.txt", "apple_subscriber", 5),
                ("apple_subscription_event_1_3.txt.gz", "apple_subscription_event", 17),
                ("apple_subscription_event_us_dates.txt", "apple_subscription_event", 7),
                ("apple_financial_PL_0926.txt", "apple_financial", 2),
                ("apple_financial_ZZ_0926.txt", "apple_financial", 4),
                ("apple_finance_detail_Z1.txt", "apple_finance_detail", 3),
                ("google_salesreport_202111.zip", "google_sales", 12),
                ("google_salesreport_202401.csv", "google_sales", 4),
                ("google_earnings_202106.csv", "google_earnings", 14),
                ("google_earnings_202412.csv", "google_earnings", 4),
            ]
            for (name, kind, rows) in expected {
                let path = Self.fixtures.appendingPathComponent(name).path
                let imported = try ledger.run(["import", path])
                #expect(imported.output.hasPrefix("\(kind) "), "\(name): \(imported.error)")
                #expect(imported.output.hasSuffix(": \(rows) rows imported\n"), "\(imported.output)")
                #expect(try ledger.run(["import", path]).output.hasSuffix(": imported before\n"))
            }
            let copy = "\(ledger.folder)/renamed.csv"
            try FileManager.default.createDirectory(atPath: ledger.folder, withIntermediateDirectories: true)
            try FileManager.default.copyItem(
                atPath: Self.fixtures.appendingPathComponent("google_salesreport_202401.csv").path, toPath: copy)
            #expect(try ledger.run(["import", copy]).output.hasSuffix(": imported before\n"))
            // Where a buyer lives is not kept, and a refund in the same second as its charge is a row of its own.
            let personal = try await ledger.database.lines(
                "select count(*)::text from subledger.store_report_row where fields::text ~* 'postal|city|state'")
            #expect(personal == ["0"])
            let refunds = try await ledger.database.lines(
                "select count(*)::text from analyst.store_report_rows where kind = 'google_sales' and event = 'refund' and amount < 0"
            )
            #expect(refunds != ["0"])

            let day = try ledger.write(
                try text("apple_subscription_1_2.txt"), "Subscription_85000000_20261125_V1_2.txt")
            let stock = try ledger.run(["import", day])
            #expect(
                stock.output.hasPrefix(
                    "apple_subscription Subscription_85000000_20261125_V1_2, 2026-11-25 to 2026-11-25: "))
            // Its rows have no day, so those of two days may be alike.
            let next = try ledger.write(
                try text("apple_subscription_1_2.txt"), "Subscription_85000000_20261126_V1_2.txt")
            #expect(try ledger.run(["import", next]).output.hasSuffix(", 2026-11-26 to 2026-11-26: 8 rows imported\n"))
            #expect(try ledger.run(["import", next]).output.hasSuffix(": imported before\n"))
            let empty = try ledger.write(try text("apple_sales_empty_header_only.txt"), "S_D_85000000_20261124.txt")
            #expect(
                try ledger.run(["import", empty]).output
                    == "apple_sales S_D_85000000_20261124, 2026-11-24 to 2026-11-24: 0 rows imported\n")
            let newer = try ledger.write(
                try text("apple_sales_empty_header_only.txt") + "\n", "S_D_85000000_20261124.txt")
            #expect(try ledger.run(["import", newer]).output.hasSuffix("which replace those of an earlier file\n"))
        }
    }

    private func text(_ name: String) throws -> String {
        try String(contentsOf: Self.fixtures.appendingPathComponent(name), encoding: .utf8)
    }

    struct Bad: CustomTestStringConvertible, Sendable {
        let name: String
        let change: @Sendable (String) -> String
        let problem: String

        var testDescription: String { problem }

        init(_ name: String, _ problem: String, _ change: @escaping @Sendable (String) -> String = { $0 }) {
            self.name = name
            self.problem = problem
            self.change = change
        }
    }

    @Test(
        "a file that cannot be imported is refused with the line and the reason",
        arguments: [
            Bad("apple_sales_2010.txt", ":1: the first column is \"apple\": expected the English header"),
            Bad(
                "apple_finance_detail_Z1.txt",
                ":8: the countries have 6 units, and the rows before them 5: is a part missing?"
            ) {
                $0.replacing("DE\tEUR\t3", with: "DE\tEUR\t4")
            },
            Bad("apple_finance_detail_Z1.txt", ":7: no table of countries follows: the file may be cut off") {
                $0.split(separator: "\n").prefix(7).joined(separator: "\n")
            },
            Bad("apple_finance_detail_Z1.txt", ":1: no End Date stands before the header") {
                $0.replacing("End Date\t12/27/2025\n", with: "")
            },
            Bad("apple_finance_detail_Z1.txt", ":1: the first column is \"vendor name\": expected the English header") {
                $0.replacing("Transaction Date", with: "Transaktionsdatum")
            },
            Bad("apple_sales_empty_header_only.txt", ":1: the file has no rows, and its name no day such as 20261125"),
            Bad("apple_subscription_1_2.txt", ":2: the report has no days, and the name of the file has none"),
            Bad("apple_financial_PL_0926.txt", ":5: Total_Rows is 3, and the rows before it give 2: is a part missing?")
            {
                $0.replacing("Total_Rows\t2", with: "Total_Rows\t3")
            },
            Bad("apple_financial_PL_0926.txt", ":3: no Total_Rows follows: the file may be cut off") {
                $0.split(separator: "\n").prefix(3).joined(separator: "\n")
            },
            Bad("google_salesreport_202401.csv", "expected 25, as in the header; the file may be cut off") {
                String($0.dropLast(60))
            },
            Bad("google_salesreport_202401.csv", ":2: charged amount \"27.9.9\" is not a number") {
                $0.replacing(",27.99,", with: ",27.9.9,", maxReplacements: 1)
            },
            Bad("google_salesreport_202401.csv", ":2: order charged date \"2024-13-01\" is no day") {
                $0.replacing("2024-01-01", with: "2024-13-01", maxReplacements: 1)
            },
            Bad("google_salesreport_202401.csv", ":1: the file is empty") { _ in "" },
        ])
    func refused(bad: Bad) throws {
        let folder = TestFolder.path("bad-reports")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let path = "\(folder)/\(bad.name.replacing(/_[0-9]+\./, with: "."))"
        try Data(bad.change(try text(bad.name)).utf8).write(to: URL(fileURLWithPath: path))

        let error = #expect(throws: CSVFile.Malformed.self) { try ReportFile(path) }
        #expect(
            error?.description.hasPrefix(path) == true && error?.description.contains(bad.problem) == true,
            "\(error?.description ?? "")")
    }

    /// The rows of a file that is read by pieces of a size.
    private static func rows(_ path: String, pieceBytes: Int) throws -> [StoreReport.Row] {
        let file = try #require(FileHandle(forReadingAtPath: path))
        var reader = try ReportRows(file, path: path, day: "2026-11-25", pieceBytes: pieceBytes)
        var rows: [StoreReport.Row] = []
        while let row = try reader.next() { rows.append(row) }
        return rows
    }

    @Test(
        "however small the pieces are in which a file is read, its rows are the same",
        arguments: [
            "apple_sales_summary_1_0.txt.gz", "apple_subscription_1_2.txt", "apple_financial_ZZ_0926.txt",
            "apple_finance_detail_Z1.txt", "google_salesreport_202111.zip", "google_salesreport_202401.csv",
            "google_earnings_202106.csv",
        ])
    func pieces(name: String) throws {
        let path = Self.fixtures.appendingPathComponent(name).path
        let whole = try Self.rows(path, pieceBytes: 1 << 20)

        #expect(!whole.isEmpty)
        for pieceBytes in [1, 2, 7, 100] {
            let rows = try Self.rows(path, pieceBytes: pieceBytes)
            #expect(rows == whole, "\(pieceBytes)")
        }
    }

    @Test("a packed file that is cut off is refused, also where a row before shows that it is")
    func packed() throws {
        let folder = TestFolder.path("packed-reports")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for name in ["apple_sales_summary_1_0.txt.gz", "google_salesreport_202111.zip"] {
            let bytes = try Data(contentsOf: Self.fixtures.appendingPathComponent(name))
            let path = "\(folder)/\(name)"
            for length in [4, 30, bytes.count / 2, bytes.count - 1] {
                try bytes.prefix(length).write(to: URL(fileURLWithPath: path))
                for pieceBytes in [1, 1 << 20] {
                    let error = #expect(throws: CommandProblem.self) {
                        try ReportFile(path, pieceBytes: pieceBytes)
                    }
                    #expect(error?.description.hasPrefix("\(path): is damaged or cut off") == true)
                }
            }
        }
    }

    @Test(
        "text in UTF-16 is read, whichever byte comes first",
        arguments: [String.Encoding.utf16LittleEndian, .utf16BigEndian])
    func wide(encoding: String.Encoding) throws {
        let mark: [UInt8] = encoding == .utf16LittleEndian ? [0xFF, 0xFE] : [0xFE, 0xFF]
        // With a character that is a pair of units.
        let content = try text("google_salesreport_202401.csv").replacing("Pro subscription", with: "Pro \u{1F600}")
        let encoded = try #require(content.data(using: encoding))
        let plain = TestFolder.path("plain") + ".csv"
        let path = TestFolder.path("wide") + ".csv"
        defer { for path in [plain, path] { try? FileManager.default.removeItem(atPath: path) } }
        try Data(content.utf8).write(to: URL(fileURLWithPath: plain))
        try (Data(mark) + encoded).write(to: URL(fileURLWithPath: path))

        let expected = try Self.rows(plain, pieceBytes: 1 << 20)
        #expect(expected.count == 4)
        #expect(expected.allSatisfy { String(decoding: $0.fields, as: UTF8.self).contains("Pro \u{1F600}") })
        for pieceBytes in [1, 3, 1 << 20] {
            let rows = try Self.rows(path, pieceBytes: pieceBytes)
            #expect(rows == expected, "\(pieceBytes)")
        }
        // Half of a character at the end.
        let file = try #require(FileHandle(forUpdatingAtPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data([0x41]))
        try file.close()
        let error = #expect(throws: CSVFile.Malformed.self) { try Self.rows(path, pieceBytes: 7) }
        #expect(error?.description == "\(path):1: the text is not valid UTF-16")
    }
}
