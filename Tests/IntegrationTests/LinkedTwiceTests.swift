import Encoding
import TestSupport
import Testing

@Suite("A link on what another customer owns is refused, or takes it, as the app's policy says")
struct LinkedTwiceTests {
    private typealias Routes = CustomerRoutesTests

    /// With the policy of the app as configured.
    private static func withPolicy(_ policy: String, _ test: (TestBundle) async throws -> Void) async throws {
        try await Routes.withCustomers { server in
            try await Routes.script(
                server.database,
                "insert into subledger.app_ownership (app, policy) values ('com.example.magazine', '\(policy)')")
            try await test(server)
        }
    }

    @Test("under first-buyer a link to another customer's purchase is rejected with its field unless it is a transfer")
    func firstBuyer() async throws {
        try await Self.withPolicy("first-buyer") { server in
            let first = try await Routes.put(server, "u-1", #"{"links":[{"originalTransactionId":"30"}]}"#)
            // Before and after the first one is folded.
            for _ in 0..<2 {
                let refused = try await Routes.put(
                    server, "u-2", #"{"links":[{"originalTransactionId":"10"},{"originalTransactionId":"30"}]}"#)
                #expect(refused.status == 409)
                #expect(refused.json["field"] as? String == "links[1].originalTransactionId")
                #expect(
                    refused.json["detail"] as? String == "another customer owns it: send \"transfer\": true to take it")
                #expect(!refused.body.contains("u-1"))
                try await server.isFolded()
            }
            let moved = try await Routes.put(
                server, "u-2",
                #"{"links":[{"originalTransactionId":"10"},{"originalTransactionId":"30"}],"transfer":true}"#)
            try await server.isFolded()
            let former = try await server.backend.get("/customers/u-1/entitlements?\(Routes.here)&as=link")
            let owner = try await server.backend.get("/customers/u-2/entitlements?\(Routes.here)&as=link")
            let back = try await Routes.put(server, "u-1", #"{"links":[{"originalTransactionId":"30"}]}"#)
            let wrong = try await Routes.put(server, "u-1", #"{"links":[],"transfer":1}"#)

            #expect(first.body == "{\"position\":3,\"duplicate\":false}\n")
            #expect(moved.body == "{\"position\":4,\"duplicate\":false}\n")
            #expect((former.json["entitlements"] as? [Any])?.count == 0, "\(former.body)")
            #expect(owner.body.contains(#""subscriptions":["10","30"]"#), "\(owner.body)")
            #expect(back.status == 409)
            #expect(wrong.status == 400)
            #expect(wrong.json["field"] as? String == "transfer")
        }
    }

    @Test("under first-buyer one of several concurrent links to a purchase is stored and the others are rejected")
    func firstBuyerRace() async throws {
        try await Self.withPolicy("first-buyer") { server in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 1...6 {
                    group.addTask {
                        try await Routes.put(server, "u-\(number)", #"{"links":[{"originalTransactionId":"30"}]}"#)
                            .status
                    }
                }
                return try await group.reduce(into: [Int]()) { $0.append($1) }
            }

            #expect(statuses.sorted() == [200, 409, 409, 409, 409, 409])
        }
    }

    @Test("repeating the links of a customer takes back what another customer has taken")
    func takenBack() async throws {
        let start = ContinuousClock.now
        let clock: @Sendable () -> Instant = {
            TestBundle.now.advanced(byMilliseconds: Int64((ContinuousClock.now - start) / .milliseconds(1)))
        }
        try await TestBundle.withServer(now: clock) { server in
            for body in Routes.bodies { _ = try await server.apple.post(try body.bytes) }
            let links = #"{"links":[{"originalTransactionId":"30"}]}"#
            var answers: [String] = []
            for customer in ["u-1", "u-2", "u-1", "u-1"] {
                answers.append(try await Routes.put(server, customer, links).body)
                try await server.isFolded()
            }

            #expect(
                answers == [
                    "{\"position\":3,\"duplicate\":false}\n", "{\"position\":4,\"duplicate\":false}\n",
                    "{\"position\":5,\"duplicate\":false}\n", "{\"position\":5,\"duplicate\":true}\n",
                ])
        }
    }
}
