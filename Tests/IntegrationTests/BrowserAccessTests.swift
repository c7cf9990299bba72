import EventLog
import TestSupport
import Testing

@testable import HTTPServer

/// Sources: WHATWG URL, section 3.5 (names that end in a number are addresses); RFC 6761, RFC 6762, RFC 6797.
@Suite("Hosts by which browsers reach the private listener")
struct BrowserAccessTests {
    @Test(
        "without TLS, only addresses, local names and configured names are accepted",
        arguments: [
            ("127.0.0.1:8081", true), ("[::1]:8081", true), ("192.0.2.7", true), ("localhost:8081", true),
            ("LOCALHOST.", true), ("a.localhost", true), ("subledger:8081", true), ("ledger.local", true),
            ("ledger.prod.svc:8081", true), ("ledger.prod.svc.cluster.local", true), ("db.internal", true),
            ("ledger.example.com:8081", true), ("LEDGER.example.com.:8081", true),
            ("rebound.example.net:8081", false), ("127.0.0.1.example.net", false), ("example.com", false),
            ("xledger.example.com", false), ("localhost.example.net", false), ("a..", false),
        ])
    func hosts(_ authority: String, _ isAccepted: Bool) {
        let browsers = BrowserAccess(transport: .loopback, names: ["Ledger.example.com"])

        #expect(browsers.accepts(authority) == isAccepted)
        // A certificate tells whose name it is.
        #expect(BrowserAccess(transport: .tls).accepts(authority))
        #expect(BrowserAccess(transport: .exposed, names: ["ledger.example.com"]).accepts(authority) == isAccepted)
    }

    @Test("a page of another name reads nothing that needs no token; with a token, any name is accepted")
    func rebinding() async throws {
        try await TestBundle.withServer { server in
            let host = ["Host": "rebound.example.net:8081"]
            let page = HTTPClient(port: server.backend.port, patience: .seconds(60))
            for path in [
                "/health", "/health/ready", "/metrics", "/openapi.json", "/console", "/console/login",
                "/.well-known/jwks.json",
            ] {
                let answer = try await page.send("GET", path, headers: host)
                #expect(answer.status == 421, "\(path)")
                #expect(answer.body.contains("SUBLEDGER_PRIVATE_NAMES"), "\(path)")
                #expect(try await page.get(path).status != 421, "\(path)")
            }
            #expect(try await server.backend.send("GET", "/events?limit=1", headers: host).status != 421)
        }
    }

    @Test("with TLS, browsers are told to come back over TLS, except on a name that other programs share")
    func strictTransport() async throws {
        try await TestBundle.withServer(transport: .tls) { server in
            let page = HTTPClient(port: server.backend.port, patience: .seconds(60))
            for path in ["/health", "/console/login", "/nothing"] {
                let answer = try await page.send("GET", path, headers: ["Host": "ledger.example.com"])
                let local = try await page.send("GET", path, headers: ["Host": "localhost:8081"])

                #expect(answer.headers["strict-transport-security"] == "max-age=31536000", "\(path)")
                #expect(answer.headers["x-content-type-options"] == "nosniff", "\(path)")
                #expect(local.headers["strict-transport-security"] == nil, "\(path)")
            }
        }
        try await TestBundle.withServer { server in
            let plain = try await server.backend.get("/health")

            #expect(plain.headers["strict-transport-security"] == nil)
        }
    }
}
