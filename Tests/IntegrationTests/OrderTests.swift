import Encoding
import EventLog
import Foundation
import Simulation
import Subscriptions
import TestSupport
import Testing

@Suite("An order number of a customer leads to the purchase")
struct OrderTests {
    private static let app = TransactionLookupTests.app

    /// What a search answers, with the answer to its form if it has one.
    private static func ask(
        _ number: String, _ browser: ConsoleBrowser, _ cookie: String
    ) async throws -> (page: ConsoleBrowser.Page, answer: ConsoleBrowser.Page) {
        let page = try await browser.get("/console/search?q=\(number)", cookie: cookie)
        let form = page.body.components(separatedBy: "<form").first { $0.contains("Ask ") } ?? ""
        let fields = form.matches(of: /name="([a-z]+)" value="([^"]*)"/).map {
            (String($0.output.1), String($0.output.2))
        }
        return (page, try await browser.post("/console/search", fields, cookie: cookie))
    }

    private static func events(_ server: TestBundle) async throws -> [String] {
        try await server.sql("select concat_ws(' ', source, kind) from subledger.event order by position")
    }

    @Test(
        "texts that stores write as order numbers, and others",
        arguments: [
            ("MK5TTTVWJH", "apple MK5TTTVWJH"), (" mk5tttvwjh\n", "apple MK5TTTVWJH"),
            ("GPA.3345-1234-5678-90123", "google GPA.3345-1234-5678-90123"),
            ("gpa.3345-1234-5678-90123..7", "google GPA.3345-1234-5678-90123..7"),
            ("2000000123456789", nil), ("GPA.", nil), ("GPA.x", nil), ("MK5TT", nil), ("MK5TTTV-JH", nil), ("", nil),
            (String(repeating: "M", count: 65), nil), ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", nil),
        ] as [(String, String?)])
    func numbers(text: String, expected: String?) {
        #expect(OrderNumber(text).map { "\($0.store.rawValue) \($0.text)" } == expected)
    }

    @Test("Apple is asked in the console, its answer is stored once, and the customer is shown")
    func apple() async throws {
        try await TransactionLookupTests.with { bundle in
            let (browser, cookie) = try await bundle.server.session(.operate)
            let number = try #require(SimulatedOrder.number(of: bundle.id))

            let first = try await Self.ask(number.lowercased(), browser, cookie)
            let stored = try await Self.events(bundle.server)
            let again = try await Self.ask(number, browser, cookie)
            let customer = try await browser.get(try #require(first.answer.location), cookie: cookie)

            // What was paid is in the history.
            #expect(
                customer.body.matches(of: /<td class="number">[0-9.]+ [A-Z]{3}<\/td>/).count == 1, "\(customer.body)")
            #expect(first.page.body.contains("Ask Apple about \(number)"), "\(first.page.body)")
            #expect(first.answer.status == 303, "\(first.answer.body)")
            #expect(
                first.answer.location
                    == "/console/customers/\(bundle.id)?stream=production%3A\(Self.app)&as=subscription&found=\(number)"
                    + "&purchase=\(bundle.id)")
            // The page says which purchase the order is.
            #expect(
                customer.body.contains("You searched for <code>\(number)</code>: <time datetime="), "\(customer.body)")
            #expect(
                customer.body.contains(
                    /, access ended on [^<.]* UTC\. It is part of subscription <a href="\/console\/subscriptions\//),
                "\(customer.body)")
            #expect(customer.status == 200 && customer.body.contains(bundle.id), "\(customer.body)")
            #expect(again.answer.status == 303)
            #expect(stored.count == 1 && stored[0].hasPrefix("apple-api"), "\(stored)")
            #expect(try await Self.events(bundle.server) == stored)
        }
    }

    @Test("an order that Apple does not have, one it refuses, and silence each have their sentence; nothing is stored")
    func appleFailures() async throws {
        try await TransactionLookupTests.with { bundle in
            let (browser, cookie) = try await bundle.server.session(.operate)
            let number = try #require(SimulatedOrder.number(of: bundle.id))

            let unknown = try await Self.ask("MK5TTTVWJH", browser, cookie).answer
            bundle.store.api.inject(.error(4_000_000))
            let refused = try await Self.ask(number, browser, cookie).answer
            bundle.store.api.inject(.otherApp)
            let other = try await Self.ask(number, browser, cookie).answer
            bundle.store.api.inject(.overloaded, requests: 20)
            let silent = try await Self.ask(number, browser, cookie).answer

            #expect(unknown.status == 404, "\(unknown.body)")
            #expect(
                unknown.body.contains(
                    "The App Store has no order MK5TTTVWJH of com.example.app: it says the same of another developer&#39;s"
                ),
                "\(unknown.body)")
            #expect(refused.body.contains("The App Store does not accept \(number)"), "\(refused.body)")
            #expect(other.body.contains("is not signed by the App Store for com.example.app"), "\(other.body)")
            #expect(silent.body.contains("so it is not known whether order \(number) exists"), "\(silent.body)")
            #expect(silent.status == 503 && !silent.body.contains("has no order"))
            #expect(try await Self.events(bundle.server).isEmpty)
        }
    }

    @Test("a reader sees that Apple could be asked, and cannot ask")
    func reader() async throws {
        try await TransactionLookupTests.with { bundle in
            let (browser, cookie) = try await bundle.server.session()
            let number = try #require(SimulatedOrder.number(of: bundle.id))
            let page = try await browser.get("/console/search?q=\(number)", cookie: cookie)
            let sent = try await browser.post(
                "/console/search", [("csrf", try #require(page.field("csrf"))), ("q", number)], cookie: cookie)

            #expect(page.body.contains("Asking needs a token of scope operate"), "\(page.body)")
            #expect(!page.body.contains("Ask Apple"))
            #expect(sent.status == 403, "\(sent.body)")
            #expect(bundle.requests == 0)
        }
    }

    @Test("an order of Google Play is found in the ledger, or Google is asked for its purchase")
    func google() async throws {
        let store = try ScriptedGoogle()
        let start = TestBundle.now.advanced(by: .seconds(-3600))
        let end = TestBundle.now.advanced(by: .seconds(86_400 * 30))
        let order = "GPA.3345-1234-5678-90123"
        store.answer(
            "orders/\(order)", ScriptedGoogle.Reply(body: #"{"orderId":"\#(order)","purchaseToken":"token-1"}"#))
        store.answer(
            "purchases/subscriptionsv2/tokens/token-1",
            ScriptedGoogle.subscription(order: order, start: start, end: end))
        store.answer("orders/GPA.4", ScriptedGoogle.error(400, "invalid"))
        store.answer("orders/GPA.5", ScriptedGoogle.Reply(body: "{}"))
        try await TestBundle.withServer(
            apps: [], store: store, googleApps: [try ScriptedGoogle.configured()]
        ) { server async throws in
            let (browser, cookie) = try await server.session(.operate)
            let asked = try await Self.ask(order, browser, cookie)
            let questions = store.requests
            let known = try await browser.get("/console/search?q=\(order.lowercased())", cookie: cookie)
            let shown = try await browser.get(try #require(known.location), cookie: cookie)
            var problems: [String] = []
            for number in ["GPA.2", "GPA.4", "GPA.5"] {
                problems.append(try await Self.ask(number, browser, cookie).answer.body)
            }

            #expect(asked.answer.status == 303, "\(asked.answer.body)")
            #expect(asked.page.body.contains("Ask Google about \(order)"))
            #expect(asked.answer.location?.contains("as=subscription") == true)
            #expect(known.status == 303 && known.location == asked.answer.location, "\(known.body)")
            #expect(
                shown.body.contains("You searched for <code>\(order)</code>: <time datetime="), "\(shown.body)")
            #expect(questions.prefix(2) == ["GET orders/\(order)", "GET purchases/subscriptionsv2/tokens/token-1"])
            #expect(problems[0].contains("Google Play has no order GPA.2 of com.example.play"), "\(problems[0])")
            #expect(problems[1].contains("it may be another developer"), "\(problems[1])")
            #expect(problems[2].contains("and names no purchase of it"), "\(problems[2])")
        }
    }

    @Test("a backend finds the purchases by HTTP: Apple's are asked for, Google's are known or asked for")
    func route() async throws {
        try await TransactionLookupTests.with { bundle in
            let support = try await bundle.server.client(with: .operate)
            let number = try #require(SimulatedOrder.number(of: bundle.id))
            let first = try await support.post([], to: "/orders/\(number.lowercased())")
            let again = try await support.post([], to: "/orders/\(number)?app=\(Self.app)")
            let unknown = try await support.post([], to: "/orders/MK5TTTVWJH")
            let other = try await support.post([], to: "/orders/\(number)?app=com.example.other")
            let noNumber = try await support.post([], to: "/orders/\(bundle.id)")
            bundle.store.api.inject(.overloaded, requests: 20)
            let silent = try await support.post([], to: "/orders/\(number)")
            let purchases = first.json["purchases"] as? [[String: Any]]

            #expect(first.status == 200, "\(first.body)")
            #expect(first.json["orderId"] as? String == number && first.json["store"] as? String == "apple")
            #expect(purchases?.count == 1 && purchases?.first?["originalTransactionId"] as? String == bundle.id)
            #expect(purchases?.first?["app"] as? String == Self.app)
            #expect(purchases?.first?["position"] as? Int == 1 && first.json["projected"] as? Bool == true)
            #expect(again.status == 200 && !again.body.contains("position"), "\(again.body)")
            #expect(unknown.status == 404 && unknown.body.contains("the App Store has no order MK5TTTVWJH"))
            #expect(other.status == 404 && other.body.contains("no app with a key for the App Store is configured by"))
            #expect(noNumber.status == 400 && noNumber.json["field"] as? String == "orderId", "\(noNumber.body)")
            #expect(silent.status == 503 && silent.body.contains("it is not known whether"), "\(silent.body)")
            #expect(try await Self.events(bundle.server).count == 1)
        }
    }

    /// A store that has an order of a subscription, and its number.
    private static func googleWithOrder() throws -> (ScriptedGoogle, String) {
        let store = try ScriptedGoogle()
        let start = TestBundle.now.advanced(by: .seconds(-3600))
        let order = "GPA.3345-1234-5678-90123"
        store.answer(
            "orders/\(order)", ScriptedGoogle.Reply(body: #"{"orderId":"\#(order)","purchaseToken":"token-1"}"#))
        store.answer(
            "purchases/subscriptionsv2/tokens/token-1",
            ScriptedGoogle.subscription(
                order: order, start: start, end: TestBundle.now.advanced(by: .seconds(86_400 * 30))))
        return (store, order)
    }

    @Test("an order of Google Play by HTTP is asked for once, and numbers beyond the rate are refused")
    func googleRoute() async throws {
        let (store, order) = try Self.googleWithOrder()
        try await TestBundle.withServer(
            apps: [], store: store, googleApps: [try ScriptedGoogle.configured()]
        ) { server async throws in
            let support = try await server.client(with: .operate)
            let (browser, cookie) = try await server.session(.operate)
            let asked = try await support.post([], to: "/orders/\(order)")
            let questions = store.requests.count
            let known = try await support.post([], to: "/orders/\(order)")
            let after = store.requests.count
            let apple = try await support.post([], to: "/orders/MK5TTTVWJH")
            var (statuses, knownStatuses): (Set<Int>, Set<Int>) = ([], [])
            for number in 0..<200 where !statuses.contains(429) {
                statuses.insert(try await support.post([], to: "/orders/GPA.\(number)").status)
            }
            let all = store.requests.count - after
            for _ in 0..<70 { knownStatuses.insert(try await support.post([], to: "/orders/\(order)").status) }
            var beyond = try await Self.ask("GPA.9", browser, cookie).answer
            // Meanwhile the rate lets a few more be asked.
            for _ in 0..<100 where beyond.status != 429 { beyond = try await Self.ask("GPA.9", browser, cookie).answer }

            #expect(asked.status == 200 && asked.json["projected"] as? Bool == true, "\(asked.body)")
            #expect(known.status == 200 && after == questions, "\(known.body)")
            #expect(known.body.contains(#""originalTransactionId":"token-1""#) && !known.body.contains("position"))
            #expect(apple.status == 404 && apple.json["field"] as? String == "app", "\(apple.body)")
            // What the ledger knows is no question to a store. The console asks within the same rate.
            #expect(statuses == [404, 429] && all >= 59 && knownStatuses == [200], "\(statuses), \(all)")
            #expect(
                beyond.status == 429 && beyond.body.contains("Too many order numbers"),
                "\(beyond.body)")
        }
    }

    @Test("of an order that two apps have, both are found in the console, as by HTTP; each is a question of its own")
    func twoApps() async throws {
        let (store, order) = try Self.googleWithOrder()
        try await TestBundle.withServer(
            apps: [], store: store,
            googleApps: [
                try ScriptedGoogle.configured(), try ScriptedGoogle.configured(packageName: ScriptedGoogle.secondApp),
            ]
        ) { server async throws in
            let support = try await server.client(with: .operate)
            let (browser, cookie) = try await server.session(.operate)
            let asked = try await Self.ask(order, browser, cookie).answer
            let questions = store.requests.count { $0 == "GET orders/\(order)" }
            let byHTTP = try await support.post([], to: "/orders/\(order)")
            let purchases = byHTTP.json["purchases"] as? [[String: Any]] ?? []

            #expect(asked.status == 200, "\(asked.body)")
            #expect(asked.body.components(separatedBy: ">token-1</a>").count == 3, "\(asked.body)")
            #expect(asked.body.components(separatedBy: "<td><code>\(order)</code></td>").count == 3, "\(asked.body)")
            #expect(asked.body.contains("com.example.play") && asked.body.contains("com.example.second"))
            // The purchase that each app's answer names is asked about in its turn, with its order.
            #expect(questions == 4)
            #expect(Set(purchases.compactMap { $0["app"] as? String }) == ["com.example.play", "com.example.second"])
        }
    }

    @Test("the command prints the purchases of an order, or why there is none")
    func command() async throws {
        try await WriteCommandBundle.with { bundle in
            let id = bundle.subscriptions[0].originalTransactionId
            let number = try #require(SimulatedOrder.number(of: id))

            let found = try bundle.run(["order", number])
            let unknown = try bundle.run(["order", "MK5TTTVWJH"])
            let noNumber = try bundle.run(["order", id])
            let google = try bundle.run(["order", "GPA.1234-5678-9012-34567"])

            #expect(found.status == 0, "\(found.error)")
            #expect(
                found.output
                    == #"{"app":"com.example.app","environment":"production","orderId":"\#(number)","#
                    + #""originalTransactionId":"\#(id)"}"# + "\n")
            #expect(unknown.status == 65 && unknown.output.isEmpty)
            #expect(unknown.error.hasPrefix("subledger: the App Store has no order MK5TTTVWJH of com.example.app"))
            #expect(noNumber.status == 64 && noNumber.error.contains("The order number is not one of a store"))
            #expect(google.status == 78, "\(google.error)")
            #expect(google.error.contains("no app with a key for Google Play is configured"))
        }
    }
}
