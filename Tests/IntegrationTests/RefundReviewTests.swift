import Encoding
import EventLog
import Foundation
import PlayStore
import Postgres
import StoreClient
import Subscriptions
import TestSupport
import Testing

@Suite("Google's questions about chargebacks are answered in time, once, and with consent")
struct RefundReviewTests {
    private static let app = "app=com.example.play"
    private static let order = "/consumption-requests/GPA.1?\(app)"
    private static let policy = "/consumption-policies/premium:monthly?\(app)"
    private static let path = "orders/GPA.1:reviewrefund"
    private static let declining =
        #"{"customerConsented":true,"sampleContentProvided":true,"deliveryStatus":"DELIVERED","refundPreference":"DECLINE"}"#
    private static let told =
        #"{"pendingRefundToken":"r-1","sampleContentProvided":true,"refundPreference":"DECLINE"}"#

    /// A server that knows a purchase, and a store whose time the test sets.
    private struct Bundle {
        let server: TestBundle
        let store: ScriptedGoogle
        let clock: SetClock

        /// Posts a question, which Google asks now.
        func ask(_ order: String = "GPA.1", token: String? = "r-1", id: String = "90") async throws {
            let answer = try await server.push(
                ScriptedGoogle.review(order, token: token, id: id, at: clock.now), at: clock.now)
            #expect(answer.status == 200, "\(answer.body)")
            try await server.isFolded()
        }

        func state() async throws -> String? {
            try await server.backend.get(RefundReviewTests.order).json["state"] as? String
        }

        /// The answers that Google got.
        var told: [String] { store.bodies.filter { $0.contains("pendingRefundToken") } }

        /// A round of a process that has just been started.
        func round() async throws -> Int {
            let poller = server.database.with(role: "subledger_poller")
            let logger = server.logs.logger
            let pool = PostgresPool(poller, limit: 2, logger: logger)
            let leadership = StreamLeadership(Elector(poller), for: .refunds)
            let time = clock
            let storeClock = StoreClock(date: { time.now })
            let sender = ConsumptionSender(
                client: ServerAPIClient(
                    transport: UnreachableStore(), clock: storeClock, random: { 0 }, logger: logger),
                apps: [],
                google: (
                    GoogleClient(transport: store, clock: storeClock, random: { 0 }, logger: logger),
                    [try ScriptedGoogle.configured()]
                ), log: ConsumptionLog(pool: pool),
                writes: WriteLog(pool: pool, appender: server.appender), leadership: leadership, clock: storeClock,
                random: { 0 },
                logger: logger)
            let sent: Result<Int, any Error>
            do {
                sent = .success(try await sender.round(at: time.now))
            } catch {
                sent = .failure(error)
            }
            await leadership.release()
            await pool.close()
            return try sent.get()
        }
    }

    /// - Parameter isKnown: Whether the order is one of a purchase that was handed in.
    private static func with(isKnown: Bool = true, _ test: (Bundle) async throws -> Void) async throws {
        let store = try ScriptedGoogle()
        let clock = SetClock()
        store.answer(path, ScriptedGoogle.Reply(body: ""))
        store.answer(
            "purchases/subscriptionsv2/tokens/token-1",
            ScriptedGoogle.subscription(
                start: clock.now.advanced(by: .seconds(-3600)), end: clock.now.advanced(by: .seconds(86_400 * 30))))
        try await TestBundle.withServer(
            apps: [], store: store, googleApps: [try ScriptedGoogle.configured()], now: { clock.now }
        ) { server async throws in
            let bundle = Bundle(server: server, store: store, clock: clock)
            if isKnown { try await Self.handIn(bundle) }
            try await test(bundle)
        }
    }

    private static func handIn(_ bundle: Bundle) async throws {
        let handedIn = try await bundle.server.owner.post(
            Array(#"{"purchaseToken":"token-1"}"#.utf8), to: "/purchases?\(app)")
        #expect(handedIn.status == 200, "\(handedIn.body)")
        try await bundle.server.isFolded()
    }

    @Test("the policy of the product answers, once, with these bytes")
    func policy() async throws {
        try await Self.with { bundle in
            let stated = try await bundle.server.owner.put(Self.declining, to: Self.policy)
            try await bundle.ask()
            let waiting = try await bundle.server.backend.get(Self.order)
            let sent = [try await bundle.round(), try await bundle.round()]
            let accepted = try await bundle.server.backend.get(Self.order)
            let listed = try await bundle.server.sql(
                """
                select
                  concat_ws(
                    ' ', store, environment, transaction_id, reason, requests, answer, answered_by, refund_preference,
                    deadline_at - requested_at
                  )
                from analyst.refund_requests_detail
                """)
            let counted = try await bundle.server.sql(
                "select concat_ws(' ', store, reason, requests, answered, open) from analyst.refund_requests")

            #expect(listed == ["google unknown GPA.1 7 1 accepted policy DECLINE 1 day"])
            #expect(counted == ["google 7 1 1 1"])
            #expect(stated.status == 200, "\(stated.body)")
            #expect(waiting.json["state"] as? String == "waiting", "\(waiting.body)")
            #expect(waiting.json["store"] as? String == "google")
            #expect(waiting.json["productId"] as? String == "premium:monthly")
            #expect(waiting.json["originalTransactionId"] as? String == "token-1")
            #expect(waiting.json["reason"] as? String == "7")
            #expect(
                waiting.json["deadline"] as? String
                    == bundle.clock.now.advanced(by: .seconds(24 * 3600)).description)
            #expect(sent == [1, 0])
            #expect(bundle.told == [Self.told])
            #expect(bundle.store.requests.last == "POST \(Self.path)")
            #expect(accepted.json["state"] as? String == "accepted", "\(accepted.body)")
        }
    }

    /// What was sent or stated, and what Google said to it.
    private static func writes(_ bundle: Bundle) async throws -> [String] {
        try await bundle.server.sql(
            """
            select
              concat_ws(
                ' ', kind, facts #>> '{write,transactionId}', facts #>> '{write,by}', facts #>> '{write,answer,result}',
                facts #>> '{write,consumption,refundPreference}'
              )
            from subledger.event
            where source = 'operator'
            order by position
            """)
    }

    @Test("what is sent, by whom, and what Google says to it are events: one request, however often it is sent")
    func events() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.policy)
            bundle.store.answer(Self.path, ScriptedGoogle.error(503, "backendError"))
            var sent = 0
            for minutes in [0, 60, 180] {
                bundle.clock.set(bundle.clock.now.advanced(by: .seconds(minutes * 60)))
                sent += try await bundle.round()
            }
            let failed = try await Self.writes(bundle)
            bundle.store.answer(Self.path, ScriptedGoogle.Reply(body: ""))
            bundle.clock.set(bundle.clock.now.advanced(by: .seconds(5 * 3600)))
            _ = try await bundle.round()
            let accepted = try await Self.writes(bundle)
            let problem = try await CustomerRoutesTests.problem(bundle.server.database)

            #expect(sent == 3)
            #expect(failed == ["write_request GPA.1 policy DECLINE"])
            #expect(accepted == failed + ["write_answer GPA.1 policy accepted DECLINE"])
            #expect(problem == nil)
        }
    }

    @Test("without a policy and without an answer, and without consent, nothing is sent")
    func consent() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            let before = try await bundle.round()
            let stated = try await bundle.server.owner.put(#"{"customerConsented":false}"#, to: Self.order)
            _ = try await bundle.server.owner.put(Self.declining, to: Self.policy)
            let after = try await bundle.round()

            #expect(stated.status == 200, "\(stated.body)")
            #expect(before == 0 && after == 0 && bundle.told.isEmpty)
            #expect(try await bundle.state() == "no_consent")
            #expect(try await Self.writes(bundle).isEmpty)
        }
    }

    @Test("a server that starts again sends what failed, until a day after the question, and not later")
    func restarts() async throws {
        try await Self.with { bundle in
            let asked = bundle.clock.now
            try await bundle.ask()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            bundle.store.answer(Self.path, ScriptedGoogle.error(503, "backendError"))
            var sent = 0
            for hours in [0, 13, 20] {
                bundle.clock.set(asked.advanced(by: .seconds(hours * 3600)))
                sent += try await bundle.round()
            }
            let pending = try await bundle.server.backend.get(Self.order)
            bundle.store.answer(Self.path, ScriptedGoogle.Reply(body: ""))
            bundle.clock.set(asked.advanced(by: .seconds(24 * 3600 - 30)))
            let last = try await bundle.round()

            #expect(sent == 3)
            #expect(pending.json["state"] as? String == "pending", "\(pending.body)")
            #expect(last == 1)
            #expect(try await bundle.state() == "accepted")
            #expect(Set(bundle.told) == [Self.told])
        }
    }

    @Test("an answer that Google did not take within a day is late, and is not sent")
    func late() async throws {
        try await Self.with { bundle in
            let asked = bundle.clock.now
            try await bundle.ask()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            bundle.clock.set(asked.advanced(by: .seconds(24 * 3600)))
            let sent = try await bundle.round()
            let again = try await bundle.server.owner.put(Self.declining, to: Self.order)

            #expect(sent == 0 && bundle.told.isEmpty)
            #expect(try await bundle.state() == "late")
            #expect(again.status == 409, "\(again.body)")
        }
    }

    @Test("the deadline counts from Google's time, however late the question arrives")
    func arrivedLate() async throws {
        try await Self.with { bundle in
            let eventTime = bundle.clock.now.advanced(by: .seconds(-23 * 3600))
            _ = try await bundle.server.push(
                ScriptedGoogle.review("GPA.1", token: "r-1", id: "90", at: eventTime), at: bundle.clock.now)
            let found = try await bundle.server.backend.get(Self.order)

            #expect(found.json["deadline"] as? String == eventTime.advanced(by: .seconds(24 * 3600)).description)
        }
    }

    @Test("the console has the time that Google states, and that of the receipt beside it")
    func asked() async throws {
        try await Self.with { bundle in
            let eventTime = bundle.clock.now.advanced(by: .seconds(-23 * 3600))
            _ = try await bundle.server.push(
                ScriptedGoogle.review("GPA.1", token: "r-1", id: "90", at: eventTime), at: bundle.clock.now)
            let (browser, cookie) = try await bundle.server.session()
            let list = try await browser.get(
                "/console/refunds?stream=production%3Acom.example.play&csv=open", cookie: cookie)
            let page = try await browser.get(
                "/console/refunds/GPA.1?stream=production%3Acom.example.play&store=google", cookie: cookie)

            #expect(list.body.contains(",Asked,") && list.body.contains(",\(eventTime),"), "\(list.body)")
            #expect(!list.body.contains(",\(bundle.clock.now),"), "\(list.body)")
            #expect(
                page.body.contains("<dt>Asked, by the date of Google</dt><dd><time datetime=\"\(eventTime)\">"),
                "\(page.body)")
            #expect(
                page.body.contains("<dt>Received</dt><dd><time datetime=\"\(bundle.clock.now)\">"), "\(page.body)")
        }
    }

    @Test("a new token is a new question, although the last one was answered; a redelivery is none")
    func secondQuestion() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            try await bundle.ask()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            _ = try await bundle.round()
            bundle.clock.set(bundle.clock.now.advanced(by: .seconds(60)))
            try await bundle.ask(token: "r-2", id: "91")
            let second = try await bundle.state()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            _ = try await bundle.round()
            let list = try await bundle.server.backend.get("/consumption-requests?\(Self.app)")

            #expect(second == "waiting")
            #expect(bundle.told == [Self.told, Self.told.replacing("r-1", with: "r-2")])
            #expect((list.json["requests"] as? [[String: Any]])?.count == 2, "\(list.body)")
        }
    }

    @Test("the policy of a purchase that becomes known later answers then; the backend can answer before")
    func unknownOrder() async throws {
        try await Self.with(isKnown: false) { bundle in
            _ = try await bundle.server.owner.put(Self.declining, to: Self.policy)
            try await bundle.ask()
            let before = try await bundle.round()
            let unknown = try await bundle.server.backend.get(Self.order)
            try await Self.handIn(bundle)
            let after = try await bundle.round()

            #expect(before == 0 && after == 1 && bundle.told == [Self.told])
            #expect(try await Self.writes(bundle).count == 2)
            #expect(unknown.json["state"] as? String == "waiting" && unknown.json["productId"] == nil)
        }
        try await Self.with(isKnown: false) { bundle in
            try await bundle.ask()
            let stated = try await bundle.server.owner.put(Self.declining, to: Self.order)
            let sent = try await bundle.round()

            #expect(stated.status == 200 && sent == 1 && bundle.told == [Self.told])
            #expect(
                try await Self.writes(bundle) == [
                    "write_request GPA.1 backend DECLINE", "write_answer GPA.1 backend accepted DECLINE",
                ])
        }
    }

    @Test("what Google has voided is decided, and no longer answered")
    func voided() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            bundle.clock.set(bundle.clock.now.advanced(by: .seconds(60)))
            _ = try await bundle.server.push(
                ScriptedGoogle.void("token-1", order: "GPA.1", id: "92", at: bundle.clock.now), at: bundle.clock.now)
            try await bundle.server.isFolded()
            let sent = try await bundle.round()
            let found = try await bundle.server.backend.get(Self.order)

            #expect(sent == 0 && bundle.told.isEmpty)
            #expect((found.json["decision"] as? [String: Any])?["result"] as? String == "granted", "\(found.body)")
            #expect(found.json["state"] as? String == "late")
        }
    }

    @Test("a refusal is recorded and not repeated; so is a question without a token")
    func refused() async throws {
        try await Self.with { bundle in
            bundle.store.answer(Self.path, ScriptedGoogle.error(400, "invalid"))
            try await bundle.ask()
            try await bundle.ask("GPA.2", token: nil, id: "91")
            for order in ["GPA.1", "GPA.2"] {
                let stated = try await bundle.server.owner.put(
                    Self.declining, to: "/consumption-requests/\(order)?\(Self.app)")
                #expect(stated.status == 200, "\(stated.body)")
            }
            let sent = [try await bundle.round(), try await bundle.round()]
            let first = try await bundle.server.backend.get(Self.order)
            let second = try await bundle.server.backend.get("/consumption-requests/GPA.2?\(Self.app)")

            #expect(sent == [2, 0])
            #expect(bundle.told.count == 1)
            #expect(
                try await Self.writes(bundle) == [
                    "write_request GPA.1 backend DECLINE", "write_answer GPA.1 backend refused DECLINE",
                ])
            #expect(first.json["state"] as? String == "refused", "\(first.body)")
            #expect(second.body.contains("no pendingRefundToken"), "\(second.body)")
        }
    }

    @Test("the console shows the question with its deadline, and support answers it")
    func console() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            let (browser, cookie) = try await bundle.server.session(.admin)
            let stream = ("stream", "production:com.example.play")
            let list = try await browser.get(
                "/console/refunds?stream=production%3Acom.example.play", cookie: cookie)
            let page = try await browser.get(
                "/console/refunds/GPA.1?stream=production%3Acom.example.play&store=google", cookie: cookie)
            let customer = try await browser.get(
                "/console/customers/token-1?stream=production%3Acom.example.play&as=subscription", cookie: cookie)
            let csrf = try #require(page.field("csrf"))
            let answer = [
                ("csrf", csrf), stream, ("store", "google"), ("consented", "yes"), ("sample", "yes"),
                ("delivery", "DELIVERED"), ("preference", "DECLINE"),
            ]
            let silent = try await browser.post(
                "/console/refunds/GPA.1", [("csrf", csrf), stream, ("store", "google"), ("do", "answer")],
                cookie: cookie)
            let preview = try await browser.post(
                "/console/refunds/GPA.1", answer + [("do", "answer")], cookie: cookie)
            let half = try await browser.post(
                "/console/refunds/GPA.1", answer.filter { $0.0 != "sample" } + [("do", "answer")], cookie: cookie)
            let share = try await browser.post(
                "/console/refunds/GPA.1", answer + [("percentage", "50"), ("do", "answer")], cookie: cookie)
            let part = try await browser.post(
                "/console/refunds/GPA.1",
                answer.filter { $0.0 != "preference" } + [("preference", "GRANT_PRORATED"), ("do", "answer")],
                cookie: cookie)
            let before = try await bundle.state()
            let stated = try await browser.post(
                "/console/refunds/GPA.1", answer + [("do", "answer-now")], cookie: cookie)
            let next = try await browser.get(try #require(stated.location), cookie: cookie)
            let noted = try await Self.writes(bundle)
            let waiting = try await bundle.server.backend.get(Self.order)
            _ = try await bundle.round()
            let again = try await browser.post(
                "/console/refunds/GPA.1", answer + [("do", "answer-now")], cookie: cookie)
            let last = try await browser.get(
                "/console/refunds/GPA.1?stream=production%3Acom.example.play&store=google", cookie: cookie)

            #expect(list.body.contains("Waiting for an answer") && list.body.contains("GPA.1"), "\(list.body)")
            #expect(list.body.contains("chargeback") && list.body.contains("2019-11-09 08:14:00"))
            #expect(page.body.contains("Answer…") && !page.body.contains("Answer differently"), "\(page.body)")
            // Nothing is chosen that would state a fact.
            for name in ["consented", "sample", "delivery"] {
                #expect(page.body.contains("<select name=\"\(name)\"><option value=\"\">choose</option>"), "\(name)")
            }
            // Google takes a share that was used of one-time purchases, and knows no refund of a part.
            #expect(!page.body.contains("name=\"percentage\""), "\(page.body)")
            #expect(page.body.contains("value=\"GRANT_FULL\"") && !page.body.contains("value=\"GRANT_PRORATED\""))
            #expect(
                share.status == 400 && share.body.contains("Google takes it for one-time purchases"), "\(share.body)")
            #expect(part.status == 400 && part.body.contains("Google knows no refund of a part."), "\(part.body)")
            #expect(preview.body.contains("The purchase: delivered, and works (recorded here, not sent)."))
            #expect(page.body.contains("The customer has consented that Google is told how the purchase was used"))
            #expect(
                preview.body.contains("The customer has consented that Google is told how purchase GPA.1 was used."))
            #expect(half.status == 400 && half.body.contains("Choose whether there was a sample"), "\(half.body)")
            #expect(next.body.contains("<summary>Answer differently</summary>"), "\(next.body)")
            #expect(page.body.contains("<dt>Amount</dt><dd>"), "\(page.body)")
            #expect(page.body.contains("<dt>Bought</dt><dd><time"), "\(page.body)")
            #expect(
                page.body.contains(
                    #"href="/console/customers/token-1?stream=production%3Acom.example.play&amp;as=subscription""#),
                "\(page.body)")
            #expect(customer.body.contains("Refund requests"), "\(customer.body)")
            #expect(customer.body.contains("Google waits for an answer about a refund, until "), "\(customer.body)")
            #expect(silent.status == 400 && silent.body.contains("without consent, nothing is sent"))
            #expect(preview.status == 200 && preview.body.contains("You prefer: no refund."), "\(preview.body)")
            #expect(before == "waiting")
            #expect(stated.status == 303, "\(stated.body)")
            #expect(
                next.body.contains("Done: the answer is recorded, and is sent to Google in a moment."), "\(next.body)")
            #expect(bundle.told == [Self.told])
            #expect(again.status == 409 && again.body.contains("Google has accepted another answer"), "\(again.body)")
            #expect(last.body.contains("Answer: Google has our answer: no refund preferred"), "\(last.body)")
            // What was sent stands with the purchase, in its environment.
            let subscription = try await browser.get(
                "/console/subscriptions/token-1?stream=production%3Acom.example.play", cookie: cookie)
            #expect(
                subscription.body.contains(
                    "Answer about a refund of GPA.1: no refund</strong>: the store has the answer"),
                "\(subscription.body)")
            // The person who answered, once it is sent.
            #expect(noted.isEmpty, "\(noted)")
            let said = waiting.json["answer"] as? [String: Any] ?? [:]
            #expect(said["statedBy"] as? String == "operator", "\(waiting.body)")
            #expect((said["by"] as? String)?.contains("(token ") == true, "\(waiting.body)")
            #expect(last.body.contains("Stated by test (token "), "\(last.body)")
            let writes = try await Self.writes(bundle)
            #expect(writes.count == 2 && writes.allSatisfy { $0.contains("(token ") }, "\(writes)")
        }
    }

    @Test("the page of a customer as known at an earlier time has no answer that came later, and no later question")
    func knownAt() async throws {
        try await Self.with { bundle in
            let before = bundle.clock.now
            bundle.clock.set(before.advanced(by: .seconds(600)))
            try await bundle.ask()
            bundle.clock.set(before.advanced(by: .seconds(1200)))
            _ = try await bundle.server.owner.put(Self.declining, to: Self.order)
            _ = try await bundle.round()
            let (browser, cookie) = try await bundle.server.session()
            func requests(_ knownAt: Instant?) async throws -> String {
                let time = knownAt.map { "&knownAt=\($0)" } ?? ""
                return try await browser.get(
                    "/console/customers/token-1?stream=production%3Acom.example.play&as=subscription&csv=refunds\(time)",
                    cookie: cookie
                ).body
            }

            #expect(try await requests(nil).contains("Google has our answer: no refund preferred"))
            #expect(try await requests(before.advanced(by: .seconds(900))).contains(",waiting,"))
            #expect(try await !requests(before.advanced(by: .seconds(60))).contains("chargeback"))
        }
    }

    @Test("an answer in the console that is replaced before it is sent leaves no word of it in the log")
    func replaced() async throws {
        try await Self.with { bundle in
            try await bundle.ask()
            let (browser, cookie) = try await bundle.server.session(.admin)
            let page = try await browser.get(
                "/console/refunds/GPA.1?stream=production%3Acom.example.play&store=google", cookie: cookie)
            let csrf = try #require(page.field("csrf"))
            func answer(_ fields: [(String, String)]) async throws -> ConsoleBrowser.Page {
                try await browser.post(
                    "/console/refunds/GPA.1",
                    [
                        ("csrf", csrf), ("stream", "production:com.example.play"), ("store", "google"),
                        ("do", "answer-now"),
                    ] + fields, cookie: cookie)
            }
            let granted = try await answer([
                ("consented", "yes"), ("sample", "yes"), ("delivery", "DELIVERED"), ("preference", "GRANT_FULL"),
            ])
            let withdrawn = try await answer([("consented", "no")])
            let sent = try await bundle.round()
            let last = try await bundle.server.backend.get(Self.order)
            let said = last.json["answer"] as? [String: Any] ?? [:]

            #expect(granted.status == 303 && withdrawn.status == 303, "\(withdrawn.body)")
            #expect(sent == 0 && bundle.told.isEmpty)
            #expect(try await Self.writes(bundle).isEmpty)
            #expect(
                said["statedBy"] as? String == "operator" && last.json["state"] as? String == "no_consent",
                "\(last.body)")
        }
    }
}
