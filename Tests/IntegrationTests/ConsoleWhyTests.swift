import Encoding
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("The console explains each entitlement")
struct ConsoleWhyTests {
    private static let stream = ConsolePageTests.stream
    private static let monthly = "com.example.magazine.monthly"

    private static func explanation(
        _ server: TestBundle, _ id: String, _ entitlement: String, _ query: String = "",
        in stream: String = CustomerRoutesTests.here
    ) async throws -> Explanation {
        let answer = try await server.backend.get(
            "/customers/\(id)/explanation?\(stream)&entitlement=\(entitlement)\(query)")
        return try #require(
            Explanation(json: try JSONDocument(Array(answer.body.utf8)).root), "\(answer.status) \(answer.body)")
    }

    @Test("a customer's page shows the decisive reason, all others, their events and the text to copy")
    func customer() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/customers/10?as=subscription&\(Self.stream)", cookie: cookie)
            let active = try await Self.explanation(server, "10", "com.example.books")
            let over = try await Self.explanation(server, "10", Self.monthly)

            #expect(page.body.contains("com.example.books is active until 10 Dec 2019 17:46:40 UTC</time></strong>"))
            #expect(page.body.contains("<p>Because: Transaction 20 (com.example.books) was paid for from"))
            #expect(
                page.body.contains("(INITIAL_BUY, event <a href=\"/console/events/1?\(Self.stream)\">1</a>)."),
                "\(page.body)")
            #expect(page.body.contains("<strong>\(Self.monthly) is not active</strong>, it ended on <time"))
            #expect(page.body.contains(">2 Oct 2019 07:06:40 UTC</time>"))
            #expect(page.body.contains("and nothing follows it."))
            for explanation in [active, over] {
                #expect(page.body.contains(explanation.sentence.html), "\(page.body)")
                for reason in explanation.because + explanation.against {
                    #expect(page.body.contains(reason.text.html), "\(reason)")
                    #expect(
                        page.body.contains("<small class=\"muted\">Rule \(reason.rule.rawValue)</small>"), "\(reason)")
                }
            }
            let change = try #require(active.couldChange.first)
            #expect(page.body.contains("\(change.text.html)."))
            // What is active is first.
            let first = try #require(page.body.range(of: "com.example.books is active"))
            let second = try #require(page.body.range(of: "\(Self.monthly) is not active"))
            #expect(first.lowerBound < second.lowerBound)
        }
    }

    @Test("explanations follow both clocks, on the customer's and on the subscription's page")
    func clocks() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let earlier = "&at=2019-09-01T00:00:00.000Z"
            let expected = try await Self.explanation(server, "10", Self.monthly, earlier)
            #expect(expected.active)
            for path in ["customers/10?as=subscription", "subscriptions/10?"] {
                func page(_ query: String) async throws -> String {
                    try await browser.get("/console/\(path)&\(Self.stream)\(query)", cookie: cookie).body
                }

                #expect(try await page(earlier).contains(expected.sentence.html), "\(path)")
                #expect(try await page("").contains("(asked on 8 Nov 2019"), "\(path)")
                let known = try await page("&knownAt=2019-11-08T08:14:00Z")
                #expect(known.contains("as known on 8 Nov 2019 08:14:00 UTC"), "\(path)")
                let before = try await page("&knownAt=2019-11-01")
                #expect(before.contains("As it was known at"), "\(path)")
                // Without an instant, the page is about the time of knowledge.
                #expect(before.matches(of: /value="2019-11-01 00:00:00"/).count == 1, "\(path)")
                #expect(before.contains("placeholder=\"the same time\""), "\(path)")
                #expect(before.contains("class=\"later\""), "\(path)")
                #expect(before.contains("<p>Because: No purchase of the customer grants \(Self.monthly)."), "\(path)")
                #expect(before.contains("not active either, for another reason"), "\(path)")
            }
            let unknown = try await browser.get(
                "/console/subscriptions/10?\(Self.stream)&knownAt=2019-11-01", cookie: cookie)
            #expect(unknown.body.contains("<strong>not bought yet</strong>"))
            #expect(unknown.body.contains("No transaction is known"))
        }
    }

    @Test("the page of a subscription explains what this subscription grants, not what others do")
    func subscription() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/subscriptions/20?\(Self.stream)", cookie: cookie)

            #expect(page.body.contains("com.example.books is active until 10 Dec 2019 17:46"))
            #expect(!page.body.contains("Why: \(Self.monthly)"))
        }
    }

    @Test("the sentences of every story's customer are those of the API")
    func stories() async throws {
        try await ConsolePageTests.withEveryStory { server, browser, cookie in
            let at = "at=2026-01-01T00:00:00.000Z"
            let rows = try await server.sql(
                """
                select distinct access_period.original_transaction_id || ' ' || access_period.product_id
                from subledger.access_period
                where access_period.product_id is not null
                order by 1
                """)
            #expect(rows.count > 20)
            for row in rows {
                let parts = row.split(separator: " ").map(String.init)
                let page = try await browser.get(
                    "/console/subscriptions/\(parts[0])?stream=sandbox%3Acom.example.magazine&\(at)", cookie: cookie)
                let names = page.body.matches(of: /aria-label="Why: ([^"]*)"/).map { String($0.1) }
                #expect(!names.isEmpty, "\(row)")
                for name in names {
                    let explanation = try await Self.explanation(
                        server, parts[0], name, "&as=subscription&\(at)",
                        in: "app=com.example.magazine&environment=sandbox")
                    #expect(page.body.contains(explanation.sentence.html), "\(row): \(explanation.sentence)")
                }
            }
        }
    }

    @Test("of a subscription whose renewal is on, the pages say when it renews")
    func renewal() async throws {
        try await TestBundle.withServer { server in
            let row = V1Body.Row(
                "500", subscription: "500", product: Self.monthly, purchase: 1_573_000_000_000,
                expires: 1_576_000_000_000)
            _ = try await server.apple.post(
                try V1Body(type: "INITIAL_BUY", rows: [row], subscription: "500", autoRenew: true).bytes)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            for path in ["customers/500?as=subscription", "subscriptions/500?"] {
                let page = try await browser.get("/console/\(path)&\(Self.stream)", cookie: cookie).body
                #expect(page.contains("Renews on <time datetime=\"2019-12-10T17:46:40"), "\(page)")
                #expect(page.contains("10 Dec 2019 17:46:40 UTC</time>"), "\(path)")
                #expect(page.contains("; access ends if it is not renewed."), "\(path)")
                #expect(!page.contains("Access ends"), "\(path)")
            }
        }
    }

    @Test("of a customer with many entitlements, six are explained, and each other one by a link")
    func many() async throws {
        try await TestBundle.withServer { server in
            let rows = (0..<30).map { number in
                V1Body.Row(
                    "\(400 + number)", subscription: "\(400 + number)", product: "com.example.book\(number)",
                    purchase: 1_570_000_000_000, expires: 1_576_000_000_000 + Int64(number))
            }
            _ = try await server.apple.post(
                try V1Body(type: "INITIAL_BUY", rows: rows, subscription: "400", autoRenew: true).bytes)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            let page = try await browser.get("/console/customers/400?as=subscription&\(Self.stream)", cookie: cookie)
            #expect(page.body.matches(of: /class="why"/).count == 6)
            #expect(page.body.contains("24 further entitlements"))
            let link = try #require(page.body.firstMatch(of: /href="([^"]*entitlement=com.example.book9)"/))
            let other = try await browser.get(String(link.1).replacing("&amp;", with: "&"), cookie: cookie)
            let first = try #require(other.body.firstMatch(of: /aria-label="Why: ([^"]*)"/))
            #expect(first.1 == "com.example.book9")
            let never = try await browser.get(
                "/console/customers/400?as=subscription&\(Self.stream)&entitlement=plus", cookie: cookie)
            #expect(never.body.contains("No purchase of the customer grants plus."))
        }
    }
}

extension String {
    /// As the console writes it.
    fileprivate var html: String {
        replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;").replacing("'", with: "&#39;")
    }
}
