import AppStore
import Encoding
import EventLog
import Foundation
import Postgres
import Subscriptions
import TestSupport
import Testing

@Suite("Pages of the console")
struct ConsolePageTests {
    static let stream = "stream=production%3Acom.example.magazine"

    /// A server whose log has every story of the simulator.
    static func withEveryStory(_ test: (TestBundle, ConsoleBrowser, String) async throws -> Void) async throws {
        let database = try await TestCluster.freshDatabase(from: try await SimulatedLog.everyStory.value)
        try await TestBundle.withServer(roots: SimulatedLog.roots, database: database) { server in
            let (browser, cookie) = try await server.session()
            try await test(server, browser, cookie)
        }
    }

    @Test(
        "every id of a purchase leads to its customer or event",
        arguments: [
            ("select original_transaction_id from subledger.subscription order by 1 limit 1", "/console/customers/"),
            (
                """
                select transaction_id from subledger.transaction where transaction_id <> original_transaction_id
                order by 1 limit 1
                """, "/console/customers/"
            ),
            (
                """
                select web_order_line_item_id from subledger.transaction where web_order_line_item_id is not null
                order by 1 limit 1
                """, "/console/customers/"
            ),
            (
                "select id from subledger.customer_identity where kind = 'app_transaction' order by 1 limit 1",
                "/console/customers/"
            ),
            (
                """
                select encode(dedupe_key, 'hex') from subledger.event where octet_length(dedupe_key) = 16
                order by 1 limit 1
                """, "/console/events/"
            ),
            (
                """
                select encode(dedupe_key, 'hex')::uuid::text from subledger.event where octet_length(dedupe_key) = 16
                order by 1 limit 1
                """, "/console/events/"
            ),
            ("select max(position)::text from subledger.event", "/console/events/"),
        ] as [(StaticString, String)])
    func search(_ id: StaticString, _ expected: String) async throws {
        try await Self.withEveryStory { server, browser, cookie in
            let id = try #require(try await server.sql(id).first)
            let page = try await browser.get("/console/search?q=%20\(id)%20", cookie: cookie)

            #expect(page.status == 303, "\(id)")
            #expect(page.location?.hasPrefix(expected) == true, "\(id) \(page.location ?? "")")
            let target = try await browser.get(page.location ?? "", cookie: cookie)
            #expect(target.status == 200)
        }
    }

    @Test("an id of a customer that is a notification's as well lists both")
    func searchOfTwo() async throws {
        try await Self.withEveryStory { server, browser, cookie in
            // The simulator's account tokens are UUIDs of notifications, too.
            let id = try #require(
                try await server.sql(
                    "select upper(id) from subledger.customer_identity where kind = 'account' order by 1 limit 1"
                ).first)
            let page = try await browser.get("/console/search?q=\(id)", cookie: cookie)

            #expect(page.status == 200)
            #expect(page.body.contains("/console/customers/\(id.lowercased())"), "\(page.body)")
            #expect(page.body.contains("/console/events/"))
        }
    }

    @Test("the digests of receipts and of purchase tokens lead to their event and customer")
    func digests() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let receipt = try #require(
                try await server.sql(
                    """
                    insert into subledger.receipt (
                      receipt_id, app, received_at, receipt_sha256, receipt, state, attempts, asked_at, registered,
                      stream_id, position
                    )
                    values (
                      gen_random_uuid(), 'com.example.magazine', now(), sha256('a receipt'), 'a receipt', 'answered', 1,
                      now(), 'new', 1, 2
                    )
                    returning encode(receipt_sha256, 'hex')
                    """
                ).first)
            // Tokens of Google Play are ids of subscriptions as they are; the second continues the first.
            let tokens = try await server.sql(
                """
                with continued as (
                  insert into subledger.subscription (stream_id, original_transaction_id, position, facts)
                  values (1, '31', 2, '{"transactions":[],"renewals":[],"line":{"originalTransactionId":"30","position":2}}')
                )
                insert into subledger.google_purchase (app, token_sha256, purchase_token, environment, noticed_at)
                select 'com.example.magazine', sha256(convert_to(token, 'UTF8')), token, 'production', now()
                from unnest(array['30', '31', 'never answered']) as token
                returning encode(token_sha256, 'hex')
                """)
            let (browser, cookie) = try await server.session()

            let event = try await browser.get("/console/search?q=\(receipt.uppercased())", cookie: cookie)
            #expect(event.location?.hasPrefix("/console/events/2?") == true, "\(event.body)")
            for token in tokens.prefix(2) {
                let customer = try await browser.get("/console/search?q=\(token)", cookie: cookie)
                #expect(
                    customer.location?.hasPrefix("/console/customers/30?") == true,
                    "\(customer.location ?? customer.body)")
            }
            let none = try await browser.get("/console/search?q=\(tokens[2])", cookie: cookie)
            #expect(none.status == 200)
            #expect(none.body.contains("Nobody and nothing has this id"))
            let line = try await browser.get("/console/subscriptions/31?\(Self.stream)", cookie: cookie)
            #expect(line.location == "/console/subscriptions/30?\(Self.stream)", "\(line.body)")
        }
    }

    @Test("every customer, subscription and event of every story has a page, below 100 KB")
    func everything() async throws {
        try await Self.withEveryStory { server, browser, cookie in
            let here = "stream=sandbox%3Acom.example.magazine"
            let now = try #require(Instant(iso8601: "2027-01-01T00:00:00Z"))
            for id in try await server.sql("select original_transaction_id from subledger.subscription") {
                for path in ["customers/\(id)?as=subscription&\(here)", "subscriptions/\(id)?\(here)"] {
                    let page = try await browser.get("/console/\(path)&at=\(now)&span=all", cookie: cookie)
                    #expect(page.status == 200, "\(path)")
                    #expect(page.body.utf8.count < 100_000, "\(path)")
                    #expect(page.body.contains("aria-label=\"Event "), "\(path)")
                }
            }
            for position in try await server.sql("select position::text from subledger.event where position <= 60") {
                let page = try await browser.get("/console/events/\(position)?\(here)", cookie: cookie)
                #expect(page.status == 200, "\(position)")
                #expect(page.body.utf8.count < 100_000)
            }
            for path in [
                "", "/events", "/products", "/system", "/figures/active", "/figures/mrr", "/figures/movements",
                "/figures/retention", "/figures/movements?rows=yes&from=2026-01-01&to=2026-12-31",
            ] {
                let page = try await browser.get(
                    "/console\(path)\(path.contains("?") ? "&" : "?")\(here)", cookie: cookie)
                #expect(page.status == 200, "\(path)")
                #expect(page.body.utf8.count < 100_000, "\(path)")
                #expect(page.body.contains("class=\"sandbox\""), "\(path)")
                #expect(!page.body.contains("does not answer"), "\(path)")
            }
        }
    }

    @Test("both clocks: what was true then, and what was known then")
    func clocks() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            func page(_ query: String) async throws -> String {
                try await browser.get("/console/customers/10?as=subscription&\(Self.stream)\(query)", cookie: cookie)
                    .body
            }

            let now = try await page("")
            #expect(now.contains("com.example.books is active until 10 Dec 2019 17:46"))
            #expect(now.contains("com.example.magazine.monthly is not active</strong>, it ended on <time"))
            #expect(now.contains(">2 Oct 2019 07:06:40 UTC</time>"))
            // The form writes times with a space, and leaves fields empty.
            let earlier = try await page("&at=2019-09-01+00%3A00&knownAt=")
            #expect(earlier.contains("com.example.magazine.monthly is active until"))
            #expect(!earlier.contains("com.example.books is active"))
            // The events were received at the server's clock, 2019-11-08.
            let unknown = try await page("&knownAt=2019-11-01")
            #expect(unknown.contains("com.example.books is not active</strong>"))
            #expect(unknown.contains("by today’s knowledge it is active until 10 Dec 2019 17:46:40 UTC."))
            #expect(unknown.contains("class=\"later\""))
            #expect(!now.contains("class=\"later\""))
            // What is known then is what is known now.
            #expect(try await !page("&knownAt=2030-01-01").contains("As it was known"))
            // A distance from today is only written about today.
            #expect(now.contains("(in ") && now.contains(" ago)"))
            #expect(!earlier.contains("active until 2 Oct 2019 07:06:40 UTC</time></strong><span"))
        }
    }

    @Test("a time that nobody chose stays out of its field, so that filling in the other one asks about one time")
    func emptyClock() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            func field(_ query: String) async throws -> String? {
                let page = try await browser.get(
                    "/console/customers/10?as=subscription&\(Self.stream)\(query)", cookie: cookie)
                return page.body.firstMatch(of: /<input name="at" type="text" ([^>]*) autocomplete/).map {
                    String($0.1)
                }
            }

            #expect(try await field("") == #"placeholder="now" value="""#)
            #expect(try await field("&knownAt=2019-11-01") == #"placeholder="the same time" value="""#)
            #expect(try await field("&at=2019-11-02") == #"placeholder="now" value="2019-11-02 00:00:00""#)
        }
    }

    @Test("tables contain only what was known then, and links lead to the same two times")
    func knownTables() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let times = "at=2019-11-08T00%3A00%3A00Z&knownAt=2019-11-01T00%3A00%3A00Z"
            let now = try await browser.get("/console/customers/10?as=subscription&\(Self.stream)", cookie: cookie).body
            let past = try await browser.get(
                "/console/customers/10?as=subscription&\(Self.stream)&\(times)", cookie: cookie
            ).body

            #expect(now.contains("href=\"/console/subscriptions/10?\(Self.stream)\""))
            let link = "/console/subscriptions/10?\(Self.stream)&\(times)"
            #expect(past.contains("href=\"\(link.replacing("&", with: "&amp;"))\""), "\(past)")
            for empty in ["No subscription was known.", "Nothing began or ended by then"] {
                #expect(past.contains(empty), "\(past)")
                #expect(!now.contains(empty))
            }
            let subscription = try await browser.get(
                "/console/subscriptions/10?\(Self.stream)&\(times)", cookie: cookie
            ).body
            #expect(subscription.contains("No event."))
        }
    }

    @Test("the page of a subscription names its customer")
    func owner() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            _ = try await CustomerRoutesTests.put(server, "u%2F1", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try await server.isFolded()

            let page = try await browser.get("/console/subscriptions/10?\(Self.stream)", cookie: cookie).body
            let owner = page.firstMatch(of: /Whose it is: (.*?)<a href="(.*?)">(.*?)<\/a>/)
            #expect(owner?.1 == "your backend’s customer ")
            #expect(owner?.2 == "/console/customers/10?\(Self.stream)&amp;as=subscription")
            #expect(owner?.3 == "u/1")
        }
    }

    @Test("canaries in every id come out as text")
    func canaries() async throws {
        let canary = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
        try await TestBundle.withServer { server in
            _ = try await server.apple.post(
                try V1Body(
                    type: "INITIAL_BUY",
                    rows: [
                        V1Body.Row(
                            canary, subscription: canary, product: canary, purchase: 1_560_000_000_000,
                            expires: 1_576_000_000_000)
                    ], subscription: canary, autoRenew: true
                ).bytes)
            try await server.isFolded()
            let encoded = try #require(canary.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            _ = try await server.owner.put(
                "{\"links\":[{\"originalTransactionId\":\"\(canary.replacing("\"", with: "\\\""))\"}]}",
                to: "/customers/\(encoded)/links?app=com.example.magazine")
            try await server.isFolded()
            let (browser, cookie) = try await server.session(.admin)

            for path in [
                "", "/events", "/events/1", "/events/2", "/products?edit=\(encoded)", "/system", "/deliveries",
                "/deliveries/\(encoded)",
                "/search?q=\(encoded)", "/search?q=no\(encoded)", "/customers/\(encoded)", "/customers/no\(encoded)",
                "/customers/\(encoded)?as=link", "/subscriptions/\(encoded)", "/subscriptions/no\(encoded)",
                "/events?type=\(encoded)", "/figures/\(encoded)", "/figures/active?rows=yes", "/\(encoded)",
                "/customers/1?stream=\(encoded)", "/customers/1?at=\(encoded)",
            ] {
                let page = try await browser.get("/console\(path)", cookie: cookie)
                #expect(page.status < 500, "\(path)")
                #expect(!page.body.contains("<img"), "\(path)")
                #expect(!page.body.contains("<script>"), "\(path)")
                #expect(!page.body.contains("'>"), "\(path)")
                if let table = page.body.firstMatch(of: /csv=([a-z]+)/) {
                    let csv = try await browser.get(
                        "/console\(path)\(path.contains("?") ? "&" : "?")csv=\(table.1)", cookie: cookie)
                    #expect(csv.headers["content-type"] == "text/csv; charset=utf-8", "\(path)")
                    #expect(csv.headers["content-disposition"]?.hasPrefix("attachment") == true)
                }
            }
            let login = try await browser.get("/console/login?back=\(encoded)&ticket=\(encoded)")
            #expect(!login.body.contains("<img"))
        }
    }

    @Test("an id that is in two apps is listed with both; one in sandbox only is found from production")
    func severalApps() async throws {
        let other = "com.example.other"
        let apps = [V1Body.app, other].map { App(bundleId: $0, sharedSecrets: [V1Body.secret]) }
        try await TestBundle.withServer(apps: apps) { server in
            var elsewhere = V1Body(number: 1)
            elsewhere.fields["bid"] = other
            var tester = V1Body(number: 2)
            tester.fields["environment"] = "Sandbox"
            var receipt = try #require(tester.fields["unified_receipt"] as? [String: Any])
            receipt["environment"] = "Sandbox"
            tester.fields["unified_receipt"] = receipt
            for body in [V1Body(number: 1), elsewhere, tester] { _ = try await server.apple.post(try body.bytes) }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            let both = try await browser.get("/console/search?q=2000000000000001", cookie: cookie)
            #expect(both.status == 200)
            #expect(both.body.contains("stream=production%3Acom.example.other"))
            #expect(both.body.contains("stream=production%3Acom.example.magazine"))
            #expect(both.body.matches(of: /<td>com.example.magazine.monthly<\/td><td>expired<\/td>/).count == 2)
            let sandbox = try await browser.get("/console/search?q=2000000000000002", cookie: cookie)
            #expect(sandbox.location?.contains("stream=sandbox%3Acom.example.magazine") == true)
            let other = try await browser.get("/console/customers/2000000000000002?\(Self.stream)", cookie: cookie)
            #expect(other.status == 404)
            #expect(other.body.contains("stream=sandbox%3Acom.example.magazine"))
            let none = try await browser.get("/console/search?q=nobody", cookie: cookie)
            #expect(none.status == 200)
            #expect(none.body.contains("of any app (3 searched)"), "\(none.body)")
            let shown = try #require(none.body.range(of: "<main")?.upperBound)
            let end = try #require(none.body.range(of: "</main>")?.lowerBound)
            for word in ["stream", "digest", "position"] {
                #expect(!none.body[shown..<end].contains(word), "\(word)")
            }
            let sign = try await browser.get("/console/search?q=%232000000000000002", cookie: cookie)
            #expect(sign.location == sandbox.location, "\(sign.body)")
        }
    }

    @Test("a customer's page says what is active where the same id is known elsewhere")
    func activeElsewhere() async throws {
        let other = "com.example.other"
        let apps = [V1Body.app, other].map { App(bundleId: $0, sharedSecrets: [V1Body.secret]) }
        try await TestBundle.withServer(apps: apps) { server in
            func body(_ product: String, expires: Int64) -> V1Body {
                let row = V1Body.Row(
                    "500", subscription: "500", product: product, purchase: 1_570_000_000_000, expires: expires)
                return V1Body(type: "INITIAL_BUY", rows: [row], subscription: "500", autoRenew: true)
            }
            var elsewhere = body("com.example.books", expires: 1_576_000_000_000)
            elsewhere.fields["bid"] = other
            let past = body("com.example.magazine.monthly", expires: 1_572_000_000_000)
            for each in [past, elsewhere] { _ = try await server.apple.post(try each.bytes) }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            func page(_ app: String) async throws -> String {
                try await browser.get(
                    "/console/customers/500?as=subscription&stream=production%3A\(app)", cookie: cookie
                ).body
            }

            let here = try await page(V1Body.app)
            let there = try await page(other)
            #expect(here.contains(", where <strong>com.example.books</strong> is active"), "\(here)")
            #expect(there.contains("The same id is also known elsewhere: "), "\(there)")
            #expect(!there.contains(", where <strong>"))
        }
    }

    @Test("an id of several kinds asks which one is meant")
    func severalKinds() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            _ = try await CustomerRoutesTests.put(server, "10", #"{"links":[{"originalTransactionId":"30"}]}"#)
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/customers/10?\(Self.stream)", cookie: cookie)

            #expect(page.status == 409)
            #expect(page.body.contains("as=link"))
            #expect(page.body.contains("as=subscription"))
        }
    }

    @Test("a customer with 500 purchases has a page below 100 KB, with joined marks that lead to closer spans")
    func manyPurchases() async throws {
        try await TestBundle.withServer { server in
            let day: Int64 = 86_400_000
            for part in 0..<5 {
                let rows = (0..<100).map { number in
                    let start = 1_500_000_000_000 + Int64(part * 100 + number) * day
                    return V1Body.Row(
                        "\(70_000 + part * 100 + number)", subscription: "70000", purchase: start, expires: start + day)
                }
                _ = try await server.apple.post(
                    try V1Body(type: "RENEWAL", rows: rows, subscription: "70000", autoRenew: true).bytes)
            }
            try await server.isFolded()
            let (browser, cookie) = try await server.session()

            let page = try await browser.get("/console/customers/70000?\(Self.stream)", cookie: cookie)
            #expect(page.status == 200)
            #expect(page.body.utf8.count < 100_000)
            let joined = try #require(page.body.firstMatch(of: /href="([^"]*)" aria-label="[0-9]+ periods"/))
            let closer = try await browser.get(
                String(joined.1).replacing("&amp;", with: "&"), cookie: cookie)
            #expect(closer.status == 200)
            #expect(closer.body.contains("All time") && closer.body.contains(">Latest</a>"))
            #expect(closer.body.contains("aria-label=\"Paid "), "\(joined.1)")
        }
    }

    @Test("a page whose tables cannot be read says so without naming them, and the next one is shown")
    func unreadable() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            #expect(try await browser.get("/console", cookie: cookie).status == 200)
            let owner = try await TestCluster.connect(server.database)
            // The reader loses its tables while the session is still found, as in the middle of a page.
            try await owner.script(
                "alter table subledger.stream rename to stream_away", deadline: .now + .seconds(20))
            let page = try await browser.get("/console/customers/10?\(Self.stream)", cookie: cookie)
            try await owner.script(
                "alter table subledger.stream_away rename to stream", deadline: .now + .seconds(20))
            await owner.close()

            #expect(page.status == 500)
            #expect(page.body.contains("Not available"))
            #expect(!page.body.contains("subledger.stream"))
            #expect(try await browser.get("/console/customers/10?\(Self.stream)", cookie: cookie).status == 200)
        }
    }

    @Test("a misspelt parameter is refused with the names of those that the page has")
    func misspeltParameter() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get(
                "/console/customers/10?as=subscription&knowAt=2019-11-01", cookie: cookie)

            #expect(page.status == 400)
            #expect(page.body.contains("The page has no parameter knowAt. It has: as, at, knownAt,"), "\(page.body)")
            #expect(try await browser.get("/console/nowhere?a=b", cookie: cookie).status == 404)
        }
    }

    @Test("an address that no page has is answered with a page, and not as a program is")
    func noPage() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            for path in ["nowhere", "customers", "customers/10/nowhere", "customers/10/grants", "a/b/c/d/e"] {
                let page = try await browser.get("/console/\(path)", cookie: cookie)

                #expect(page.status == 404 || page.status == 405, "\(path) \(page.status)")
                #expect(page.headers["content-type"] == "text/html; charset=utf-8", "\(path) \(page.body)")
                #expect(page.body.contains("No such page") && page.body.contains("href=\"/console"), "\(path)")
            }
        }
    }

    @Test("a value that cannot be read is named as its field is, with a link to the page without it")
    func badTime() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get(
                "/console/customers/10?as=subscription&\(Self.stream)&at=soon", cookie: cookie)

            #expect(page.status == 400 && page.body.contains("“True at” must be a time"), "\(page.body)")
            let link = "/console/customers/10?as=subscription&amp;\(Self.stream)"
            #expect(page.body.contains("<a href=\"\(link)\">The page as it is now</a>"), "\(page.body)")
        }
    }

    @Test("a position whose event is skipped says why it has no effect")
    func skipped() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            _ = try await server.sql(
                """
                insert into subledger.projector_skip (stream_id, position, reason, skipped_by)
                values (1, 2, 'broken <b>', 'an operator') returning reason
                """)
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/events/2?\(Self.stream)", cookie: cookie)

            #expect(page.body.contains("Skipped by an operator"))
            #expect(page.body.contains("broken &lt;b&gt;"))
        }
    }

    @Test("colours and keys are remembered")
    func preferences() async throws {
        try await TestBundle.withServer { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/system", cookie: cookie)
            let csrf = try #require(page.field("csrf"))
            let dark = try await browser.post(
                "/console/preferences", [("csrf", csrf), ("theme", "dark"), ("back", "/console/system")], cookie: cookie
            )
            #expect(dark.location == "/console/system")
            let kept = try #require(dark.headers["set-cookie"]).prefix { $0 != ";" }
            let off = try await browser.post(
                "/console/preferences", [("csrf", csrf), ("keys", "off")], cookie: "\(cookie); \(kept)")
            let both = try #require(off.headers["set-cookie"]).prefix { $0 != ";" }
            let after = try await browser.get("/console/system", cookie: "\(cookie); \(both)")

            #expect(page.body.contains("class=\"theme-system\""))
            #expect(page.body.contains("data-key=\"on\""))
            #expect(after.body.contains("class=\"theme-dark\""))
            #expect(!after.body.contains("data-key=\"on\""))
        }
    }
}
