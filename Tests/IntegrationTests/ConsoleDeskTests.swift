import Foundation
import TestSupport
import Testing

@Suite("The console reads like a person")
struct ConsoleDeskTests {
    private static let stream = "stream=production%3Acom.example.magazine"
    private static let customer = "/console/customers/10?as=subscription&\(stream)"

    /// A browser of a server whose customer 10 has access by com.example.books, and had it by com.example.magazine.monthly.
    private static func with(_ test: (TestBundle, ConsoleBrowser, String) async throws -> Void) async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, cookie) = try await server.session()
            try await test(server, browser, cookie)
        }
    }

    private static func put(_ server: TestBundle, _ product: String, _ body: String) async throws {
        let answer = try await server.owner.put(body, to: "/products/\(product)?app=com.example.magazine")
        #expect(answer.status == 200, "\(answer.body)")
    }

    @Test("the title is short, and the id stands beside it to be copied")
    func title() async throws {
        try await Self.with { _, browser, cookie in
            let customer = try await browser.get(Self.customer, cookie: cookie)
            let subscription = try await browser.get("/console/subscriptions/10?\(Self.stream)", cookie: cookie)
            let nothing = try await browser.get(
                "/console/search?q=\(String(repeating: "t", count: 120))&\(Self.stream)", cookie: cookie)

            #expect(customer.body.contains(#"<h1>Customer <code data-copy="Copy the id">10</code></h1>"#))
            #expect(customer.body.contains("<title>Customer 10 – Subledger</title>"))
            #expect(subscription.body.contains(#"<h1>Subscription <code data-copy="Copy the id">10</code></h1>"#))
            #expect(nothing.body.contains("<h1>No id “\(String(repeating: "t", count: 24))…”</h1>"), "\(nothing.body)")
        }
    }

    @Test("the page of a customer that was found by one of several ids has the customer's own name as its title")
    func bestName() async throws {
        try await Self.with { server, browser, cookie in
            _ = try await CustomerRoutesTests.put(server, "u-1", #"{"links":[{"originalTransactionId":"10"}]}"#)
            try await server.isFolded()
            let page = try await browser.get(Self.customer, cookie: cookie)

            #expect(
                page.body.contains(#"<h1>Customer <code data-copy="Copy the id">u-1</code></h1>"#), "\(page.body)")
            #expect(page.body.contains("Id <code>10</code> is one of the customer’s."), "\(page.body)")
        }
    }

    @Test("entitlements with the same reason have one answer, others their own")
    func sameReason() async throws {
        try await Self.with { server, browser, cookie in
            try await Self.put(server, "com.example.books", #"{"entitlements":["books","plus","pro"]}"#)
            let page = try await browser.get(Self.customer, cookie: cookie)

            #expect(page.body.contains("books, plus and pro are active until 10 Dec 2019 17:46"), "\(page.body)")
            #expect(page.body.matches(of: /are active until/).count == 1)
            #expect(page.body.contains("com.example.magazine.monthly is not active"))
            // The texts to copy name each.
            for name in ["books", "plus", "pro"] { #expect(page.body.contains("\(name) is active until"), "\(name)") }
        }
    }

    @Test("a product is shown by its name, with the id beside it; the CSV has the id")
    func names() async throws {
        try await Self.with { server, browser, cookie in
            let before = try await browser.get(Self.customer, cookie: cookie)
            try await Self.put(server, "com.example.books", #"{"name":"All <books>"}"#)
            let after = try await browser.get(Self.customer, cookie: cookie)
            let subscription = try await browser.get("/console/subscriptions/20?\(Self.stream)", cookie: cookie)
            let csv = try await browser.get("\(Self.customer)&csv=history", cookie: cookie)
            let products = try await browser.get("/console/products?\(Self.stream)", cookie: cookie)

            let name = #"All &lt;books&gt; <small class="muted">com.example.books</small>"#
            #expect(!before.body.contains("&lt;books&gt;"))
            #expect(after.body.contains(name) && subscription.body.contains(name), "\(after.body)")
            #expect(csv.body.contains(",com.example.books,") && !csv.body.contains("<books>"), "\(csv.body)")
            #expect(products.body.contains("<td>All &lt;books&gt;</td>"), "\(products.body)")
        }
    }

    @Test("events are filtered by lists, which keep a value that this version does not know")
    func lists() async throws {
        try await Self.with { _, browser, cookie in
            let all = try await browser.get("/console/events?\(Self.stream)", cookie: cookie)
            let apple = try await browser.get(
                "/console/events?source=apple-v1&kind=moon_landing&\(Self.stream)", cookie: cookie)

            #expect(all.body.contains(#"<select name="kind"><option value="" selected>all</option>"#), "\(all.body)")
            #expect(all.body.contains(#"<option value="refund_declined">refund declined</option>"#))
            #expect(all.body.contains(#"<option value="google-api">Google: answer of the API</option>"#))
            #expect(all.body.contains(#"list="types""#) && all.body.contains(#"<datalist id="types"><option value="#))
            #expect(apple.body.contains(#"<option value="moon_landing" selected>moon_landing</option>"#))
            #expect(apple.body.contains(#"<option value="apple-v1" selected>"#))
            #expect(apple.body.contains("No event matches the filter here."), "\(apple.body)")
        }
    }

    @Test("pages say what happened in plain words")
    func words() async throws {
        try await Self.with { _, browser, cookie in
            let overview = try await browser.get("/console?\(Self.stream)", cookie: cookie).body
            let customer = try await browser.get(Self.customer, cookie: cookie).body
            let subscription = try await browser.get("/console/subscriptions/10?\(Self.stream)", cookie: cookie).body

            #expect(overview.contains("<td>access began</td>") && overview.contains("up to date"), "\(overview)")
            #expect(customer.contains("<td>App Store</td>") && customer.contains(">Totals so far<"), "\(customer)")
            #expect(customer.contains("none: its time came") || customer.contains("its time came, see"))
            #expect(subscription.contains("<th scope=\"col\">Ended early</th>"))
            for page in [overview, customer, subscription] {
                for word in ["folded", "Folded", ">opened<", ">closed<", "the clock", ">Line<", ">Cut<", "by then<"] {
                    #expect(!page.contains(word), "\(word)")
                }
            }
        }
    }
}
