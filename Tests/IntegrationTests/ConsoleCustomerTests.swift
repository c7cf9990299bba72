import Encoding
import Simulation
import TestSupport
import Testing

@Suite("The console says whose an id is, and what happened to the customer")
struct ConsoleCustomerTests {
    private static let stream = "stream=sandbox%3Acom.example.magazine"

    /// Two app users, one after the other, on one Apple Account.
    private static func withPassedOn(_ test: (TestBundle, ConsoleBrowser, String) async throws -> Void) async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(
                bundleId: V1Body.app, appAppleId: 1_234_567_890, environment: .sandbox, sharedSecret: V1Body.secret))
        settings.stories = [.upgradeByAnotherUser]
        settings.subscriptions = 1
        let simulation = try #require(Simulation(settings))
        try await TestBundle.withServer(roots: SimulatedLog.roots, now: { Simulation.end }) { server in
            for delivery in simulation.deliveries { _ = try await server.apple.post(delivery.body()) }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            try await test(server, browser, cookie)
        }
    }

    @Test("an id that leads to another customer by now says so, on the page of a time before")
    func passedOn() async throws {
        try await Self.withPassedOn { server, browser, cookie in
            // The second of two owners, and when it became one.
            let rows = try await server.sql(
                """
                select ownership.original_transaction_id || ' ' || ownership.customer_id || ' '
                  || trunc(extract(epoch from ownership.starts_at) * 1000)
                from subledger.ownership
                where ownership.starts_at > '-infinity'
                """)
            let parts = try #require(rows.first).split(separator: " ").map(String.init)
            let since = try #require(Int64(parts[2]).flatMap { Instant(milliseconds: $0) })
            func page(_ instant: Instant) async throws -> String {
                try await browser.get(
                    "/console/customers/\(parts[0])?as=subscription&\(Self.stream)&at=\(instant)", cookie: cookie
                ).body
            }

            let before = try await page(since.advanced(byMilliseconds: -1))
            let after = try await page(since)

            let note = "Today the id leads to another customer: the app user with account token "
            #expect(before.contains(note), "\(before)")
            #expect(before.contains(">\(parts[1])</a>. What it bought since"))
            #expect(!after.contains(note))
            #expect(after.contains("The customer is the app user with account token <a"))
            let gained = "<td>subscription gained from the app user with account token <a"
            #expect(after.contains(gained), "\(after)")
            #expect(!before.contains("<td>subscription gained"))
            // Each of the two pages names the other customer.
            let owners = try await server.sql(
                """
                select concat_ws(' ', ownership.original_transaction_id, ownership.customer_id)
                from subledger.ownership
                where ownership.starts_at = '-infinity'
                """)
            let first = try #require(owners.first { $0.hasPrefix("\(parts[0]) ") }?.split(separator: " ").last)
            let loser = try await browser.get(
                "/console/customers/\(first)?as=account&\(Self.stream)", cookie: cookie
            ).body
            #expect(loser.contains("no longer this customer’s</h3>"), "\(loser)")
            #expect(loser.contains("It belongs to the app user with account token <a"))
            #expect(loser.contains("\(parts[1])</a> since <time"))
            #expect(loser.contains("<td>belongs to another customer</td>"))
            let lost = "<td>subscription lost to the app user with account token "
            #expect(loser.contains("\(lost)<a href=\"/console/customers/\(parts[1])?"), "\(loser)")
            #expect(after.contains("It belonged to the app user with account token <a"), "\(after)")
            #expect(after.contains("\(first)</a> until <time"))
            #expect(!before.contains("It belongs to ") && !before.contains("It belonged to "))
        }
    }

    @Test("a subscription that a backend's link moved names both owners, on their pages and on its own")
    func moved() async throws {
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(try V1Body(number: 1).bytes)
            for customer in ["u-1", "u-2"] {
                _ = try await server.owner.put(
                    #"{"links":[{"originalTransactionId":"2000000000000001"}]}"#,
                    to: "/customers/\(customer)/links?app=com.example.magazine")
            }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            func page(_ path: String) async throws -> String {
                try await browser.get("/console/\(path)?stream=production%3Acom.example.magazine", cookie: cookie).body
            }
            func owner(_ id: String) -> String {
                "your backend’s customer <a href=\"/console/customers/\(id)?"
                    + "stream=production%3Acom.example.magazine&amp;as=link\">\(id)</a></td>"
            }

            let former = try await page("customers/u-1")
            let present = try await page("customers/u-2")
            let subscription = try await page("subscriptions/2000000000000001")

            #expect(former.contains("<td>subscription lost by a link to \(owner("u-2"))"), "\(former)")
            #expect(former.contains("from the customer to customer u-2"), "\(former)")
            #expect(present.contains("<td>subscription gained by a link from \(owner("u-1"))"), "\(present)")
            #expect(subscription.contains("<td>\(owner("u-2"))<td>a link names the subscription</td>"))
            #expect(
                subscription.contains("<td>\(owner("u-1"))<td>lost it by a link, which counts for all time</td>"),
                "\(subscription)")
        }
    }

    @Test("a customer's page costs at most nine queries, whatever the time that it is about")
    func queries() async throws {
        try await Self.withPassedOn { server, browser, cookie in
            let ids = try await server.sql(
                """
                select distinct customer_id
                from subledger.customer_identity
                where customer_kind = 'account'
                order by customer_id
                """)
            for time in ["", "&at=2025-09-10T00:00:00Z"] {
                for id in ids {
                    let before = Self.statements(server)
                    let page = try await browser.get(
                        "/console/customers/\(id)?as=account&\(Self.stream)\(time)", cookie: cookie)
                    let run = Self.statements(server).dropFirst(before.count)

                    #expect(page.status == 200, "\(page.body)")
                    #expect((1...9).contains(run.count), "\(run)")
                }
            }
        }
    }

    /// The statements that were run for pages so far, in order. Other services of the server have pools of their own.
    private static func statements(_ server: TestBundle) -> [String] {
        server.logs.text.split(separator: "\n").map(String.init).filter { line in
            line.hasPrefix("trace statement")
                && ["console_", "customer_", "session"].contains { line.contains("\"db.statement\": \($0)") }
        }
    }

    @Test("the overview has a tile for each currency, and the rows of a day have all of them")
    func currencies() async throws {
        var settings = Simulation.Settings(
            app: SimulatedApp(
                bundleId: V1Body.app, appAppleId: 1_234_567_890, environment: .sandbox, sharedSecret: V1Body.secret))
        settings.subscriptions = 240
        settings.seed = 7
        let simulation = try #require(Simulation(settings))
        let now = try #require(Instant(iso8601: "2025-09-01T12:00:00Z"))
        try await TestBundle.withServer(roots: SimulatedLog.roots, now: { now }) { server in
            for delivery in simulation.deliveries { _ = try await server.apple.post(delivery.body()) }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            let currencies = try await server.sql(
                "select currency from analyst.mrr where day = '2025-09-01' and subscriptions > 0 order by currency")

            // A figure that takes long is there the next time.
            let overview = try await eventually("the overview has the revenue") {
                let page = try await browser.get("/console?\(Self.stream)", cookie: cookie).body
                return page.contains("MRR, ") ? page : nil
            }
            let rows = try await browser.get(
                "/console/figures/mrr?rows=yes&from=2025-09-01&to=2025-09-01&\(Self.stream)", cookie: cookie
            ).body

            #expect(currencies.count > 4, "\(currencies)")
            for currency in currencies {
                #expect(overview.contains("MRR, \(currency)<"), "\(currency): \(overview)")
                #expect(rows.contains("<td>\(currency)</td>"), "\(currency): \(rows)")
            }
        }
    }
}
