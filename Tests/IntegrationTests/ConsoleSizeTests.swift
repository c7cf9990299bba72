import Encoding
import EventLog
import Foundation
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("Pages of the console stay below 100 KB")
struct ConsoleSizeTests {
    private static let stream = ConsolePageTests.stream
    private static let day: Int64 = 86_400_000
    private static let bytesMax = 100_000

    private static func post(_ rows: [V1Body.Row], of subscription: String, to server: TestBundle) async throws {
        for start in stride(from: 0, to: rows.count, by: 100) {
            let body = V1Body(
                type: "RENEWAL", rows: Array(rows[start..<min(start + 100, rows.count)]), subscription: subscription,
                autoRenew: true)
            #expect(try await server.apple.post(try body.bytes).status == 200)
        }
    }

    @Test("a subscription with 500 purchases, with all rows by paging and as CSV")
    func purchases() async throws {
        try await TestBundle.withServer { server in
            let rows = (0..<500).map { number in
                let start = 1_500_000_000_000 + Int64(number) * Self.day
                return V1Body.Row(
                    "\(70_000 + number)", subscription: "70000", purchase: start, expires: start + Self.day)
            }
            try await Self.post(rows, of: "70000", to: server)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            for path in ["customers/70000?as=subscription&\(Self.stream)", "subscriptions/70000?\(Self.stream)"] {
                let page = try await browser.get("/console/\(path)", cookie: cookie)
                #expect(page.status == 200)
                #expect(page.body.utf8.count < Self.bytesMax, "\(path): \(page.body.utf8.count)")
            }
            // Every transaction is on one page, each once.
            var seen: [String] = []
            var next: String? = "/console/subscriptions/70000?\(Self.stream)"
            while let path = next {
                let page = try await browser.get(path, cookie: cookie)
                #expect(page.body.utf8.count < Self.bytesMax, "\(path)")
                let start = try #require(page.body.range(of: "id=\"transactions-caption\"")).upperBound
                let end = try #require(page.body[start...].range(of: "class=\"table\"")).lowerBound
                let table = page.body[start..<end]
                seen += table.matches(of: /<tr><td><code>([0-9]+)<\/code>/).map { String($0.1) }
                next = table.firstMatch(of: /href="([^"]*)#transactions-caption" rel="next"/)
                    .map { String($0.1).replacing("&amp;", with: "&") }
            }
            #expect(seen.count == 500 && Set(seen).count == 500)
            let csv = try await browser.get(
                "/console/subscriptions/70000?\(Self.stream)&csv=transactions", cookie: cookie)
            #expect(csv.body.split(separator: "\r\n").count == 501)
            let beyond = try await browser.get(
                "/console/subscriptions/70000?\(Self.stream)&skip=transactions.99999999999999999999", cookie: cookie)
            #expect(beyond.status == 200)
        }
    }

    @Test("a customer with 100 one-time purchases, and one with ten subscriptions of three years")
    func many() async throws {
        try await TestBundle.withServer { server in
            let books = (0..<100).map { number in
                V1Body.Row(
                    "\(80_000 + number)", subscription: "\(80_000 + number)", product: "com.example.book\(number)",
                    purchase: 1_500_000_000_000, expires: 1_600_000_000_000 + Int64(number))
            }
            try await Self.post(books, of: "80000", to: server)
            let months = (0..<10).flatMap { line in
                (0..<36).map { number in
                    let start = 1_500_000_000_000 + Int64(number * 30 + line) * Self.day
                    return V1Body.Row(
                        "\(90_000 + line * 100 + number)", subscription: "\(90_000 + line * 100)",
                        product: "com.example.magazine\(line).monthly", purchase: start,
                        expires: start + 30 * Self.day)
                }
            }
            try await Self.post(months, of: "90000", to: server)
            let links = (0..<10).map { "{\"originalTransactionId\":\"\(90_000 + $0 * 100)\"}" }.joined(separator: ",")
            let owned = (0..<100).map { "{\"originalTransactionId\":\"\(80_000 + $0)\"}" }.joined(separator: ",")
            for (customer, list) in [("reader", links), ("owner", owned)] {
                let answer = try await CustomerRoutesTests.put(server, customer, "{\"links\":[\(list)]}")
                #expect(answer.status == 200 || answer.status == 201, "\(answer.body)")
            }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            for customer in ["reader", "owner"] {
                for clock in ["", "&knownAt=2019-11-08T08:14:00Z", "&knownAt=2019-01-01"] {
                    let page = try await browser.get(
                        "/console/customers/\(customer)?as=link&\(Self.stream)\(clock)", cookie: cookie)
                    #expect(page.status == 200, "\(customer) \(clock)")
                    #expect(page.body.utf8.count < Self.bytesMax, "\(customer) \(clock): \(page.body.utf8.count)")
                }
            }
        }
    }

    @Test("a customer with 10 000 events")
    func events() async throws {
        try await TestBundle.withServer { server in
            let start: Int64 = 1_560_000_000_000
            try await Self.post(
                [V1Body.Row("60000", subscription: "60000", purchase: start, expires: start + 300 * Self.day)],
                of: "60000", to: server)
            try await server.isFolded()
            // Copies of the event, with 300 different times of their statements.
            _ = try await server.sql(
                """
                with copies as (
                  insert into subledger.event (
                    stream_id, position, received_at, occurred_at, source, type, subtype, kind, dedupe_key, facts,
                    defects, body_sha256, chain
                  )
                  select stream_id, number, received_at, occurred_at + number % 300 * interval '1 minute', 'apple-v2',
                    'DID_CHANGE_RENEWAL_STATUS', subtype, kind, sha256(int8send(number)), facts, defects,
                    sha256('{}'), chain
                  from subledger.event
                  cross join generate_series(2, 10000) as number
                  where position = 1
                  returning position
                )
                update subledger.stream_head
                set position = 10000
                where (select count(*) from copies) > 0
                returning position::text
                """)
            #expect(try await server.apple.post(try V1Body(number: 9).bytes).status == 200)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            for path in [
                "customers/60000?as=subscription&\(Self.stream)",
                "customers/60000?as=subscription&\(Self.stream)&knownAt=2019-11-08T08:14:00Z",
                "subscriptions/60000?\(Self.stream)",
                "subscriptions/60000?\(Self.stream)&knownAt=2019-11-08T08:14:00Z", "events?\(Self.stream)",
            ] {
                let page = try await browser.get("/console/\(path)", cookie: cookie)
                #expect(page.status == 200, "\(path)")
                #expect(page.body.utf8.count < Self.bytesMax, "\(path): \(page.body.utf8.count)")
            }
            // The first and the last event, over as many pages as the time for a page requires.
            var found: Set<String> = []
            var next: String? = "/console/events?source=apple-v1&\(Self.stream)"
            while let path = next {
                let page = try await browser.get(path, cookie: cookie)
                #expect(page.status == 200, "\(path)")
                found.formUnion(page.body.matches(of: /\/console\/events\/([0-9]+)/).map { String($0.1) })
                next = page.body.firstMatch(of: /href="([^"]*)" rel="next"/)
                    .map { String($0.1).replacing("&amp;", with: "&") }
            }
            #expect(found == ["1", "10001"])
            let pool = PostgresPool(
                server.database.with(role: "subledger_reader"), limit: 1, logger: LogRecorder().logger)
            let outcome = try await LogReader(pool: pool).events(
                of: StreamKey(app: "com.example.magazine", environment: .production), after: .start, limit: 100,
                filter: EventFilter(source: "apple-v1"), scanTime: .zero)
            await pool.close()
            guard case .page(let first) = outcome else {
                Issue.record("no page: \(outcome)")
                return
            }
            #expect(first.events.map(\.position) == [1])
            #expect(first.through.number == 500 && first.hasMore, "one query when there is no time for a second one")
        }
    }
}
