import Console
import Subscriptions
import TestSupport
import Testing

@Suite("The console's figures of money")
struct ConsoleFigureTests {
    /// Links of a page to the rows of a number.
    private static func rowLinks(_ page: String) -> [String] {
        page.matches(of: /href="([^"]*rows=yes[^"]*)"/).map { String($0.1).replacing("&amp;", with: "&") }
    }

    @Test(
        "every figure of every story has a page in each form, and its numbers lead to rows",
        arguments: FigurePage.Figure.allCases)
    func walk(_ figure: FigurePage.Figure) async throws {
        try await ConsolePageTests.withEveryStory { server, browser, cookie in
            let span = figure.isByDay ? "from=2025-06-01&to=2025-07-31" : "from=2025-01-01&to=2026-06-30"
            let here = "\(span)&stream=sandbox%3Acom.example.magazine"
            var forms = [""] + figure.parts.map { "&by=\($0.rawValue)" }
            if figure.isConvertible { forms += ["&currency=EUR", "&currency=XXX"] }
            for form in forms {
                let path = "/console/figures/\(figure.rawValue)?\(here)\(form)"
                let page = try await browser.get(path, cookie: cookie)
                #expect(page.status == 200, "\(path)")
                #expect(page.body.utf8.count < 100_000, "\(path) \(page.body.utf8.count)")
                #expect(!page.body.contains("does not answer"), "\(path)")
                let links = Self.rowLinks(page.body)
                #expect(!links.isEmpty, "\(path)")
                for link in [links.first, links.last].compactMap(\.self) {
                    let rows = try await browser.get(link, cookie: cookie)
                    #expect(rows.status == 200, "\(link)")
                    #expect(rows.body.contains("/console/events/"), "\(link)")
                }
            }
        }
    }

    private static func charge(
        _ id: String, _ start: String, _ price: Int64, _ currency: String, _ storefront: String
    ) -> Transaction {
        AnalystLog.charge(id, "\(start)T12:00:00Z", "2099-01-01T12:00:00Z") {
            ($0.price, $0.currency, $0.storefront) = (price, currency, storefront)
        }
    }

    private static func text(_ row: Substring) -> String {
        row.matches(of: /<td[^>]*>(.*?)<\/td>/).map { $0.1.replacing(/<[^>]*>/, with: "") }.joined(separator: " ")
    }

    /// The cells of the first table.
    private static func rows(_ page: String) -> [String] {
        let body = page.firstMatch(of: /<tbody>(.*?)<\/tbody>/.dotMatchesNewlines())?.1 ?? ""
        return body.matches(of: /<tr>(.*?)<\/tr>/.dotMatchesNewlines()).map { text($0.1) }
    }

    @Test("revenue in each currency with its decimals, and in one with what has no rate beside it")
    func revenue() async throws {
        let stated = [
            Self.charge("10", "2025-03-01", 12_500, "EUR", "DEU"),
            Self.charge("20", "2025-03-02", 1_500_000, "JPY", "JPN"),
            Self.charge("30", "2025-03-02", 24_000, "USD", "USA"),
            Self.charge("40", "2025-03-02", 3_125, "KWD", "KWT"),
        ].map { AnalystLog.Stated("2025-03-02T12:00:00Z", [$0]) }
        try await SimulatedLog.with { log in
            try await log.script(
                """
                insert into subledger.exchange_rate (currency, day, per_euro)
                values ('USD', '2025-03-01', 1.2), ('JPY', '2025-03-01', 150)
                """)
            try await AnalystLog.fold(stated, log)
            try await TestBundle.withServer(database: log.database) { server in
                let (browser, cookie) = try await server.session()
                func page(_ query: String) async throws -> ConsoleBrowser.Page {
                    try await browser.get(
                        "/console/figures/revenue?from=2025-03-01&to=2025-03-31\(query)&\(ConsolePageTests.stream)",
                        cookie: cookie)
                }

                // Gross, new, renewals, refunded, kept, payments, and those without a price.
                #expect(
                    try await Self.rows(page("").body) == [
                        "2025-03-01 JPY 1500 1500 0 0 1500 1 0", "2025-03-01 USD 24.00 24.00 0.00 0.00 24.00 1 0",
                        "2025-03-01 EUR 12.50 12.50 0.00 0.00 12.50 1 0",
                        "2025-03-01 KWD 3.125 3.125 0.00 0.00 3.125 1 0",
                    ])
                #expect(
                    try await Self.rows(page("&currency=EUR").body) == [
                        "2025-03-01 EUR 42.50 42.50 0.00 0.00 42.50 3 0",
                        "2025-03-01 KWD 3.125 3.125 0.00 0.00 3.125 1 0",
                    ])
                // Behind each number are the rows that it has: the one without a rate is behind its own.
                let links = Self.rowLinks(try await page("&currency=EUR").body)
                let converted = try await browser.get(
                    try #require(links.first { $0.contains("into=EUR") }), cookie: cookie)
                let unconverted = try await browser.get(
                    try #require(links.first { $0.contains("currency=KWD") }), cookie: cookie)
                #expect(converted.body.contains("2025-03-01, in EUR"), "\(converted.body)")
                #expect(
                    Self.rows(converted.body).map { String($0.prefix(2)) }.sorted() == ["10", "20", "30"],
                    "\(converted.body)")
                #expect(Self.rows(unconverted.body).map { String($0.prefix(2)) } == ["40"])
                let misspelt = try await page("&rows=yes&into=euro")
                #expect(misspelt.status == 400)
                let countries = try await page("&currency=EUR&by=country").body
                #expect(
                    Self.rows(countries).map { $0.split(separator: " ").prefix(4).joined(separator: " ") } == [
                        "2025-03-01 USA EUR 20.00", "2025-03-01 DEU EUR 12.50", "2025-03-01 JPN EUR 10.00",
                        "2025-03-01 KWT KWD 3.125",
                    ])
                let japan = try #require(Self.rowLinks(countries).last { $0.contains("part=JPN") })
                let detail = try await browser.get(japan, cookie: cookie)
                #expect(
                    Self.rows(detail.body) == ["20 20 2025-03-02 monthly JPN JPY 1500 – 2"], "\(detail.body)")
            }
        }
    }

    @Test(
        "a currency or a split that the figure does not have is refused",
        arguments: [
            "revenue?currency=euro", "revenue?currency=EURO", "revenue?by=month", "retention?currency=EUR",
            "trials?by=country", "active?by=product",
        ])
    func refused(_ path: String) async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try V1Body(number: 1).bytes)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            #expect(try await browser.get("/console/figures/\(path)", cookie: cookie).status == 400)
        }
    }
}
