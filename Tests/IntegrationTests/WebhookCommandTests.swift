import Foundation
import StandardWebhooks
import TestSupport
import Testing

@Suite("Endpoints by command, beside a running server")
struct WebhookCommandTests {
    @Test("an endpoint that is added gets changes, signed; test, disable, enable, replay and rotate say what they did")
    func beside() async throws {
        let folder = TestFolder.path("webhook")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                ["webhook"] + arguments
                    + ["--data-folder", folder, "--log-level", "error", "--allow-private-endpoints"])
        }
        try await ScriptedReceiver.with { receiver in
            let server = try ServerProcess(
                dataFolder: folder, environment: ["SUBLEDGER_ALLOW_PRIVATE_ENDPOINTS": "true"])
            let ports = try await server.ports()
            let url = "http://127.0.0.1:\(receiver.port)/hook"
            // The first event makes the app known.
            let now = Int64(Date().timeIntervalSince1970 * 1000)
            let body = V1Body(
                type: "INITIAL_BUY", subscription: "1", transaction: "1", purchase: now - 60_000,
                expires: now + 3_600_000)
            #expect(try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try body.bytes).status == 200)

            let added = try run(["add", url, "--app", V1Body.app, "--after", "0"])
            #expect(added.status == 0, "\(added.error)")
            let words = added.output.split(whereSeparator: \.isWhitespace).map(String.init)
            let id = try #require(words.first)
            let key = try VerificationKey(try #require(words.last))
            let message = try await eventually(within: .seconds(60), "the change arrives") { receiver.messages.first }
            try WebhookVerifier(keys: [key]).verify(Data(message.body), now: Date()) { message.headers[$0] }
            #expect(message.number == 1)

            #expect(try run(["list"]).output.contains("\(id) active: \(V1Body.app) production, changes all, v1a"))
            let tested = try run(["test", id])
            #expect(tested.status == 0)
            #expect(tested.output.hasPrefix("success 200 after "))
            receiver.answer(usually: .status(503))
            #expect(try run(["test", id]).status == 1)
            receiver.answer(usually: .status(200))
            #expect(try run(["disable", id]).output.contains("disabled "))
            #expect(try run(["enable", id]).output.contains("\(id) active"))
            #expect(try run(["replay", id, "--number", "1"]).output == "1 message is delivered again\n")
            #expect(try run(["rotate"]).output.hasPrefix("whpk_"))
            #expect(try run(["list", "--json"]).output.contains("\"waiting\":"))
            let health = try await HTTPClient(port: ports.private).get("/health").body
            #expect(health.contains(#"{"name":"endpoints","state":"ok"}"#))

            let unknown = try run(["test", "end_0000000000000000"])
            #expect(unknown.status == 65)
            #expect(unknown.error == "subledger: no endpoint has this id\n")
            let secretless = try run(["rotate", id])
            #expect(secretless.status == 65)
            #expect(try run(["replay", id]).status == 64)
            #expect(try run(["replay", id, "--number", "1", "--after", "1"]).status == 64)
            let app = try run(["add", url, "--app", "com.example.unknown"])
            #expect(app.status == 65)
            #expect(app.error == "subledger: no such app: it is not configured here, and has no events\n")
            let scheme = try ServerProcess.run(
                ["webhook", "add", url, "--app", V1Body.app, "--data-folder", folder, "--log-level", "error"])
            #expect(scheme.status == 65)
            #expect(scheme.error == "subledger: the URL must begin with https://\n")

            let keys = "\(folder)/webhook-keys.json"
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: keys)
            let open = try run(["rotate"])
            #expect(open.status == 78)
            #expect(open.error.contains("can be read by other users"))
            server.signal(SIGTERM)
            try await server.hasEnded()
        }
    }
}
