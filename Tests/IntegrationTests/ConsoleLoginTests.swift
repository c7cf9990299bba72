import EventLog
import Foundation
import HTTPServer
import Postgres
import TestSupport
import Testing

@Suite("Logins to the console")
struct ConsoleLoginTests {
    static let open: Set = [
        "GET /console/console.css", "GET /console/console.js", "GET /console/login", "POST /console/login",
    ]

    @Test("every page without a session leads to the login, and every answer has the headers that confine it")
    func everyPage() async throws {
        try await TestBundle.withServer { server in
            let browser = server.browser
            #expect(server.pages.count >= 15)
            #expect(Self.open.isSubset(of: server.pages))
            for operation in server.pages {
                let parts = operation.split(separator: " ").map(String.init)
                let path = parts[1].replacing(/\{[^}]*\}/, with: "1").replacing("**", with: "x")
                let page =
                    parts[0] == "POST"
                    ? try await browser.post(path, []) : try await browser.get("\(path)?stream=a%3Ab")

                #expect(page.headers["x-content-type-options"] == "nosniff", "\(operation)")
                #expect(
                    page.headers["content-security-policy"]?.hasPrefix("default-src 'none'; ") == true, "\(operation)")
                guard !Self.open.contains(operation) else { continue }
                #expect(page.status == 303, "\(operation)")
                #expect(page.location?.hasPrefix("/console/login") == true, "\(operation)")
                #expect(page.headers["cache-control"] == "no-store", "\(operation)")
            }
        }
    }

    @Test("a session reads pages until it is logged out")
    func logout() async throws {
        try await TestBundle.withServer { server in
            let (browser, cookie) = try await server.session()
            let page = try await browser.get("/console", cookie: cookie)
            let csrf = try #require(page.field("csrf"))
            let out = try await browser.post("/console/logout", [("csrf", csrf)], cookie: cookie)

            #expect(page.status == 200)
            #expect(out.status == 303)
            #expect(out.headers["set-cookie"]?.contains("Max-Age=0") == true)
            #expect(try await browser.get("/console", cookie: cookie).status == 303)
        }
    }

    @Test("the cookie is for this host, not for scripts, and never sent from other sites")
    func cookie() async throws {
        try await TestBundle.withServer { server in
            let page = try await server.browser.post("/console/login", [("token", server.backend.token ?? "")])
            let cookie = try #require(page.headers["set-cookie"])

            #expect(cookie.hasPrefix("subledger="))
            for part in ["HttpOnly", "SameSite=Strict", "Path=/"] { #expect(cookie.contains(part)) }
            let value = cookie.dropFirst("subledger=".count).prefix { $0 != ";" }
            #expect(value.count == 64)
            // The table does not hold what the cookie holds.
            let stored = try await server.sql("select encode(session_sha256, 'hex') from subledger.console_session")
            #expect(stored.count == 1 && stored[0] != value)
        }
    }

    @Test("without TLS, no login where other machines can reach the listener")
    func exposed() async throws {
        try await TestBundle.withServer(transport: .exposed) { server in
            let page = try await server.browser.post("/console/login", [("token", server.backend.token ?? "")])

            #expect(page.status == 403)
            #expect(page.headers["set-cookie"] == nil)
            #expect(try await server.browser.get("/console/login").status == 403)
        }
    }

    @Test("the address, the certificate and what the operator says of the way decide how the cookie is protected")
    func transports() {
        #expect(ConsoleTransport(host: "127.0.0.1", hasTLS: false) == .loopback)
        #expect(ConsoleTransport(host: "0.0.0.0", hasTLS: false) == .exposed)
        #expect(ConsoleTransport(host: "0.0.0.0", hasTLS: false, front: .loopback) == .loopback)
        #expect(ConsoleTransport(host: "0.0.0.0", hasTLS: false, front: .tls) == .tls)
        // Its own certificate protects more than the operator says.
        #expect(ConsoleTransport(host: "0.0.0.0", hasTLS: true, front: .loopback) == .tls)
    }

    @Test("behind a proxy that ends TLS, a login gets a cookie that browsers send over TLS only")
    func behindProxy() async throws {
        try await TestBundle.withServer(transport: ConsoleTransport(host: "0.0.0.0", hasTLS: false, front: .tls)) {
            server in
            let fields = [("token", server.backend.token ?? "")]
            let address = "127.0.0.1:\(server.backend.port)"
            let plain = try await server.browser.post("/console/login", fields, origin: "http://\(address)")
            let page = try await server.browser.post("/console/login", fields, origin: "https://\(address)")

            #expect(plain.status == 403)
            #expect(page.status == 303)
            let cookie = try #require(page.headers["set-cookie"])
            #expect(cookie.hasPrefix("__Host-subledger=") && cookie.hasSuffix("; Secure"))
        }
    }

    @Test("an unknown kind of front is refused with the kinds that there are")
    func unknownFront() throws {
        let refused = try ServerProcess.run(["serve", "--private-front", "nginx"])

        #expect(refused.status == 78)
        #expect(refused.error.contains("private front \"nginx\": expected tls-proxy or loopback"))
    }

    @Test("a session ends with its token")
    func revoked() async throws {
        try await TestBundle.withServer { server in
            let token = try await TestBundle.token(.read, server.database)
            let cookie = try await server.browser.login(token)
            #expect(try await server.browser.get("/console", cookie: cookie).status == 200)

            let owner = try await TestCluster.connect(server.database)
            try await TokenStore(connection: owner).revoke(id: String(token.dropFirst(4).prefix(12)))
            await owner.close()

            #expect(try await server.browser.get("/console", cookie: cookie).status == 303)
        }
    }

    @Test("a session ends after eight hours, and after an hour without a request")
    func expired() async throws {
        try await TestBundle.withServer { server in
            let (browser, cookie) = try await server.session()
            _ = try await server.sql(
                "update subledger.console_session set seen = now() - interval '59 minutes' returning token_id")
            #expect(try await browser.get("/console", cookie: cookie).status == 200)
            // The request counted.
            let seen = try await server.sql(
                "select token_id from subledger.console_session where seen > now() - interval '1 minute'")
            #expect(seen.count == 1)

            _ = try await server.sql(
                "update subledger.console_session set seen = now() - interval '61 minutes' returning token_id")
            #expect(try await browser.get("/console", cookie: cookie).status == 303)

            let again = try await browser.login(server.backend.token ?? "")
            _ = try await server.sql(
                """
                update subledger.console_session
                set made = now() - interval '9 hours', expires = now() - interval '1 second', seen = now()
                returning token_id
                """)
            #expect(try await browser.get("/console", cookie: again).status == 303)
        }
    }

    @Test(
        "tokens that cannot read, wrong tokens and other texts do not log in",
        arguments: ["", "slt_", "x", "submit", "publishable"])
    func refused(_ text: String) async throws {
        try await TestBundle.withServer { server in
            let scope = TokenScope(rawValue: text)
            let app = scope == .publishable ? "com.example.app" : nil
            let token =
                if let scope { try await TestBundle.token(scope, server.database, app: app) } else { text }
            let page = try await server.browser.post("/console/login", [("token", token)])

            #expect(page.status == 403)
            #expect(page.body.contains("This does not log in"))
            #expect(page.headers["set-cookie"] == nil)
        }
    }

    @Test(
        "a cookie of another form has no session",
        arguments: ["subledger=", "subledger=x", "subledger=" + String(repeating: "0", count: 64), "other=1"])
    func otherCookies(_ cookie: String) async throws {
        try await TestBundle.withServer { server in
            let page = try await server.browser.get("/console", cookie: cookie)

            #expect(page.status == 303)
        }
    }

    @Test("a form of another site, without an origin, or without the session's secret changes nothing")
    func forgery() async throws {
        try await TestBundle.withServer { server in
            let (browser, cookie) = try await server.session(.admin)
            let csrf = try #require(try await browser.get("/console", cookie: cookie).field("csrf"))
            let other = try #require(
                try await browser.get("/console", cookie: try await browser.login(server.owner.token ?? "")).field(
                    "csrf"))

            for (fields, origin) in [
                ([("csrf", csrf)], "http://evil.example"), ([("csrf", csrf)], "null"),
                ([("csrf", csrf)], "http://127.0.0.1:\(server.backend.port).evil.example"), ([("csrf", csrf)], ""),
                ([], nil), ([("csrf", "")], nil), ([("csrf", other)], nil),
            ] as [([(String, String)], String?)] {
                let page = try await browser.post("/console/logout", fields, cookie: cookie, origin: origin)
                #expect(page.status == 403, "\(fields) \(origin ?? "own")")
            }
            #expect(try await browser.get("/console", cookie: cookie).status == 200)
            let login = try await browser.post(
                "/console/login", [("token", server.backend.token ?? "")], origin: "http://evil.example")
            #expect(login.status == 403)
            #expect(login.headers["set-cookie"] == nil)
        }
    }

    @Test("a one-time link logs in once, by a form and not by opening it")
    func ticket() async throws {
        try await TestBundle.withServer { server in
            let token = try await TestBundle.token(.read, server.database)
            let owner = try await TestCluster.connect(server.database)
            let store = TokenStore(connection: owner)
            let ticket = try await store.makeTicket(id: String(token.dropFirst(4).prefix(12)))
            let browser = server.browser

            for _ in 1...2 {
                let page = try await browser.get("/console/login?ticket=\(ticket.text)")
                #expect(page.field("ticket") == ticket.text)
            }
            let first = try await browser.post("/console/login", [("ticket", ticket.text)])
            let second = try await browser.post("/console/login", [("ticket", ticket.text)])

            #expect(first.status == 303)
            let cookie = try #require(first.headers["set-cookie"]).prefix { $0 != ";" }
            #expect(try await browser.get("/console", cookie: String(cookie)).status == 200)
            #expect(second.status == 403)
            await #expect(throws: TokenRefusal.unknown("0123456789ab")) {
                _ = try await store.makeTicket(id: "0123456789ab")
            }
            await owner.close()
        }
    }

    @Test(
        "after the login, the browser goes back to a page of the console only",
        arguments: [
            ("/console/events?stream=x", "/console/events?stream=x"), ("//evil.example", "/console"),
            ("https://evil.example/console", "/console"), ("/console\\@evil", "/console"), ("/consoles", "/console"),
            ("/console/\r\nSet-Cookie: a=b", "/console"), ("/customers/1", "/console"),
        ])
    func back(_ back: String, _ expected: String) async throws {
        try await TestBundle.withServer { server in
            let page = try await server.browser.post(
                "/console/login", [("token", server.backend.token ?? ""), ("back", back)])

            #expect(page.status == 303)
            #expect(page.location == expected)
        }
    }

    @Test("a token of scope read cannot change products; one of scope admin sees what changes before it does")
    func products() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let (browser, reading) = try await server.session()
            let fields = [
                ("product", "com.example.books"), ("kind", ""), ("duration", ""), ("entitlements", "plus, reading"),
                ("stream", "production:com.example.magazine"),
            ]
            let readCSRF = try #require(try await browser.get("/console", cookie: reading).field("csrf"))
            let denied = try await browser.post(
                "/console/products", fields + [("csrf", readCSRF), ("do", "save")], cookie: reading)
            #expect(denied.status == 403)

            let (_, cookie) = try await server.session(.admin)
            let csrf = try #require(try await browser.get("/console", cookie: cookie).field("csrf"))
            // Saved only after a preview of the same values.
            let early = try await browser.post(
                "/console/products", fields + [("csrf", csrf), ("do", "save")], cookie: cookie)
            #expect(early.status == 200)
            #expect(early.body.contains("This changes the entitlements of 1 subscription, its past included."))
            #expect(try await server.sql("select entitlement from subledger.product_entitlement") == [])
            let previewed = try #require(early.field("previewed"))
            let saved = try await browser.post(
                "/console/products", fields + [("csrf", csrf), ("do", "save"), ("previewed", previewed)],
                cookie: cookie)
            let shown = try await browser.get(try #require(saved.location), cookie: cookie)

            #expect(saved.status == 303)
            #expect(shown.body.contains("Done: the settings of com.example.books are saved."), "\(shown.body)")
            #expect(
                try await server.sql("select entitlement from subledger.product_entitlement order by 1")
                    == ["plus", "reading"])
            let renamed = try await browser.post(
                "/console/products", fields + [("csrf", csrf), ("name", "Books"), ("do", "preview")], cookie: cookie)
            #expect(renamed.body.contains("This changes what the console calls it"), "\(renamed.body)")
            let levelled = fields + [("csrf", csrf), ("level", "3")]
            let preview = try await browser.post("/console/products", levelled + [("do", "preview")], cookie: cookie)
            let token = try #require(preview.field("previewed"))
            let ranked = try await browser.post(
                "/console/products", levelled + [("do", "save"), ("previewed", token)], cookie: cookie)
            #expect(ranked.status == 303)
            #expect(try await server.sql("select level::text from subledger.product") == ["3"])
            let unranked = try await browser.post(
                "/console/products", fields + [("csrf", csrf), ("level", "high"), ("do", "preview")], cookie: cookie)
            #expect(unranked.status == 400 && unranked.body.contains("level must be an integer"))
            let malformed = try await browser.post(
                "/console/products", fields + [("csrf", csrf), ("kind", "rented"), ("do", "preview")], cookie: cookie)
            #expect(malformed.status == 400)
            #expect(malformed.body.contains("kind must be one of"))
        }
    }
}
