import AppStore
import Encoding
import Foundation
import PlayStore
import StoreClient
import TestSupport
import Testing

/// The routes, the feed and the console of a server whose apps file joins an app of each store.
@Suite("Customers of two joined apps over HTTP and in the console")
struct JoinedAppRoutesTests {
    private static let token = "0a1b2c3d-0000-4000-8000-00000000000a"
    private static let start = TestBundle.now.advanced(by: .seconds(-3600))
    private static let end = TestBundle.now.advanced(by: .seconds(86_400))
    private static let hour: Int64 = 3_600_000
    private static let apple = "app=com.example.magazine"
    private static let google = "app=com.example.play"

    /// An app user with a purchase in each store. The one on Google Play was handed in by customer `u-1`.
    private static func withBoth(
        linking: Bool = true, _ test: (TestBundle, HTTPAnswer) async throws -> Void
    ) async throws {
        let store = try ScriptedGoogle()
        store.answer(
            "purchases/subscriptionsv2/tokens/token-1",
            ScriptedGoogle.subscription(
                start: start, end: end,
                more: #""externalAccountIdentifiers":{"obfuscatedExternalAccountId":"\#(token.uppercased())"},"#))
        let app = GoogleApp(
            try ScriptedGoogle.configured().play, credentials: try ScriptedGoogle.account(), joinedWith: V1Body.app)
        try await TestBundle.withServer(store: store, googleApps: [app]) { server async throws in
            let now = TestBundle.now.milliseconds
            let row = V1Body.Row(
                "10", subscription: "10", purchase: now - hour, expires: now + hour, account: token)
            _ = try await server.apple.post(
                try V1Body(type: "INITIAL_BUY", rows: [row], subscription: "10", autoRenew: true).bytes)
            if linking {
                _ = try await server.owner.put(
                    #"{"links":[{"appAccountToken":"\#(token)"}]}"#, to: "/customers/u-1/links?\(apple)")
            }
            try await server.isFolded()
            let customer = linking ? #","customerId":"u-1""# : ""
            let handedIn = try await server.owner.post(
                Array(#"{"purchaseToken":"token-1"\#(customer)}"#.utf8), to: "/purchases?\(google)")
            try await server.isFolded()
            try await test(server, handedIn)
        }
    }

    /// The statements about refund requests that were run so far.
    private static func refundStatements(_ server: TestBundle) -> [Substring] {
        server.logs.text.split(separator: "\n").filter { line in
            line.hasPrefix("trace statement") && line.contains("\"db.statement\": refund_")
        }
    }

    @Test("the page of a customer has what a store asked about a refund in the other app")
    func refunds() async throws {
        try await Self.withBoth { server, _ async throws in
            let pushed = try await server.push(
                ScriptedGoogle.review("GPA.1", token: "r-1", id: "90", at: TestBundle.now))
            try await server.isFolded()
            let (browser, cookie) = try await server.session()
            let page = try await browser.get(
                "/console/customers/u-1?as=link&stream=production%3Acom.example.magazine", cookie: cookie)

            let before = Self.refundStatements(server).count
            let list = try await browser.get(
                "/console/refunds?stream=production%3Acom.example.magazine", cookie: cookie)
            let run = Self.refundStatements(server).dropFirst(before)

            #expect(pushed.status == 200, "\(pushed.body)")
            // One for the requests of all streams, and one for the orders that Google asks about.
            #expect(run.count == 2, "\(run)")
            // The page of one app does not say that nothing waits while another app's store does.
            #expect(
                list.body.contains("No store waits for an answer about production · com.example.magazine."),
                "\(list.body)")
            #expect(
                list.body.contains(
                    #"awaited in <a href="/console/refunds?stream=production%3Acom.example.play">production · com"#),
                "\(list.body)")
            #expect(list.body.matches(of: /as well: 1, the nearest until/).count == 1, "\(list.body)")
            #expect(page.body.contains("Refund requests"), "\(page.body)")
            #expect(
                page.body.contains("/console/refunds/GPA.1?stream=production%3Acom.example.play&amp;store=google"),
                "\(page.body)")
        }
    }

    @Test("what is given to a customer of one app counts through the other one, too")
    func granted() async throws {
        try await Self.withBoth { server, _ async throws in
            let given = try await server.owner.put(
                #"{"entitlement":"plus","until":null,"reason":"press"}"#,
                to: "/customers/u-1/grants/g-1?\(Self.apple)")
            try await server.isFolded()
            let there = try await server.backend.get("/customers/\(Self.token)/entitlements?\(Self.google)")
            let why = try await server.backend.get(
                "/customers/\(Self.token)/explanation?\(Self.google)&entitlement=plus")

            #expect(given.status == 200, "\(given.body)")
            #expect(Self.names(there).contains("plus com.example.magazine"), "\(there.body)")
            #expect(why.body.contains("was given by hand"), "\(why.body)")
        }
    }

    private static func names(_ answer: HTTPAnswer) -> [String] {
        let given = answer.json["entitlements"] as? [[String: Any]] ?? []
        return given.map { "\($0["entitlement"] ?? "") \((($0["joined"] as? [String: Any])?["app"]) ?? "own")" }
    }

    @Test("entitlements, ids, history and explanation through each app are those of both")
    func routes() async throws {
        try await Self.withBoth { server, _ async throws in
            let here = try await server.backend.get("/customers/u-1/entitlements?as=link&\(Self.apple)")
            let there = try await server.backend.get("/customers/\(Self.token)/entitlements?\(Self.google)")
            let ids = try await server.backend.get("/customers/u-1?as=link&\(Self.apple)")
            let history = try await server.backend.get("/customers/u-1/history?as=link&\(Self.apple)")
            let why = try await server.backend.get(
                "/customers/u-1/explanation?as=link&\(Self.apple)&entitlement=premium:monthly")
            let issue = Self.start.advanced(by: .seconds(10_000))
            let content = try await server.backend.post(
                Array(#"{"issues":[{"id":"i-1","publishedAt":"\#(issue)"}],"at":"\#(Self.end)"}"#.utf8),
                to: "/customers/u-1/content?as=link&\(Self.apple)")
            let many = try await server.backend.post(
                Array(#"{"app":"com.example.magazine","customerIds":["u-1","u-2"]}"#.utf8),
                to: "/customers/entitlements")

            #expect(here.body.hasPrefix(#"{"app":"com.example.magazine","joinedApp":"com.example.play","environment""#))
            #expect(
                Self.names(here) == ["com.example.magazine.monthly own", "premium:monthly com.example.play"],
                "\(here.body)")
            #expect(there.json["joinedApp"] as? String == "com.example.magazine", "\(there.body)")
            #expect(
                Self.names(there) == ["com.example.magazine.monthly com.example.magazine", "premium:monthly own"],
                "\(there.body)")
            #expect(ids.json["subscriptions"] as? [String] == ["10", "token-1"], "\(ids.body)")
            #expect(ids.json["joinedSubscriptions"] as? [String] == ["token-1"])
            #expect(history.body.contains(#""app":"com.example.play","originalTransactionId":"token-1""#))
            #expect(content.body.contains(#""rule":"inside","app":"com.example.play""#), "\(content.body)")
            #expect(why.body.contains(#""app":"com.example.play","originalTransactionId":"token-1""#), "\(why.body)")
            #expect(
                many.body.contains(#""joined":{"app":"com.example.play","subscriptions":["token-1"]"#), "\(many.body)")
            #expect(many.body.contains(#"{"customerId":"u-2","unknown":true}"#))
        }
    }

    @Test("the response to a purchase that is handed in has the entitlements of the customer in both stores")
    func handIn() async throws {
        try await Self.withBoth { _, handedIn async throws in
            #expect(handedIn.status == 200, "\(handedIn.body)")
            #expect(
                Self.names(handedIn) == ["com.example.magazine.monthly com.example.magazine", "premium:monthly own"],
                "\(handedIn.body)")
        }
    }

    @Test("a change stays in its stream's feed, and shows the customer as the routes do")
    func changes() async throws {
        try await Self.withBoth { server, _ async throws in
            for (app, id, other) in [
                (Self.apple, "10", "com.example.play"), (Self.google, "token-1", "com.example.magazine"),
            ] {
                let feed = try await server.backend.get("/changes?\(app)")
                let changes = feed.json["changes"] as? [[String: Any]] ?? []
                let customers = changes.compactMap { $0["customer"] as? [String: Any] }
                let last = try #require(customers.last, "\(feed.body)")

                #expect(changes.allSatisfy { $0["originalTransactionId"] as? String == id }, "\(feed.body)")
                #expect(last["subscriptions"] as? [String] == ["10", "token-1"], "\(feed.body)")
                #expect(last["backendCustomerIds"] as? [String] == ["u-1"], "\(feed.body)")
                let given = last["entitlements"] as? [[String: Any]] ?? []
                #expect(given.map { $0["active"] as? Bool } == [true, true])
                #expect(given.compactMap { ($0["joined"] as? [String: Any])?["app"] as? String } == [other])
            }
        }
    }

    @Test("the console's page of a customer shows the subscriptions of both stores, each with links to its stream")
    func console() async throws {
        try await Self.withBoth { server, _ async throws in
            let (browser, cookie) = try await server.session()
            let path = "/console/customers/u-1?stream=production%3Acom.example.magazine&as=link"
            let page = try await browser.get(path, cookie: cookie)
            let table = try await browser.get("\(path)&csv=subscriptions", cookie: cookie)

            #expect(page.status == 200)
            #expect(page.body.contains("premium:monthly is active until"))
            #expect(page.body.contains("com.example.magazine.monthly is active until"))
            #expect(page.body.contains("/console/subscriptions/10?stream=production%3Acom.example.magazine"))
            #expect(page.body.contains("/console/subscriptions/token-1?stream=production%3Acom.example.play"))
            #expect(page.body.contains("/console/events/1?stream=production%3Acom.example.play"))
            #expect(!page.body.contains("/console/subscriptions/token-1?stream=production%3Acom.example.magazine"))
            #expect(table.body.contains("com.example.play") && table.body.contains("com.example.magazine"))
        }
    }

    @Test("apps that are not joined any longer answer as before")
    func unjoined() async throws {
        try await Self.withBoth(linking: false) { server, _ async throws in
            let path = "/customers/\(Self.token)/entitlements?as=account"
            let joined = try await server.backend.get(path)
            _ = try await server.sql("delete from subledger.app_join returning app")
            let apart = try await server.backend.get(path)
            let here = try await server.backend.get("\(path)&\(Self.apple)")

            #expect(joined.status == 200 && Self.names(joined).count == 2, "\(joined.body)")
            #expect(apart.status == 409 && apart.json["field"] as? String == "app", "\(apart.body)")
            #expect(Self.names(here) == ["com.example.magazine.monthly own"])
            #expect(here.json["joinedApp"] == nil)
        }
    }
}
