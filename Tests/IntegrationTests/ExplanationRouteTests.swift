import Encoding
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("The explanation of an entitlement over HTTP and as a command")
struct ExplanationRouteTests {
    private static func path(_ id: String, _ query: String) -> String {
        "/customers/\(id)/explanation?\(CustomerRoutesTests.here)&\(query)"
    }

    @Test("the route returns the rules, their events and the sentence that is made from them")
    func route() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let active = try await server.backend.get(Self.path("30", "entitlement=com.example.magazine.monthly"))
            let over = try await server.backend.get(Self.path("10", "entitlement=com.example.magazine.monthly"))

            #expect(active.status == 200, "\(active.body)")
            let explanation = try #require(Explanation(json: try JSONDocument(Array(active.body.utf8)).root))
            #expect(explanation.active)
            #expect(explanation.because.map(\.rule) == [.paid, .ownName, .unclaimed])
            #expect(explanation.because.first?.positions == [2])
            #expect(explanation.couldChange.map(\.rule) == [.clock])
            #expect(
                active.body.hasPrefix(#"{"app":"com.example.magazine","environment":"production","customerId":"30","#))
            #expect(active.body.contains("\"sentence\":\"\(explanation.sentence)\""))
            let ended = try #require(Explanation(json: try JSONDocument(Array(over.body.utf8)).root))
            #expect(!ended.active)
            #expect(ended.because.first?.rule == .clock)
        }
    }

    @Test("as known before the first event there is no customer, and bad requests are named")
    func errors() async throws {
        try await CustomerRoutesTests.withCustomers { server in
            let name = "entitlement=com.example.magazine.monthly"
            let before = try await server.backend.get(Self.path("30", name + "&knownAt=2019-01-01T00:00:00Z"))
            let unnamed = try await server.backend.get(Self.path("30", "at=2019-11-08T08:14:00Z"))
            let unknown = try await server.backend.get(Self.path("99", name))
            let never = try await server.backend.get(Self.path("30", "entitlement=plus"))

            #expect(before.status == 404)
            #expect(unnamed.status == 400)
            #expect(unnamed.body.contains(#""field":"entitlement""#))
            #expect(unknown.status == 404)
            #expect(never.status == 200)
            #expect(never.body.contains(#""active":false,"because":[{"rule":"no_purchase""#), "\(never.body)")
        }
    }

    @Test("explain prints sentences or JSON, beside a running server, and 65 for an unknown id")
    func command() async throws {
        let folder = TestFolder.path("explain")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["explain"] + arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        let server = try ServerProcess(dataFolder: folder)
        let apple = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        let body = V1Body(
            type: "INITIAL_BUY",
            rows: [V1Body.Row("30", subscription: "30", purchase: 1_570_000_000_000, expires: 1_576_000_000_000)],
            subscription: "30", autoRenew: true)
        #expect(try await apple.post(try body.bytes).status == 200)
        let text = try await eventually("the event is folded") {
            let answer = try run("30", "--at", "2019-11-08T08:14:00Z")
            return answer.status == 0 ? answer : nil
        }

        let json = try run(
            "30", "--at", "2019-11-08T08:14:00Z", "--json", "--entitlement", "com.example.magazine.monthly")
        let unknown = try run("99")
        let before = try run("30", "--known-at", "2019-01-01T00:00:00Z")

        #expect(text.output.hasPrefix("com.example.magazine.monthly is active until 10 Dec 2019 17:46:40 UTC"))
        #expect(text.output.contains("(INITIAL_BUY, event 1)"))
        let explanation = try #require(Explanation(json: try JSONDocument(Array(json.output.utf8)).root))
        #expect(explanation.sentence + "\n" == text.output)
        #expect(unknown.status == 65)
        #expect(unknown.error == "subledger: no customer with this id in production\n")
        #expect(before.status == 65)

        server.signal(SIGTERM)
        try await server.hasEnded()
        #expect(try run("30", "--at", "2019-11-08T08:14:00Z").output == text.output)
    }
}
