import EventLog
import Foundation
import StoreClient
import TestSupport
import Testing

@Suite("Support asks the stores for changes in the console")
struct ConsoleActsTests {
    private static let google = "stream=production%3Acom.example.play"

    /// What a form sends, in the order of the page.
    private static func fields(
        _ page: ConsoleBrowser.Page, _ stream: String, _ more: [(String, String)]
    ) throws -> [(String, String)] {
        [("csrf", try #require(page.field("csrf"))), ("stream", stream)] + more
    }

    /// The hidden fields of the first form that posts to an address, as a browser sends them.
    private static func form(_ page: ConsoleBrowser.Page, to address: String) throws -> [(String, String)] {
        let form = try #require(page.body.range(of: "<form method=\"post\" action=\"\(address)\""), "\(page.body)")
        let body = page.body[form.upperBound...]
        let end = try #require(body.range(of: "</form>"))
        return body[..<end.lowerBound].matches(of: /name="([a-z]+)" value="([^"]*)"/).map {
            (String($0.output.1), String($0.output.2))
        }
    }

    private static func withGoogle(
        hasStoreWrites: Bool = true,
        _ test: (TestBundle, ScriptedGoogle, ConsoleBrowser, String, HTTPClient) async throws -> Void
    ) async throws {
        let store = try ScriptedGoogle()
        store.answer(
            "purchases/subscriptionsv2/tokens/token-1",
            ScriptedGoogle.subscription(
                start: TestBundle.now.advanced(by: .seconds(-3600)),
                end: TestBundle.now.advanced(by: .seconds(86_400 * 30)), more: #""etag":"e-1","#))
        try await TestBundle.withServer(
            apps: [], store: store, googleApps: [try ScriptedGoogle.configured()], hasStoreWrites: hasStoreWrites
        ) { server async throws in
            // Before the first request: the server knows later tokens seconds later.
            let support = try await server.client(with: .operate)
            let (browser, cookie) = try await server.session(.operate)
            let handedIn = try await server.owner.post(
                Array(#"{"purchaseToken":"token-1"}"#.utf8), to: "/purchases?app=com.example.play")
            #expect(handedIn.status == 200, "\(handedIn.body)")
            try await server.isFolded()
            try await test(server, store, browser, cookie, support)
        }
    }

    /// Previews a change and confirms it.
    private static func act(
        _ fields: [(String, String)], _ browser: ConsoleBrowser, _ cookie: String
    ) async throws -> (preview: ConsoleBrowser.Page, done: ConsoleBrowser.Page?) {
        let path = "/console/subscriptions/token-1"
        let page = try await browser.get("\(path)?\(google)", cookie: cookie)
        let preview = try await browser.post(
            path,
            try Self.fields(page, "production:com.example.play", fields + [("reason", "case 1"), ("do", "preview")]),
            cookie: cookie)
        guard preview.status == 200 else { return (preview, nil) }
        return (preview, try await browser.post(path, try form(preview, to: path), cookie: cookie))
    }

    struct Act: Sendable, CustomTestStringConvertible {
        let fields: [(String, String)]
        let path: String
        let body: String
        let says: String

        var testDescription: String { says }
    }

    private static let purchase = "purchases/subscriptionsv2/tokens/token-1"

    static let acts = [
        Act(
            fields: [("act", "cancel")], path: "\(purchase):cancel",
            body: #"{"cancellationContext":{"cancellationType":"USER_REQUESTED_STOP_RENEWALS"}}"#,
            says: "Google does not renew it."),
        Act(
            fields: [("act", "revoke"), ("refund", "full")], path: "\(purchase):revoke",
            body: #"{"revocationContext":{"fullRefund":{}}}"#, says: "refunds what was paid for the period"),
        Act(
            fields: [("act", "revoke"), ("refund", "prorated")], path: "\(purchase):revoke",
            body: #"{"revocationContext":{"proratedRefund":{}}}"#, says: "refunds the rest of the period"),
        Act(
            fields: [("act", "defer"), ("days", "10")], path: "\(purchase):defer",
            body: #"{"deferralContext":{"etag":"e-1","deferDuration":"864000s"}}"#, says: "Google charges 10 days later"
        ),
        Act(
            fields: [("act", "refund"), ("revokes", "no")], path: "orders/GPA.1:refund", body: "{}",
            says: "Google refunds order GPA.1, and access stays."),
        Act(
            fields: [("act", "refund"), ("revokes", "yes")], path: "orders/GPA.1:refund", body: "{}",
            says: "Google refunds order GPA.1, and access ends."),
    ]

    @Test("each change on Google Play is shown, confirmed, sent once with these bytes, and recorded", arguments: acts)
    func googleActs(act: Act) async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            store.answer(act.path, ScriptedGoogle.Reply(body: "{}"))

            let (preview, done) = try await Self.act(act.fields, browser, cookie)
            let sent = store.requests.filter { $0.hasPrefix("POST") }
            let page = try await browser.get("/console/subscriptions/token-1?\(Self.google)", cookie: cookie)
            let next = try await browser.get(try #require(done?.location), cookie: cookie)
            let events = try await server.sql(
                """
                select concat_ws(' ', kind, facts #>> '{write,reason}', facts #>> '{write,answer,result}')
                from subledger.event
                where source = 'operator'
                order by position
                """)
            let problem = try await CustomerRoutesTests.problem(server.database)

            #expect(preview.status == 200 && preview.body.contains(act.says), "\(preview.body)")
            #expect(done?.status == 303, "\(done?.body ?? "")")
            #expect(sent == ["POST \(act.path)"])
            #expect(store.bodies.last == act.body)
            #expect(events == ["write_request case 1", "write_answer case 1 accepted"])
            #expect(page.body.contains(": made"), "\(page.body)")
            #expect(next.body.contains(/role="status">[^<]*: made\.</), "\(next.body)")
            #expect(!page.body.contains(#"role="status""#))
            #expect(problem == nil)
        }
    }

    @Test("an answer that never came is shown as unknown, and the same change is asked for again with the same state")
    func unknown() async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            let path = "/console/subscriptions/token-1"
            let act: [(String, String)] = [("act", "defer"), ("days", "10")]
            store.answer("\(Self.purchase):defer", ScriptedGoogle.error(503, "backendError"))
            let first = try await Self.act(act, browser, cookie)
            let page = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let other = try await Self.act([("act", "defer"), ("days", "20")], browser, cookie)
            store.answer(
                "\(Self.purchase):defer",
                ScriptedGoogle.Reply(
                    body: #"{"itemExpiryTimeDetails":[{"productId":"premium","expiryTime":"2019-12-18T08:14:00Z"}]}"#))
            let again = try await browser.post(path, try Self.form(page, to: path), cookie: cookie)
            let made = try await browser.post(path, try Self.form(again, to: path), cookie: cookie)
            let last = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let identifiers = try await server.sql(
                "select distinct facts #>> '{write,requestIdentifier}' from subledger.event where source = 'operator'")

            #expect(first.done?.status == 303, "\(first.done?.body ?? first.preview.body)")
            #expect(page.body.contains("unknown (temporary_status): the store may have made it"), "\(page.body)")
            #expect(page.body.contains("Ask again…"))
            #expect(other.done?.status == 409, "\(other.done?.body ?? "")")
            #expect(again.status == 200 && made.status == 303, "\(again.body)")
            #expect(last.body.contains("made, access until 18 Dec 2019"), "\(last.body)")
            #expect(!last.body.contains("Ask again…"))
            #expect(identifiers.count == 1)
        }
    }

    @Test("of two people who confirm the same change at once, one makes it, and the page says that it is made")
    func atOnce() async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            let path = "/console/subscriptions/token-1"
            let made = ScriptedGoogle.Reply(
                body: #"{"itemExpiryTimeDetails":[{"productId":"premium","expiryTime":"2019-12-18T08:14:00Z"}]}"#)
            // The state to which the second request refers is gone.
            store.answer("\(Self.purchase):defer", made, ScriptedGoogle.error(400, "invalid"))
            let other = try await server.session(.admin)
            var forms: [[(String, String)]] = []
            for (browser, cookie) in [(browser, cookie), (other.browser, other.cookie)] {
                let page = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
                let preview = try await browser.post(
                    path,
                    try Self.fields(
                        page, "production:com.example.play",
                        [("act", "defer"), ("days", "10"), ("reason", "case 3"), ("do", "preview")]), cookie: cookie)
                forms.append(try Self.form(preview, to: path))
            }
            let (mine, others) = (forms[0], forms[1])
            async let first = browser.post(path, mine, cookie: cookie)
            async let second = other.browser.post(path, others, cookie: other.cookie)
            let statuses = try await [first.status, second.status]
            let last = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let results = try await server.sql(
                """
                select facts #>> '{write,answer,result}'
                from subledger.event
                where kind = 'write_answer'
                order by 1
                """)

            #expect(statuses == [303, 303])
            #expect(results == ["accepted", "refused"])
            #expect(store.bodies.count == 2 && Set(store.bodies).count == 1)
            #expect(last.body.contains("made, access until 18 Dec 2019"), "\(last.body)")
            #expect(!last.body.contains("Ask again…"))
        }
    }

    @Test("two people who ask for different changes at once: while one has no answer, the other is not asked for")
    func different() async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            store.answer("\(Self.purchase):defer", ScriptedGoogle.error(503, "backendError"))
            let other = try await server.session(.admin)
            let mine = try await Self.act([("act", "defer"), ("days", "10")], browser, cookie)
            let asked = store.bodies.count
            let theirs = try await Self.act([("act", "defer"), ("days", "5")], other.browser, other.cookie)

            #expect(mine.done?.status == 303 && theirs.done?.status == 409, "\(theirs.done?.body ?? "")")
            #expect(theirs.done?.body.contains("Move the next charge by 10 days") == true)
            #expect(store.bodies.count == asked)
        }
    }

    @Test("without an answer about the purchase, nothing can be moved; and nothing is sent with wrong fields")
    func refused() async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            let before = store.bodies.count
            let much = try await Self.act([("act", "defer"), ("days", "366")], browser, cookie)
            let none = try await Self.act([("act", "defer")], browser, cookie)
            let apples = try await Self.act([("act", "extend"), ("days", "3")], browser, cookie)
            store.answer(Self.purchase, ScriptedGoogle.error(503, "backendError"))
            let silent = try await Self.act([("act", "defer"), ("days", "3")], browser, cookie)

            #expect(much.preview.status == 400 && none.preview.status == 400 && apples.preview.status == 400)
            #expect(silent.preview.status == 503, "\(silent.preview.body)")
            #expect(store.bodies.count == before)
            #expect(try await server.sql("select kind from subledger.event where source = 'operator'") == [])
        }
    }

    @Test(
        "a backend previews each change on Google Play by HTTP, asks for it with the same bytes, and it is recorded",
        arguments: acts)
    func byHTTP(act: Act) async throws {
        try await Self.withGoogle { server, store, _, _, support in
            store.answer(act.path, ScriptedGoogle.Reply(body: "{}"))
            let path = "/subscriptions/token-1/writes?app=com.example.play"
            let body = Self.json(act.fields)

            let preview = try await support.post(Array("{\(body),\"preview\":true}".utf8), to: path)
            let before = store.bodies.count
            let etag = (preview.json["etag"] as? String).map { ",\"etag\":\"\($0)\"" } ?? ""
            let asked = try await support.post(Array("{\(body)\(etag)}".utf8), to: path)
            let events = try await server.sql(
                """
                select
                  concat_ws(
                    ' ', kind, facts #>> '{write,by}', facts #>> '{write,reason}', facts #>> '{write,answer,result}'
                  )
                from subledger.event
                where source = 'operator'
                order by position
                """)

            #expect(preview.status == 200 && preview.body.contains(act.says), "\(preview.body)")
            #expect(before == 0 && preview.json["answer"] == nil)
            #expect(asked.status == 200, "\(asked.body)")
            #expect((asked.json["answer"] as? [String: Any])?["result"] as? String == "accepted")
            #expect(asked.json["recorded"] as? Bool == true && asked.json["effects"] == nil)
            #expect(store.requests.filter { $0.hasPrefix("POST") } == ["POST \(act.path)"])
            #expect(store.bodies == [act.body])
            #expect(events == ["write_request support case 1", "write_answer support case 1 accepted"])
        }
    }

    private static let deferral = ScriptedGoogle.Reply(
        body: #"{"itemExpiryTimeDetails":[{"productId":"premium","expiryTime":"2019-12-18T08:14:00Z"}]}"#)

    @Test("a request by HTTP that is repeated with its key makes no second change, whatever has become of the purchase")
    func key() async throws {
        try await Self.withGoogle { server, store, _, _, support in
            store.answer("\(Self.purchase):defer", Self.deferral)
            let path = "/subscriptions/token-1/writes?app=com.example.play"
            func ask(_ days: Int, _ key: String, _ more: String = "") async throws -> HTTPAnswer {
                let body = #"{"action":"defer","deferByDays":\#(days),"by":"a","reason":"b"\#(more)}"#
                return try await support.send(
                    "POST", path, headers: ["Idempotency-Key": key], body: Array(body.utf8))
            }
            let preview = try await ask(10, "k 1", #","preview":true"#)
            let first = try await ask(10, #""k 1""#)
            // The state to which a deferral refers is another one now, or is not known.
            store.answer(Self.purchase, ScriptedGoogle.error(503, "backendError"))
            let again = try await ask(10, #""k 1""#)
            let other = try await ask(20, #""k 1""#)
            let events = try await server.sql(
                "select kind from subledger.event where source = 'operator' order by position")
            let sent = store.bodies.count

            #expect(preview.status == 400, "\(preview.body)")
            #expect(first.status == 200 && first.json["recorded"] as? Bool == true, "\(first.body)")
            #expect(again.status == 200 && again.body == first.body, "\(again.body)")
            #expect(other.status == 422 && other.json["field"] as? String == "Idempotency-Key", "\(other.body)")
            #expect(events == ["write_request", "write_answer"] && sent == 1)
        }
    }

    @Test(
        "a request whose first try waits for the store is answered 409, and a repeat of one that was unknown asks again"
    )
    func keyWaits() async throws {
        try await Self.withGoogle { server, store, _, _, support in
            let path = "/subscriptions/token-1/writes?app=com.example.play"
            func cancel() async throws -> HTTPAnswer {
                try await support.send(
                    "POST", path, headers: ["Idempotency-Key": "k-1"],
                    body: Array(#"{"action":"cancel","by":"a","reason":"b"}"#.utf8))
            }
            store.answer("\(Self.purchase):cancel", ScriptedGoogle.error(503, "backendError"))
            let unknown = try await cancel()
            store.answer("\(Self.purchase):cancel", ScriptedGoogle.Reply(body: "{}"))
            let made = try await cancel()
            let known = try await cancel()
            // As if the server that asks had stored its request, and had no answer yet.
            let owner = try await TestCluster.connect(server.database)
            try await owner.script(
                """
                alter table subledger.event disable trigger event_append_only;
                delete from subledger.event as event
                where event.source = 'operator'
                  and not event.facts -> 'write' ? 'idempotencyKey';
                """, deadline: .now + .seconds(20))
            await owner.close()
            let waits = try await cancel()

            #expect((unknown.json["answer"] as? [String: Any])?["result"] as? String == "unknown", "\(unknown.body)")
            #expect((made.json["answer"] as? [String: Any])?["result"] as? String == "accepted", "\(made.body)")
            #expect(known.body == made.body)
            #expect(waits.status == 409 && waits.body.contains("waits for the store"), "\(waits.body)")
            #expect(waits.headers["retry-after"] != nil)
        }
    }

    @Test(
        "keys are texts of printable ASCII, in quotes or without",
        arguments: [
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", 404), (#""8e03978e""#, 404), (#""a \"b\" \\""#, 404),
            (#""""#, 400), (#""a"#, 400), (#""a"b"#, 400), ("a b", 400), ("a,b", 400), (#""a\b""#, 400),
            (String(repeating: "k", count: 255), 404), (String(repeating: "k", count: 256), 400),
        ])
    func keys(key: String, status: Int) async throws {
        try await TestBundle.withServer(apps: []) { server in
            let support = try await server.client(with: .operate)
            let answer = try await support.send(
                "POST", "/subscriptions/none/writes?app=com.example.play", headers: ["Idempotency-Key": key],
                body: Array(#"{"action":"cancel","by":"a","reason":"b"}"#.utf8))

            #expect(answer.status == status, "\(answer.body)")
        }
    }

    @Test("a form that is sent twice by a nervous hand makes one change")
    func twice() async throws {
        try await Self.withGoogle { server, store, browser, cookie, _ in
            store.answer("\(Self.purchase):defer", Self.deferral)
            let path = "/console/subscriptions/token-1"
            let page = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let preview = try await browser.post(
                path,
                try Self.fields(
                    page, "production:com.example.play",
                    [("act", "defer"), ("days", "10"), ("reason", "case 3"), ("do", "preview")]), cookie: cookie)
            let form = try Self.form(preview, to: path)
            async let first = browser.post(path, form, cookie: cookie)
            async let second = browser.post(path, form, cookie: cookie)
            let statuses = try await [first.status, second.status]
            let later = try await browser.post(path, form, cookie: cookie)
            let changed = try await browser.post(
                path, form.map { $0.0 == "days" ? ("days", "20") : $0 }, cookie: cookie)
            let unnamed = try await browser.post(path, form.filter { $0.0 != "key" }, cookie: cookie)
            let events = try await server.sql(
                "select kind from subledger.event where source = 'operator' order by position")

            #expect(form.contains { $0.0 == "key" })
            #expect(statuses == [303, 303] && later.status == 303, "\(later.body)")
            #expect(
                changed.status == 422 && changed.body.contains("differs from the one that was shown"), "\(changed.body)"
            )
            #expect(unnamed.status == 400, "\(unnamed.body)")
            #expect(events == ["write_request", "write_answer"])
            #expect(store.bodies.count == 1)
        }
    }

    @Test(
        "with changes at the stores switched off, neither the console nor a token asks for one, and pages have no form")
    func off() async throws {
        try await Self.withGoogle(hasStoreWrites: false) { server, store, browser, cookie, support in
            let path = "/console/subscriptions/token-1"
            let page = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let form = try await browser.post(
                path,
                [
                    ("csrf", try #require(page.field("csrf"))), ("stream", "production:com.example.play"),
                    ("act", "cancel"), ("reason", "x"), ("do", "preview"),
                ], cookie: cookie)
            let asked = try await support.post(
                Array(#"{"action":"cancel","by":"a","reason":"b"}"#.utf8),
                to: "/subscriptions/token-1/writes?app=com.example.play")

            #expect(!page.body.contains("Stop the renewal…"), "\(page.body)")
            #expect(form.status == 403 && form.body.contains("switched off"), "\(form.body)")
            #expect(asked.status == 403 && asked.body.contains("switched off"), "\(asked.body)")
            #expect(store.bodies.isEmpty)
            #expect(try await server.sql("select kind from subledger.event where source = 'operator'") == [])
        }
    }

    @Test("while nothing can be stored, a form says so with the status of the API, and no store is asked")
    func notStored() async throws {
        try await Self.withGoogle { server, store, browser, cookie, support in
            store.answer("\(Self.purchase):cancel", ScriptedGoogle.Reply(body: "{}"))
            let path = "/console/subscriptions/token-1"
            let page = try await browser.get("\(path)?\(Self.google)", cookie: cookie)
            let preview = try await browser.post(
                path,
                try Self.fields(
                    page, "production:com.example.play", [("act", "cancel"), ("reason", "x"), ("do", "preview")]),
                cookie: cookie)
            let form = try Self.form(preview, to: path)
            await server.appender.stop()
            let asked = try await browser.post(path, form, cookie: cookie)
            let byHTTP = try await support.withoutPatience.post(
                Array(#"{"action":"cancel","by":"a","reason":"b"}"#.utf8),
                to: "/subscriptions/token-1/writes?app=com.example.play")
            #expect(asked.status == byHTTP.status && asked.status == 503, "\(asked.body)")
            #expect(asked.body.contains("The database is unavailable. Nothing was done"), "\(asked.body)")
            #expect(asked.headers["retry-after"] != nil)
            #expect(store.bodies.isEmpty)
        }
    }

    /// The members of a request by HTTP for what a form has.
    private static func json(_ fields: [(String, String)]) -> String {
        let members = fields.map { name, value in
            switch name {
            case "act": "\"action\":\"\(value)\""
            case "days": "\"deferByDays\":\(value)"
            case "revokes": "\"revoke\":\(value == "yes")"
            default: "\"\(name)\":\"\(value)\""
            }
        }
        return (members + [#""by":"support""#, #""reason":"case 1""#]).joined(separator: ",")
    }

    @Test("a change by HTTP that cannot be asked for is refused with its field, and unknown is said to be unknown")
    func refusedByHTTP() async throws {
        try await Self.withGoogle { server, store, _, _, support in
            let path = "/subscriptions/token-1/writes?app=com.example.play"
            func ask(_ body: String, _ path: String) async throws -> HTTPAnswer {
                try await support.post(Array(body.utf8), to: path)
            }
            var refused: [String] = []
            for body in [
                #"{"action":"extend","extendByDays":3,"by":"a","reason":"b"}"#, #"{"by":"a","reason":"b"}"#,
                #"{"action":"cancel","reason":"b"}"#, #"{"action":"cancel","by":"a","reason":" "}"#,
                #"{"action":"cancel","by":"a","reason":"b\nc"}"#,
                #"{"action":"revoke","by":"a","reason":"b"}"#, #"{"action":"refund","by":"a","reason":"b"}"#,
            ] {
                let answer = try await ask(body, path)
                refused.append("\(answer.status) \(answer.json["field"] as? String ?? "")")
            }
            let much = try await ask(#"{"action":"defer","deferByDays":366,"by":"a","reason":"b"}"#, path)
            let other = try await ask(
                #"{"action":"cancel","by":"a","reason":"b"}"#, path.replacing("token-1", with: "token-9"))
            let sent = store.bodies.count
            store.answer("\(Self.purchase):cancel", ScriptedGoogle.error(503, "backendError"))
            let unknown = try await ask(#"{"action":"cancel","by":"a","reason":"b"}"#, path)
            let again = try await ask(#"{"action":"cancel","by":"c","reason":"d"}"#, path)

            #expect(
                refused == [
                    "409 action", "400 action", "400 by", "400 reason", "400 reason", "400 refund", "400 revoke",
                ])
            #expect(much.status == 400 && much.body.contains("days must be from 1 to 365"), "\(much.body)")
            #expect(other.status == 404 && sent == 0)
            #expect((unknown.json["answer"] as? [String: Any])?["result"] as? String == "unknown", "\(unknown.body)")
            #expect(again.json["requestIdentifier"] as? String == unknown.json["requestIdentifier"] as? String)
        }
    }

    @Test("a reader sees what was asked, and cannot ask")
    func reader() async throws {
        try await Self.withGoogle { server, store, _, _, _ in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console/subscriptions/token-1?\(Self.google)", cookie: cookie)
            let (sent, _) = try await Self.act([("act", "cancel")], browser, cookie)

            #expect(!page.body.contains("Asked of the store"))
            #expect(sent.status == 403 && sent.body.contains("scope operate"), "\(sent.body)")
            #expect(store.bodies.isEmpty)
        }
    }

    @Test("free days and an account token are asked of Apple, and the page says what it answered")
    func apple() async throws {
        try await WriteCommandBundle.with { bundle in
            let browser = ConsoleBrowser(port: bundle.backend.port)
            let token = try ServerProcess.token("operate", dataFolder: "\(bundle.folder)/data")
            // The server reads new tokens once a second.
            _ = try await eventually("the token is known") {
                try await HTTPClient(port: bundle.backend.port, token: token).get("/products?app=x").status == 200
                    ? true : nil
            }
            let cookie = try await browser.login(token)
            let id = bundle.subscriptions[0].originalTransactionId
            let path = "/console/subscriptions/\(id)"
            let stream = "production:\(WriteCommandBundle.app)"
            let page = try await browser.get("\(path)?stream=production%3A\(WriteCommandBundle.app)", cookie: cookie)
            var done: [ConsoleBrowser.Page] = []
            for fields in [
                [("act", "extend"), ("days", "7"), ("code", "outage")],
                [("act", "set_account_token"), ("token", "0F3D4A52-7A1C-4D3E-9B5B-1F0E8C6D2A31")],
            ] {
                let preview = try await browser.post(
                    path, try Self.fields(page, stream, fields + [("reason", "case 2"), ("do", "preview")]),
                    cookie: cookie)
                done.append(
                    try await browser.post(path, try Self.form(preview, to: path), cookie: cookie))
            }
            let last = try await browser.get("\(path)?stream=production%3A\(WriteCommandBundle.app)", cookie: cookie)
            let events = try await bundle.events()

            #expect(page.body.contains("Extend…") && page.body.contains("Set account token…"), "\(page.body)")
            #expect(done.map(\.status) == [303, 303], "\(done.map(\.body))")
            #expect(last.body.contains("Extend by 7 days</strong>: made"), "\(last.body)")
            #expect(last.body.contains("Set account token 0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31</strong>: made"))
            #expect(
                events.compactMap { $0["kind"] as? String } == [
                    "write_request", "write_answer", "write_request", "write_answer",
                ])
        }
    }
}
