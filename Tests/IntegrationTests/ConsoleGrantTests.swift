import EventLog
import Foundation
import TestSupport
import Testing

@Suite("Support gives access in the console, and takes it back")
struct ConsoleGrantTests {
    private static let stream = "production:com.example.magazine"
    private static let page = "/console/customers/u-1?stream=production%3Acom.example.magazine&as=link"

    /// A customer with a subscription, and a browser with a session.
    private static func withCustomer(
        _ scope: TokenScope = .operate, hasActs: Bool = true,
        _ test: (TestBundle, ConsoleBrowser, String) async throws -> Void
    ) async throws {
        try await TestBundle.withServer(hasActs: hasActs) { server in
            let (browser, cookie) = try await server.session(scope)
            _ = try await server.apple.post(try V1Body(number: 1).bytes)
            _ = try await server.owner.put(
                #"{"links":[{"originalTransactionId":"2000000000000001"}]}"#,
                to: "/customers/u-1/links?app=com.example.magazine")
            try await server.isFolded()
            try await test(server, browser, cookie)
        }
    }

    private static func fields(_ page: ConsoleBrowser.Page, _ more: [(String, String)]) throws -> [(String, String)] {
        [("csrf", try #require(page.field("csrf"))), ("stream", stream)] + more
    }

    /// The hidden fields of the form that confirms, as a browser sends them.
    private static func confirmation(_ page: ConsoleBrowser.Page) throws -> [(String, String)] {
        let form = try #require(page.body.range(of: "<form method=\"post\" action=\"/console/customers/u-1/grants\""))
        let body = page.body[form.upperBound...]
        let end = try #require(body.range(of: "</form>"))
        return body[..<end.lowerBound].matches(of: /name="([a-z]+)" value="([^"]*)"/).map {
            (String($0.output.1), String($0.output.2))
        }
    }

    @Test("ten days are previewed, confirmed, seen by the backend, and taken back, with who and why")
    func walk() async throws {
        try await Self.withCustomer { server, browser, cookie in
            let path = "/console/customers/u-1/grants"
            let entitlements = "/customers/u-1/entitlements?app=com.example.magazine"
            let page = try await browser.get(Self.page, cookie: cookie)
            let preview = try await browser.post(
                path,
                try Self.fields(
                    page, [("do", "give"), ("entitlement", "plus"), ("length", "10"), ("reason", "case 4711")]),
                cookie: cookie)
            let confirmation = try Self.confirmation(preview)
            let nothing = try await server.backend.get(entitlements)
            let given = try await browser.post(path, confirmation, cookie: cookie)
            let twice = try await browser.post(path, confirmation, cookie: cookie)
            try await server.isFolded()
            let seen = try await server.backend.get(entitlements)
            let shown = try await browser.get(Self.page, cookie: cookie)
            let grant = try #require(confirmation.first { $0.0 == "grant" }?.1)
            func again(_ days: String) async throws -> String {
                try await browser.post(
                    path,
                    try Self.fields(
                        shown, [("do", "give"), ("entitlement", "plus"), ("length", days), ("reason", "more")]),
                    cookie: cookie
                ).body
            }
            let shorter = try await again("3")
            let longer = try await again("30")
            let warning = try await browser.post(
                path, try Self.fields(shown, [("do", "revoke"), ("grant", grant), ("reason", "wrong account")]),
                cookie: cookie)
            let revoked = try await browser.post(path, try Self.confirmation(warning), cookie: cookie)
            try await server.isFolded()
            let last = try await browser.get(Self.page, cookie: cookie)
            let after = try await server.backend.get(entitlements)
            let events = try await server.sql(
                """
                select concat_ws(' ', source, kind, facts #>> '{transactions,0,additional,grant,reason}')
                from subledger.event
                where kind like 'grant%'
                order by position
                """)

            #expect(page.body.contains("Give access…"))
            #expect(
                page.body.contains(
                    #"<datalist id="offered"><option value="com.example.magazine.monthly"></option>"#),
                "\(page.body)")
            #expect(shown.body.contains("<td>none: given by hand</td>"), "\(shown.body)")
            #expect(preview.status == 200, "\(preview.body)")
            #expect(preview.body.contains("gets plus now, until 18 Nov 2019 08:14 UTC."), "\(preview.body)")
            #expect(preview.body.contains("Today the customer does not have it."))
            #expect(shorter.contains("Today the customer has it, until 18 Nov 2019 08:14 UTC."), "\(shorter)")
            #expect(shorter.contains("That is no shorter, so this grant adds nothing."), "\(shorter)")
            #expect(longer.contains("The grant adds only what lies after that end."), "\(longer)")
            #expect(preview.body.contains("case 4711"))
            #expect(!nothing.body.contains("plus"))
            #expect(given.status == 303 && twice.status == 303, "\(given.body)")
            #expect(given.location?.hasPrefix("/console/customers/u-1?") == true)
            #expect(
                seen.body.contains(#""entitlement":"plus","active":true,"until":"2019-11-18T08:14:00.000Z""#),
                "\(seen.body)")
            #expect(shown.body.contains("case 4711") && shown.body.contains("Take back…"))
            #expect(shown.body.contains("was given by hand"))
            #expect(warning.body.contains("That ends now."), "\(warning.body)")
            #expect(revoked.status == 303)
            let because = /Because: Grant [^<]* was taken back on 8 Nov 2019 08:14:00 UTC by [^<]*: wrong account/
            #expect(last.body.contains(because), "\(last.body)")
            #expect(last.body.contains("wrong account") && !last.body.contains("Take back…"))
            #expect(!after.body.contains(#""entitlement":"plus","active":true"#), "\(after.body)")
            #expect(events == ["operator grant case 4711", "operator grant_revoked wrong account"])
        }
    }

    @Test("the page after an act shows what was done, and says so once")
    func done() async throws {
        try await Self.withCustomer { _, browser, cookie in
            let path = "/console/customers/u-1/grants"
            let page = try await browser.get(Self.page, cookie: cookie)
            let given = try await browser.post(
                path,
                try Self.fields(
                    page,
                    [
                        ("do", "give-now"), ("entitlement", "plus"), ("length", "10"), ("reason", "case 1"),
                        ("grant", "g-1"),
                    ]
                ), cookie: cookie)
            // Nothing waits for the projector in between: the redirect has.
            let shown = try await browser.get(try #require(given.location), cookie: cookie)
            let revoked = try await browser.post(
                path, try Self.fields(page, [("do", "revoke-now"), ("grant", "g-1"), ("reason", "case 2")]),
                cookie: cookie)
            let last = try await browser.get(try #require(revoked.location), cookie: cookie)
            let waits = try await browser.get("\(Self.page)&done=given&grant=g-9", cookie: cookie)

            #expect(shown.body.contains("Done: plus is given until 18 Nov 2019 08:14 UTC."), "\(shown.body)")
            #expect(shown.body.contains("was given by hand") && !shown.body.contains("done=given"), "\(shown.body)")
            #expect(last.body.contains("Done: plus is taken back."), "\(last.body)")
            #expect(waits.body.contains("Done; it will be shown here in a moment"), "\(waits.body)")
            #expect(!page.body.contains(#"role="status""#), "\(page.body)")
        }
    }

    @Test("the page of somebody whom no backend knows says who can link the id, and has no form")
    func notLinked() async throws {
        try await Self.withCustomer { server, browser, cookie in
            _ = try await server.apple.post(try V1Body(number: 2).bytes)
            try await server.isFolded()
            let page = try await browser.get(
                "/console/customers/2000000000000002?stream=production%3Acom.example.magazine", cookie: cookie)

            #expect(page.status == 200 && !page.body.contains("Give access…"), "\(page.body)")
            #expect(page.body.contains("The backend links it by PUT /customers/{customerId}/links"), "\(page.body)")
        }
    }

    @Test("a reader sees what was given, without forms, and cannot send one")
    func reader() async throws {
        try await Self.withCustomer(.link) { server, browser, cookie in
            _ = try await server.owner.put(
                #"{"entitlement":"plus","until":null,"reason":"press"}"#,
                to: "/customers/u-1/grants/g-1?app=com.example.magazine")
            try await server.isFolded()
            let page = try await browser.get(Self.page, cookie: cookie)
            let sent = try await browser.post(
                "/console/customers/u-1/grants",
                try Self.fields(page, [("do", "revoke-now"), ("grant", "g-1"), ("reason", "x")]), cookie: cookie)

            #expect(page.body.contains("Given by hand") && page.body.contains("press"))
            #expect(!page.body.contains("Take back…") && !page.body.contains("Give access…"))
            #expect(sent.status == 403 && sent.body.contains("scope operate"), "\(sent.body)")
        }
    }

    @Test("while nothing can be stored, forms say so with the status of the API")
    func notStored() async throws {
        try await Self.withCustomer { server, browser, cookie in
            let path = "/console/customers/u-1/grants"
            let page = try await browser.get(Self.page, cookie: cookie)
            let fields = try Self.fields(
                page, [("do", "give-now"), ("entitlement", "plus"), ("length", "10"), ("reason", "x")])
            let backend = try await server.client(with: .operate)
            _ = try await eventually("the token is known") {
                try await backend.get("/products?app=x").status == 200 ? true : nil
            }
            await server.appender.stop()
            let given = try await browser.post(path, fields, cookie: cookie)
            let byHTTP = try await backend.withoutPatience.put(
                #"{"entitlement":"plus","until":null,"reason":"x"}"#,
                to: "/customers/u-1/grants/g-1?app=com.example.magazine")

            #expect(given.status == byHTTP.status && given.status == 503, "\(given.body)\(byHTTP.body)")
            #expect(given.body.contains("The database is unavailable. Nothing was done"), "\(given.body)")
            #expect(given.headers["retry-after"] != nil)
        }
    }

    @Test("switched off, there are no forms, whatever the scope")
    func off() async throws {
        try await Self.withCustomer(.admin, hasActs: false) { _, browser, cookie in
            let page = try await browser.get(Self.page, cookie: cookie)
            let sent = try await browser.post(
                "/console/customers/u-1/grants",
                try Self.fields(
                    page, [("do", "give-now"), ("entitlement", "plus"), ("length", "10"), ("reason", "x")]),
                cookie: cookie)

            #expect(!page.body.contains("Give access…"))
            #expect(sent.status == 403 && sent.body.contains("switched off"), "\(sent.body)")
        }
    }

    @Test(
        "what cannot be given is refused before it is confirmed",
        arguments: [
            ([("entitlement", "plus"), ("reason", "x")], "Choose how long, or give the end."),
            ([("entitlement", "plus"), ("length", "10")], "“Reason” must be a line"),
            (
                [("entitlement", "plus"), ("length", "10"), ("until", "2019-12-01"), ("reason", "x")],
                "Choose how long, or give the end, and not both."
            ),
            ([("length", "10"), ("reason", "x")], "“Entitlement” must be a line"),
            ([("entitlement", "plus"), ("until", "2019-11-01"), ("reason", "x")], "“Or until” must be after"),
            ([("entitlement", "plus"), ("until", "soon"), ("reason", "x")], "“Or until” must be a time"),
        ])
    func refused(fields: [(String, String)], says: String) async throws {
        try await Self.withCustomer { _, browser, cookie in
            let page = try await browser.get(Self.page, cookie: cookie)
            let sent = try await browser.post(
                "/console/customers/u-1/grants", try Self.fields(page, [("do", "give")] + fields), cookie: cookie)

            #expect(sent.status == 400 && sent.body.contains(says), "\(sent.body)")
            #expect(sent.body.contains(">Back to the page of the form</a>"), "\(sent.body)")
        }
    }
}
