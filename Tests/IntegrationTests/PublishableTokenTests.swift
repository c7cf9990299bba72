import AppStore
import Encoding
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import Simulation
import TestSupport
import Testing

@testable import EventLog
@testable import HTTPServer

@Suite("Publishable tokens, with which apps hand in their users' purchases and read what they may use")
struct PublishableTokenTests {
    private static let app = SignedBody.app
    /// The operations that a publishable token opens.
    private static let opened: Set = [
        "GET /customers/{customerId}/entitlements", "POST /purchases", "POST /transactions",
    ]

    /// A server, and the publishable token of its app.
    private static func withServer(_ test: (TestBundle, String) async throws -> Void) async throws {
        let keys = try #require(AssertionKeys(secrets: [AssertionText.secret], publicKeys: []))
        try await TestBundle.withServer(
            apps: [App(bundleId: app)], roots: SignedBody.roots, assertions: [app: keys]
        ) { server in
            try await test(server, try await TestBundle.token(.publishable, server.database, app: app))
        }
    }

    private static func send(
        _ server: TestBundle, _ token: String, _ method: String, _ path: String,
        assertion: String? = AssertionText.hs256(),
        body: String? = nil
    ) async throws -> HTTPAnswer {
        try await HTTPClient(port: server.backend.port, token: token, patience: server.backend.patience).send(
            method, path, headers: assertion.map { ["Subledger-Assertion": $0] } ?? [:],
            body: body.map { Array($0.utf8) })
    }

    private static let handInPath = "/transactions?app=\(app)&environment=any"
    private static let handedIn = #"{"signedTransaction":"\#(DeviceText.transaction())"}"#

    private static func entitlements(_ customer: String, _ query: String = "&environment=sandbox") -> String {
        "/customers/\(customer)/entitlements?app=\(app)\(query)"
    }

    @Test("every other route answers 403, with an assertion or without")
    func everyRoute() async throws {
        try await Self.withServer { server, token in
            let document = try await HTTPClient(port: server.backend.port).get("/openapi.json").json
            let paths = try #require(document["paths"] as? [String: [String: Any]])
            var seen: Set<String> = []
            for (path, item) in paths {
                for (method, operation) in item where method != "parameters" {
                    let name = "\(method.uppercased()) \(path)"
                    let security = try #require((operation as? [String: Any])?["security"] as? [[String: [String]]])
                    for assertion in [AssertionText.hs256(), nil] {
                        let answer = try await Self.send(
                            server, token, method.uppercased(), path.replacing(/\{[^}]*\}/, with: "1"),
                            assertion: assertion)
                        if Self.opened.contains(name) {
                            seen.insert(name)
                            #expect(security.contains { $0["token"] == ["publishable"] }, "\(name)")
                            if assertion == nil { #expect(answer.status == 401, "\(name)") }
                        } else {
                            #expect(answer.status == (security.isEmpty ? 200 : 403), "\(name)")
                        }
                    }
                }
            }
            #expect(seen == Self.opened)
            // The console's pages know sessions only.
            for page in server.pages where page.hasPrefix("GET ") && !ConsoleLoginTests.open.contains(page) {
                let path = String(page.dropFirst(4)).replacing(/\{[^}]*\}/, with: "1").replacing("**", with: "x")
                let answer = try await Self.send(server, token, "GET", path + "?stream=a%3Ab")
                #expect(answer.status == 303, "\(page)")
                #expect(answer.headers["location"]?.hasPrefix("/console/login") == true, "\(page)")
            }
        }
    }

    @Test("a user hands in purchases, and reads what they entitle to, as JSON or signed")
    func own() async throws {
        try await Self.withServer { server, token in
            let handed = try await Self.send(server, token, "POST", Self.handInPath, body: Self.handedIn)
            try await server.isFolded()
            let read = try await Self.send(server, token, "GET", Self.entitlements("u-1"))
            let signed = try await Self.send(
                server, token, "GET", Self.entitlements("u-1", "&environment=sandbox&signed=true"))

            #expect(handed.status == 200, "\(handed.body)")
            #expect(handed.json["customerId"] as? String == "u-1")
            #expect(handed.json["linked"] as? Bool == true)
            #expect(read.status == 200, "\(read.body)")
            #expect((read.json["entitlements"] as? [[String: Any]])?.first?["entitlement"] as? String == "monthly")
            #expect(signed.headers["content-type"] == "application/jwt")
        }
    }

    @Test("another customer, another app and an id of a transaction are refused")
    func others() async throws {
        try await Self.withServer { server, token in
            func status(_ method: String, _ path: String, _ body: String? = nil) async throws -> (Int, String?) {
                let answer = try await Self.send(server, token, method, path, body: body)
                return (answer.status, answer.json["field"] as? String)
            }
            let other = #"{"signedTransaction":"\#(DeviceText.transaction())","customerId":"u-2"}"#

            #expect(try await status("GET", Self.entitlements("u-2")) == (403, "customerId"))
            #expect(try await status("POST", Self.handInPath, other) == (403, "customerId"))
            #expect(try await status("GET", "/customers/u-1/entitlements") == (403, "app"))
            #expect(try await status("GET", "/customers/u-1/entitlements?app=com.example.other") == (403, "app"))
            #expect(try await status("POST", "/transactions?app=com.example.other", Self.handedIn) == (403, "app"))
            #expect(try await status("POST", "/purchases?app=com.example.other", "{}") == (403, "app"))
            #expect(
                try await status("POST", Self.handInPath, #"{"transactionId":"2000000000000001"}"#)
                    == (403, "transactionId"))
            // A subscription's id is no customer of the app's backend.
            _ = try await Self.send(server, token, "POST", Self.handInPath, body: Self.handedIn)
            try await server.isFolded()
            let thief = AssertionText.hs256(AssertionText.claims(DeviceText.id))
            let stolen = try await Self.send(
                server, token, "GET", Self.entitlements(DeviceText.id), assertion: thief)
            #expect(stolen.status == 404)
            #expect(
                try await server.sql("select count(*)::text from subledger.event where kind = 'transaction'") == ["1"])
        }
    }

    @Test("an assertion that expired a second ago, of another app's backend, or of an app without keys is refused")
    func assertions() async throws {
        try await Self.withServer { server, token in
            let expired = AssertionText.hs256(AssertionText.claims(exp: AssertionText.now - 1))
            let foreign = AssertionText.hs256(secret: "the secret of another app's backend, 32 b")
            let other = try await TestBundle.token(.publishable, server.database, app: "com.example.other")

            for (assertion, detail) in [
                (expired, "the assertion has expired"), (foreign, "none of the app's keys signed the assertion"),
                (nil, "missing header Subledger-Assertion"),
            ] {
                let answer = try await Self.send(server, token, "GET", Self.entitlements("u-1"), assertion: assertion)
                #expect(answer.status == 401)
                #expect(answer.json["detail"] as? String == detail)
            }
            #expect(try await Self.send(server, other, "GET", Self.entitlements("u-1")).status == 403)
        }
    }

    @Test("the backend of one of two apps cannot make assertions for the other one's users")
    func otherBackend() async throws {
        let apps = [Self.app, "com.example.other"]
        let secrets = [AssertionText.secret, "the secret of another app's backend, 32 b"]
        var keys: [String: AssertionKeys] = [:]
        for (app, secret) in zip(apps, secrets) {
            keys[app] = try #require(AssertionKeys(secrets: [secret], publicKeys: []))
        }
        try await TestBundle.withServer(
            apps: apps.map { App(bundleId: $0) }, roots: SignedBody.roots, assertions: keys
        ) { server in
            // Both before the server reads the tokens.
            var tokens: [String] = []
            for app in apps { tokens.append(try await TestBundle.token(.publishable, server.database, app: app)) }
            for (number, app) in apps.enumerated() {
                let path = "/customers/u-1/entitlements?app=\(app)&environment=sandbox"
                func answer(_ secret: String) async throws -> HTTPAnswer {
                    try await Self.send(
                        server, tokens[number], "GET", path, assertion: AssertionText.hs256(secret: secret))
                }
                let own = try await answer(secrets[number])
                let foreign = try await answer(secrets[1 - number])

                #expect(own.status == 404, "\(own.body)")
                #expect(foreign.status == 401)
                #expect(foreign.json["detail"] as? String == "none of the app's keys signed the assertion")
            }
        }
    }

    @Test("requests are limited by address and by customer")
    func limits() throws {
        let keys = try #require(AssertionKeys(secrets: [AssertionText.secret], publicKeys: []))
        let (gate, now) = (AppGate(keys: [Self.app: keys]) { TestBundle.now }, ContinuousClock.now)
        let addresses = try (1...100).map { try SocketAddress(ipAddress: "192.0.2.\($0)", port: 1) }
        func status(_ customer: String, from address: Int, after seconds: Int = 0) -> Int {
            var head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/")
            head.headerFields[AppGate.header ?? .accept] = AssertionText.hs256(AssertionText.claims(customer))
            let request = Request(head: head, body: .init(buffer: ByteBuffer()))
            do throws(Problem) {
                try gate.admit(from: PeerAddress(addresses[address]), at: now + .seconds(seconds))
                _ = try gate.user(of: request, of: Self.app, at: now + .seconds(seconds))
                return 200
            } catch {
                return error.status.code
            }
        }

        for number in 0..<HTTPServer.Limits.userRequestBurstMax { #expect(status("u-1", from: number % 100) == 200) }
        #expect(status("u-1", from: 0) == 429)
        #expect(status("u-2", from: 0) == 200)
        #expect(status("u-1", from: 0, after: 1) == 200)
        for number in 0..<HTTPServer.Limits.appRequestBurstMax { _ = status("v-\(number)", from: 50) }
        #expect(status("w", from: 50) == 429)
        #expect(status("w", from: 51) == 200)
    }

    @Test("a publishable token needs an app, and no other token has one")
    func command() async throws {
        let folder = TestFolder.path("publishable")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["token"] + arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        _ = try ServerProcess.run(["migrate", "--data-folder", folder, "--log-level", "error"])

        let made = try run("create", "--scope", "publishable", "--app", Self.app, "--name", "iOS")
        let without = try run("create", "--scope", "publishable")
        let other = try run("create", "--scope", "read", "--app", Self.app)
        let listed = try run("list")

        #expect(made.status == 0, "\(made.error)")
        #expect(AccessToken(made.output.trimmingCharacters(in: .whitespacesAndNewlines)) != nil)
        #expect(without.status != 0 && other.status != 0)
        #expect(listed.output.contains(" publishable of \(Self.app), created 20"))
        #expect(listed.output.hasSuffix(", active: iOS\n"))
    }

    @Test("the apps file has the keys of assertions, and an error quotes no secret")
    func appsFile() throws {
        func error(_ assertions: String) throws -> String {
            let file = TestFolder.path("assertions.json")
            defer { try? FileManager.default.removeItem(atPath: file) }
            try Data(#"[{"bundleId":"com.example.app","assertions":\#(assertions)}]"#.utf8)
                .write(to: URL(fileURLWithPath: file))
            return try ServerProcess.run(
                ["serve", "--apps-file", file, "--data-folder", "/nowhere/at/all"], limit: 20
            ).error
        }
        let short = String(repeating: "s", count: 31)

        for wrong in [
            "[]", "{}", #"{"secrets":["\#(short)"]}"#, #"{"publicKeys":["AAAA"]}"#, #"{"secrets":"\#(short)"}"#,
        ] {
            let text = try error(wrong)
            #expect(text.contains("app com.example.app: assertions"), "\(text)")
            #expect(!text.contains(short))
        }
        #expect(try error(#"{"secret":["x"]}"#).contains(#"unknown setting "assertions.secret""#))
    }
}
