import Foundation
import Hummingbird
import Logging
import Postgres
import Synchronization
import TestSupport
import Testing

@testable import EventLog
@testable import HTTPServer

@Suite("Authentication and scopes of the private listener")
struct TokenTests {
    /// The operations that need no token.
    private static let open: Set = [
        "GET /.well-known/jwks.json", "GET /health", "GET /health/live", "GET /health/ready", "GET /metrics",
        "GET /openapi.json", "GET /webhooks/keys",
    ]

    @Test("every route but those for monitoring rejects a missing token and a wrong one")
    func everyRoute() async throws {
        try await TestBundle.withServer { server in
            let unknown = try #require(AccessToken("slt_0123456789ab_" + String(repeating: "0", count: 64)))
            let nobody = HTTPClient(port: server.backend.port)
            #expect(server.operations.count >= 6)
            #expect(Self.open.isSubset(of: server.operations))
            for operation in server.operations {
                let parts = operation.split(separator: " ")
                let path = String(parts[1]).replacing(/\{[^}]*\}/, with: "1")

                let without = try await nobody.send(String(parts[0]), path)
                let wrong = try await nobody.send(
                    String(parts[0]), path, headers: ["Authorization": "Bearer \(unknown.text)"])

                if Self.open.contains(operation) {
                    #expect(without.status == 200, "\(operation)")
                } else {
                    #expect(without.status == 401, "\(operation)")
                    #expect(without.headers["www-authenticate"] == "Bearer", "\(operation)")
                    #expect(without.headers["content-type"] == "application/problem+json")
                    #expect(without.json["title"] as? String == "Unauthorized")
                    #expect(without.json["status"] as? Int == 401)
                    #expect(wrong.status == 401, "\(operation)")
                    #expect(wrong.headers["www-authenticate"] == "Bearer error=\"invalid_token\"", "\(operation)")
                }
            }
        }
    }

    @Test(
        "malformed credentials are rejected like an unknown token",
        arguments: ["Basic eDp5", "Bearer", "Bearer ", "Bearer slt_", "slt_", "Bearer '; drop table subledger.token"])
    func malformed(_ credentials: String) async throws {
        try await TestBundle.withServer { server in
            let answer = try await HTTPClient(port: server.backend.port)
                .send("GET", "/subscriptions/1", headers: ["Authorization": credentials])

            #expect(answer.status == 401)
        }
    }

    @Test("a token with one wrong digit or with another token's id is rejected")
    func oneDigit() async throws {
        try await TestBundle.withServer { server in
            let token = try #require(server.backend.token)
            let last = token.hasSuffix("0") ? "1" : "0"
            let other = try await TestBundle.token(.admin, server.database)
            let mixed = other.prefix(17) + token.suffix(64)

            for wrong in [token.dropLast() + last, mixed] {
                let answer = try await HTTPClient(port: server.backend.port, token: String(wrong))
                    .get("/subscriptions/1")
                #expect(answer.status == 401)
            }
            #expect(try await server.backend.get("/subscriptions/1").status == 404)
        }
    }

    @Test("read and submit include no other scope, link includes both, operate link, webhooks none, and admin all")
    func scopes() async throws {
        let tokens = TokenScope.allCases.map { scope in
            var random = SystemRandomNumberGenerator()
            return (scope, token: AccessToken(using: &random))
        }
        let cache = TokenCache { () async throws(ReadError) in
            tokens.map { ActiveToken(id: $0.token.id, scope: $0.0, digest: $0.token.digest) }
        }
        let routes = PrivateRoutes(tokens: cache, logger: LogRecorder().logger)
        for (name, group) in [
            ("submit", routes.submit), ("read", routes.read), ("link", routes.link),
            ("operate", routes.operate), ("webhooks", routes.webhooks), ("admin", routes.admin),
        ] {
            group.get("/\(name)") { _, _ in Response(status: .ok) }
        }
        let port = AsyncStream<Int>.makeStream()
        let listener = Listener.private(
            at: ListenAddress(host: "127.0.0.1", port: 0), routes: routes, logger: LogRecorder().logger,
            onListening: { port.continuation.yield($0) })
        let running = Task { try await listener.run() }
        let listening = try #require(await port.stream.first { _ in true })

        var answers: [[Int]] = []
        for (_, token) in tokens {
            let client = HTTPClient(port: listening, token: token.text)
            answers.append([])
            for path in ["/submit", "/read", "/link", "/operate", "/webhooks", "/admin"] {
                let answer = try await client.get(path)
                answers[answers.count - 1].append(answer.status)
                if answer.status == 403 {
                    #expect(
                        answer.headers["www-authenticate"]?.hasPrefix("Bearer error=\"insufficient_scope\"") == true)
                }
            }
        }
        running.cancel()
        _ = await running.result

        #expect(TokenScope.allCases == [.publishable, .submit, .read, .link, .operate, .webhooks, .admin])
        #expect(
            answers == [
                [403, 403, 403, 403, 403, 403], [200, 403, 403, 403, 403, 403], [403, 200, 403, 403, 403, 403],
                [200, 200, 200, 403, 403, 403], [200, 200, 200, 200, 403, 403], [403, 403, 403, 403, 200, 403],
                [200, 200, 200, 200, 200, 200],
            ])
    }

    /// A clock that the test sets, and a source that counts reads of its tokens.
    private final class Source: Sendable {
        let state = Mutex((now: ContinuousClock.now, reads: 0, tokens: [ActiveToken](), isAway: false))

        func move(_ duration: Duration) { state.withLock { $0.now += duration } }

        func cache() -> TokenCache {
            TokenCache(now: { self.state.withLock { $0.now } }) { () async throws(ReadError) in
                let (tokens, isAway) = self.state.withLock { state in
                    state.reads += 1
                    return (state.tokens, state.isAway)
                }
                if isAway { throw .unavailable }
                return tokens
            }
        }
    }

    @Test(
        "a thousand requests read the tokens once; after a second they are read again, and an error admits no request")
    func cache() async throws {
        var random = SystemRandomNumberGenerator()
        let token = AccessToken(using: &random)
        let source = Source()
        source.state.withLock { $0.tokens = [ActiveToken(id: token.id, scope: .link, digest: token.digest)] }
        let cache = source.cache()

        for _ in 0..<1000 { #expect(try await cache.scope(of: token) == .link) }
        #expect(source.state.withLock { $0.reads } == 1)

        source.state.withLock { $0.tokens = [] }
        source.move(.milliseconds(400))
        #expect(try await cache.scope(of: token) == .link)
        source.move(.milliseconds(601))
        #expect(try await cache.scope(of: token) == nil)

        source.state.withLock { $0.isAway = true }
        source.move(.milliseconds(1001))
        await #expect(throws: ReadError.unavailable) { try await cache.scope(of: token) }
    }

    @Test("no log line, metric or database row contains a token or its secret")
    func secret() async throws {
        try await TestBundle.withServer { server in
            let token = try #require(server.backend.token)
            for path in ["/subscriptions/1", "/events?app=a", "/nowhere", "/subscriptions/1?at=x"] {
                _ = try await server.backend.get(path)
            }
            let metrics = try await server.backend.get("/metrics").body

            let rows = try await server.sql("select token::text from subledger.token")
            #expect(rows.count == 2, "expected a token of scope read and one of scope admin")
            for seen in [server.logs.text, metrics, rows.joined()] {
                #expect(!seen.contains(token))
                #expect(!seen.contains(token.suffix(64)))
            }
        }
    }

    @Test("the server's roles cannot create, change or delete tokens")
    func roles() async throws {
        let database = try await TestCluster.freshDatabase()
        _ = try await TestBundle.token(.read, database)
        for role in ["authenticator", "reader", "receiver", "projector", "products", "analyst"] {
            let connection = try await TestCluster.connect(database.with(role: "subledger_\(role)"))
            for statement in [
                "insert into subledger.token values ('0123456789ab', sha256('x'), 'admin', '')",
                "update subledger.token set scope = 'admin'", "delete from subledger.token",
            ] {
                await #expect(throws: (any Error).self, "\(role): \(statement)") {
                    try await connection.script(statement, deadline: .now + .seconds(10))
                }
            }
            await connection.close()
        }
    }

    @Test("only the authenticator reads and ends logins to the console, and none of the server's roles makes tickets")
    func consoleRoles() async throws {
        let database = try await TestCluster.freshDatabase()
        for role in ["authenticator", "reader", "receiver", "projector", "products", "analyst", "poller"] {
            let connection = try await TestCluster.connect(database.with(role: "subledger_\(role)"))
            var refused = [
                "insert into subledger.console_ticket values (sha256('x'), '0123456789ab', now())",
                "update subledger.console_session set expires = now()",
                "update subledger.console_session set token_id = '0123456789ab'",
                """
                insert into subledger.console_session (session_sha256, token_id, csrf, expires)
                values (sha256('x'), '0123456789ab', repeat('0', 64), now() + interval '1 hour')
                """,
                "select from subledger.console_ticket", "delete from subledger.console_ticket",
            ]
            if role != "authenticator" {
                refused += [
                    "select from subledger.console_session", "delete from subledger.console_session",
                    "select subledger.begin_console_session('0123456789ab', 'x', 'x', 'x', 1)",
                    "select subledger.redeem_console_ticket('x', 'x', 'x', 'x', 1)",
                ]
            }
            for statement in refused {
                await #expect(throws: (any Error).self, "\(role): \(statement)") {
                    try await connection.script(statement, deadline: .now + .seconds(10))
                }
            }
            await connection.close()
        }
    }

    @Test("only who knows a token or a ticket begins a login to the console, and the database is not shown either")
    func consoleLogin() async throws {
        try await TestCluster.withDatabase { database in
            let token = try #require(AccessToken(try await TestBundle.token(.admin, database)))
            let owner = try await TestCluster.connect(database)
            let ticket = try await TokenStore(connection: owner).makeTicket(id: token.id)
            let pool = PostgresPool(
                database.with(role: "subledger_authenticator"), limit: 1, logger: Logger(label: "test"))
            let sessions = ConsoleSessions(pool: pool)
            let forged = try #require(AccessToken("slt_\(token.id)_\(String(repeating: "0", count: 64))"))

            #expect(try await sessions.begin(forged) == nil)
            #expect(try await sessions.redeem(try #require(ConsoleSecret(String(repeating: "0", count: 64)))) == nil)
            let begun = try #require(try await sessions.begin(token))
            #expect(try await sessions.session(of: begun)?.tokenId == token.id)
            let redeemed = try #require(try await sessions.redeem(ticket))
            #expect(try await sessions.session(of: redeemed)?.scope == .admin)
            #expect(try await sessions.redeem(ticket) == nil)

            // What the role itself can read proves nothing.
            let proofs: [SQL] = ["secret_sha256", "sha256(secret_sha256 || sha256('x'))", "''", "null", "'\\x00'"]
            for proof in proofs {
                let authenticator = try await TestCluster.connect(database.with(role: "subledger_authenticator"))
                let rows = try await authenticator.query(
                    Statement(
                        "forged",
                        """
                        select subledger.begin_console_session(
                          token_id, \(proof)::bytea, sha256('x'), repeat('0', 64), 60
                        )
                        from subledger.token
                        """), deadline: .now + .seconds(20))
                #expect(try rows[0].value(Bool.self, at: 0) == false, "\(proof)")
                await authenticator.close()
            }
            try await TokenStore(connection: owner).revoke(id: token.id)
            #expect(try await sessions.begin(token) == nil)
            await owner.close()
            await pool.close()
        }
    }

    @Test("link prints an address that logs in, for active tokens only")
    func link() async throws {
        let folder = TestFolder.path("link")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        let port = try await server.ports().private
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["token"] + arguments + ["--data-folder", folder, "--log-level", "error"])
        }

        let made = try run("create", "--scope", "read")
        let id = try #require(AccessToken(made.output.trimmingCharacters(in: .whitespacesAndNewlines))?.id)
        let linked = try run("link", id, "--url", "http://127.0.0.1:\(port)/")
        let ticket = try #require(
            linked.output.firstMatch(of: /^http:\/\/127\.0\.0\.1:\d+\/console\/login\?ticket=([0-9a-f]{64})\n$/))
        let page = try await ConsoleBrowser(port: port).post("/console/login", [("ticket", String(ticket.1))])
        for (setting, address) in [
            ([:], "http://127.0.0.1:8081/"), (["SUBLEDGER_PRIVATE_PORT": "9443"], "http://127.0.0.1:9443/"),
            (
                ["SUBLEDGER_PRIVATE_HOST": "::1", "SUBLEDGER_PRIVATE_TLS_CERTIFICATE": "/nowhere.pem"],
                "https://[::1]:8081/"
            ), (["SUBLEDGER_PRIVATE_HOST": "0.0.0.0"], "http://127.0.0.1:8081/"),
        ] {
            let configured = try ServerProcess.run(
                ["token", "link", id, "--data-folder", folder, "--log-level", "error"], environment: setting)
            #expect(configured.output.hasPrefix(address), "\(configured.output)\(configured.error)")
        }
        _ = try run("revoke", id)
        let late = try run("link", id)

        #expect(page.status == 303)
        #expect(late.status != 0)
        #expect(late.error == "subledger: token \(id) is already revoked\n")
        server.signal(SIGTERM)
        try await server.hasEnded()
    }

    @Test("create prints a token once, list omits its secret, and revoke deactivates it")
    func commands() async throws {
        let folder = TestFolder.path("token")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        let port = try await server.ports().private
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["token"] + arguments + ["--data-folder", folder, "--log-level", "error"])
        }

        let made = try run("create", "--scope", "link", "--name", "web shop")
        let token = made.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let id = try #require(AccessToken(token)?.id)
        let asked = try await HTTPClient(port: port, token: token).get("/subscriptions/1").status
        let listed = try run("list")
        let revoked = try run("revoke", id)
        let again = try run("revoke", id)
        let unknown = try run("revoke", "0")
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(made.status == 0)
        #expect(asked == 404)
        #expect(listed.output.hasPrefix("\(id) link, created 20"))
        #expect(listed.output.hasSuffix(", active: web shop\n"))
        #expect(revoked.output == "token \(id) revoked\n")
        #expect(again.status == 65)
        #expect(again.error == "subledger: token \(id) is already revoked\n")
        #expect(unknown.error == "subledger: there is no token 0: see `subledger token list`\n")
        #expect(!server.log.contains(token.suffix(64)))
    }
}
