import EventLog
import Foundation
import TestSupport
import Testing

@Suite("Endpoints in the console")
struct ConsoleDeliveriesTests {
    private static let stream = ("stream", "production:com.example.magazine")

    /// A server with customers, an administrator's session, and a receiver.
    private static func withReceiver(
        _ test: (TestBundle, ScriptedReceiver, _ form: (String, [(String, String)]) async throws -> ConsoleBrowser.Page)
            async throws -> Void
    ) async throws {
        try await CustomerRoutesTests.withCustomers { server in
            try await ScriptedReceiver.with { receiver in
                let (browser, cookie) = try await server.session(.admin)
                let csrf = try #require(try await browser.get("/console", cookie: cookie).field("csrf"))
                try await test(server, receiver) { path, fields in
                    try await browser.post(path, fields + [("csrf", csrf), Self.stream], cookie: cookie)
                }
            }
        }
    }

    private static func onlyId(_ server: TestBundle) async throws -> String {
        try #require(try await server.sql("select endpoint_id from subledger.endpoint").first)
    }

    @Test("an administrator adds one, tests, disables, enables and replays it; the page never shows the whole URL")
    func walk() async throws {
        try await Self.withReceiver { server, receiver, form in
            let added = try await form(
                "/console/deliveries",
                [
                    ("url", "http://127.0.0.1:\(receiver.port)/hook?secret=x"), ("signature", "v1"),
                    ("kinds", "opened, closed"),
                ])
            let id = try await Self.onlyId(server)
            let tested = try await form("/console/deliveries/\(id)", [("do", "test")])
            receiver.answer(usually: .status(500))
            let failed = try await form("/console/deliveries/\(id)", [("do", "test")])
            let disabled = try await form("/console/deliveries/\(id)", [("do", "disable")])
            let state = try await server.sql("select disabled_for from subledger.endpoint")
            let enabled = try await form("/console/deliveries/\(id)", [("do", "enable")])
            let replayed = try await form("/console/deliveries/\(id)", [("do", "replay-after"), ("after", "0")])
            let head = try await server.sql("select max(number)::text from subledger.change")
            let place = try await server.sql("select number::text from subledger.endpoint_cursor")
            let (browser, cookie) = try await server.session()
            let list = try await browser.get("/console/deliveries", cookie: cookie)
            let shown = try await browser.get(try #require(replayed.location), cookie: cookie)

            #expect(added.status == 200 && added.body.contains("whsec_"), "\(added.body)")
            #expect(tested.body.contains("A test message was sent: success, status 200"))
            #expect(failed.body.contains("status 500"))
            #expect(receiver.messages.map(\.path) == ["/hook?secret=x", "/hook?secret=x"])
            #expect(disabled.status == 303 && state == ["operator"])
            #expect(enabled.location?.hasSuffix("done=enabled") == true)
            #expect(place == ["0"])
            #expect(shown.body.contains("Messages that are delivered again: \(head.first ?? "")."))
            #expect(list.body.contains(id) && list.body.contains("opened, closed"))
            for page in [added, tested, list, shown] {
                #expect(!page.body.contains("secret=x") && !page.body.contains("hook"))
            }
            #expect(!shown.body.contains("whsec_"))
        }
    }

    @Test("attempts are listed, and what was given up can be delivered again")
    func attempts() async throws {
        try await Self.withReceiver { server, receiver, form in
            _ = try await form("/console/deliveries", [("url", "http://127.0.0.1:\(receiver.port)/")])
            let id = try await Self.onlyId(server)
            _ = try await server.sql(
                """
                insert into subledger.endpoint_attempt (endpoint_id, attempted_at, number, result, status, milliseconds)
                select endpoint_id, '2026-01-05T10:00:00Z', 1, 'client_error', 422, 12 from subledger.endpoint
                returning 'ok'
                """)
            let (browser, cookie) = try await server.session()

            let page = try await browser.get("/console/deliveries/\(id)", cookie: cookie)
            let none = try await form(
                "/console/deliveries/\(id)", [("do", "replay-failed"), ("failedSince", "2026-01-01")])

            #expect(page.body.contains("422") && page.body.contains("client_error"))
            #expect(page.body.contains("need a token of scope admin"))
            #expect(none.location?.contains("messages=0") == true)
        }
    }

    @Test("what is not possible is said in a sentence")
    func refused() async throws {
        try await Self.withReceiver { server, receiver, form in
            let malformed = try await form("/console/deliveries", [("url", "ftp://example.com/")])
            let kinds = try await form(
                "/console/deliveries", [("url", "http://127.0.0.1:\(receiver.port)/"), ("kinds", "openned")])
            let unknown = try await form("/console/deliveries/end_0", [("do", "test")])
            _ = try await form("/console/deliveries", [("url", "http://127.0.0.1:\(receiver.port)/")])
            let id = try await Self.onlyId(server)
            let late = try await form("/console/deliveries/\(id)", [("do", "replay-after"), ("after", "999999")])
            let word = try await form("/console/deliveries/\(id)", [("do", "replay-after"), ("after", "all")])
            let empty = try await form("/console/deliveries/\(id)", [("do", "replay-after"), ("after", "")])
            let always = try await form("/console/deliveries/\(id)", [("do", "replay-failed")])
            let nothing = try await form("/console/deliveries/\(id)", [("do", "erase")])
            let (browser, reading) = try await server.session()
            let csrf = try #require(try await browser.get("/console", cookie: reading).field("csrf"))
            let denied = try await browser.post(
                "/console/deliveries/\(id)", [("do", "disable"), ("csrf", csrf), Self.stream], cookie: reading)
            let foreign = try await browser.post(
                "/console/deliveries/\(id)", [("do", "disable"), ("csrf", csrf)], cookie: reading,
                origin: "https://example.com")

            #expect(malformed.status == 400 && malformed.body.contains("must"))
            #expect(kinds.status == 400 && kinds.body.contains("kinds must be different ones of"))
            #expect(unknown.status == 404 && unknown.body.contains("no endpoint has this id"))
            #expect(late.status == 400 && late.body.contains("after must be from 0 to"))
            #expect(word.status == 400 && nothing.status == 400)
            #expect(empty.status == 400 && empty.body.contains("after is missing"))
            #expect(always.status == 400 && always.body.contains("failedSince is missing"))
            #expect(denied.status == 403 && foreign.status == 403)
            #expect(
                try await server.sql("select coalesce(disabled_for, 'active') from subledger.endpoint")
                    == ["active"])
        }
    }
}
