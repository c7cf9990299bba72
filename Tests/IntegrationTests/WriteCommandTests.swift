import Encoding
import Foundation
import Simulation
import TestSupport
import Testing

@Suite("extend and account-token change purchases at the simulated App Store")
struct WriteCommandTests {
    private static let uuid = "0f3d4a52-7a1c-4d3e-9b5b-1f0e8c6d2a31"

    private static func json(_ line: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }

    @Test("nothing is asked for that is not confirmed, or that is not valid")
    func refusals() async throws {
        try await WriteCommandBundle.with { bundle in
            let id = bundle.subscriptions[0].originalTransactionId
            func extend(_ more: [String]) throws -> (status: Int32, output: String, error: String) {
                try bundle.run(["extend", "--days", "7", "--reason", "outage"] + more)
            }

            let unasked = try extend(["--subscription", id])
            let terminal = try PseudoTerminal()
            try terminal.type("y")
            let declined = try bundle.run(
                ["extend", "--days", "7", "--reason", "outage", "--subscription", id], terminal: terminal)
            let invalid = try [
                extend(["--yes"]), extend(["--yes", "--subscription", id, "--product", "p"]),
                extend(["--yes", "--subscription", id, "--days", "91"]),
                extend(["--yes", "--subscription", id, "--days", "0"]),
                extend(["--yes", "--subscription", id, "--storefront", "USA"]),
                extend(["--yes", "--product", "p", "--storefront", "us"]),
                extend(["--yes", "--product", "p", "--request-identifier", "outage-1"]),
                extend(["--yes", "--subscription", id, "--request-identifier", String(repeating: "a", count: 129)]),
                extend(["--yes", "--subscription", id, "--environment", "xcode"]),
                extend(["--yes", "--subscription", id, "--reason", " "]),
                bundle.run([
                    "account-token", "set", "--subscription", id, "--token", "u-1", "--reason", "a", "--yes",
                ]),
            ]
            let unknown = try extend(["--yes", "--subscription", "4711"])

            #expect(unasked.status == 64 && unasked.output.isEmpty)
            #expect(unasked.error.contains("There is no terminal to ask on: pass --yes"), "\(unasked.error)")
            #expect(declined.status == 1 && declined.output.isEmpty)
            #expect(
                declined.error.contains("This extends subscription \(id) of com.example.app (production) by 7 days."))
            #expect(declined.error.contains("As far as the ledger knows, it is "), "\(declined.error)")
            #expect(declined.error.hasSuffix("subledger: not confirmed: nothing was requested\n"))
            #expect(invalid.map(\.status) == [Int32](repeating: 64, count: invalid.count))
            #expect(unknown.status == 65)
            #expect(unknown.error.hasPrefix("subledger: no subscription 4711 of com.example.app is known"))
            #expect(try await bundle.events().isEmpty)
        }
    }

    @Test("an extension is confirmed on the terminal, recorded with its reason, and known from Apple's own statement")
    func extend() async throws {
        try await WriteCommandBundle.with { bundle in
            let subscription = bundle.subscriptions[0]
            let id = subscription.originalTransactionId
            let end = try #require(subscription.purchases.last?.expiresDate)
            let extended = end.advanced(by: .seconds(7 * 86_400))
            let terminal = try PseudoTerminal()
            try terminal.type("yes")

            let first = try bundle.run(
                [
                    "extend", "--subscription", id, "--days", "7", "--reason", "outage of Monday", "--reason-code",
                    "outage", "--by", "alice",
                ], terminal: terminal)
            let line = try Self.json(first.output)
            let check = try #require(line["check"] as? [String: Any])
            let state = try await eventually("the new end is known") {
                let state = try await bundle.subscription(id)
                return state["accessUntil"] as? String == "\(extended)" ? state : nil
            }
            let rest = try (0..<2).map { _ in
                try bundle.run(["extend", "--subscription", id, "--days", "1", "--reason", "more", "--yes"])
            }
            let events = try await bundle.events()

            #expect(first.status == 0, "\(first.output)\(first.error)")
            #expect((line["answer"] as? [String: Any])?["effectiveDate"] as? String == "\(extended)")
            #expect(check["result"] as? String == "appended")
            let write = try #require((state["writes"] as? [[String: Any]])?.first)
            #expect(write["by"] as? String == "alice" && write["reason"] as? String == "outage of Monday")
            #expect((write["answer"] as? [String: Any])?["result"] as? String == "accepted")
            #expect((write["positions"] as? [Int])?.count == 2)
            // Apple accepts two in a year.
            #expect(rest.map(\.status) == [0, 65], "\(rest)")
            #expect(
                rest[1].error == """
                    subledger: the App Store refuses the request: the subscription was extended twice in the last 365 \
                    days (error 4030005)

                    """)
            #expect(
                events.map { $0["kind"] as? String }
                    == (0..<3).flatMap { _ in ["write_request", "write_answer"] })
            #expect(events.allSatisfy { $0["source"] as? String == "operator" && $0["type"] == nil })
            try Self.inspect(events, bundle)
            let verified = try ServerProcess.run(["verify", "--all"], environment: bundle.environment)
            #expect(verified.status == 0, "\(verified.output)\(verified.error)")
            #expect(try bundle.run(["compare-sources"]).status == 0)
        }
    }

    /// The stored body is recognised.
    private static func inspect(_ events: [[String: Any]], _ bundle: WriteCommandBundle) throws {
        let facts = try #require(events.last?["facts"] as? [String: Any])
        let body = try JSONSerialization.data(withJSONObject: try #require(facts["write"]))
        try body.write(to: URL(fileURLWithPath: "\(bundle.folder)/body.json"))
        let inspected = try ServerProcess.run(["inspect", "\(bundle.folder)/body.json"])
        #expect(inspected.status == 0, "\(inspected.error)")
        #expect(inspected.output.contains(#""why":"requests of operators are not signed""#))
        #expect(inspected.output.contains(#""kind":"write_answer","write":{"action":"extend""#))
    }

    @Test("an account token is on the purchase as soon as the check after it was folded")
    func accountToken() async throws {
        try await WriteCommandBundle.with { bundle in
            let id = bundle.subscriptions[0].originalTransactionId

            let set = try bundle.run([
                "account-token", "set", "--subscription", id, "--token", Self.uuid.uppercased(), "--reason",
                "support case 7", "--yes",
            ])
            let answer = try await eventually("the subscription has the token") {
                let answer = try await bundle.backend.get("/subscriptions/\(id)?at=\(bundle.now)")
                return answer.body.contains(#""appAccountToken":"\#(Self.uuid)""#) ? answer : nil
            }

            #expect(set.status == 0, "\(set.output)\(set.error)")
            #expect(set.output.contains(#""action":"set_account_token""#))
            #expect(set.output.contains(#""by":"\#(NSUserName())","reason":"support case 7""#))
            #expect((answer.json["writes"] as? [Any])?.count == 1)
        }
    }

    @Test("all subscriptions of a product are extended, and the status says how far Apple is")
    func extendAll() async throws {
        try await WriteCommandBundle.with { bundle in
            let subscription = bundle.subscriptions[0]
            let product = try #require(subscription.purchases.last).product.id
            let country = subscription.customer.storefront.country
            let status = ["extend", "status", "--product", product]

            let early = try bundle.run(status)
            let elsewhere = try bundle.run(status + ["--request-identifier", Self.uuid])
            let all = try bundle.run([
                "extend", "--product", product, "--storefront", country, "--days", "3", "--reason", "outage",
                "--request-identifier", Self.uuid, "--yes",
            ])
            let running = try bundle.run(status)
            try await bundle.setStoreClock(bundle.now.advanced(by: .seconds(3600)))
            let complete = try bundle.run(status)
            let nowhere = try bundle.run([
                "extend", "--product", "com.example.none", "--days", "3", "--reason", "outage", "--yes",
            ])

            #expect(early.status == 65)
            #expect(early.error.contains("no extension of all subscriptions of \(product) was requested"))
            #expect(elsewhere.status == 65 && elsewhere.error.contains("(error 4040009)"), "\(elsewhere.error)")
            #expect(all.status == 0, "\(all.output)\(all.error)")
            #expect(all.output.contains(#""storefrontCountryCodes":["\#(country)"]"#))
            #expect(running.output.hasSuffix(#""requestIdentifier":"\#(Self.uuid)","complete":false}"# + "\n"))
            let counts = try Self.json(complete.output)
            #expect(counts["complete"] as? Bool == true && counts["completeDate"] is String)
            #expect((1...2).contains(counts["succeeded"] as? Int ?? 0) && counts["failed"] as? Int == 0)
            #expect(nowhere.status == 65 && nowhere.error.contains("(error 4000023)"), "\(nowhere.error)")
            // What is about a product is about none of its subscriptions.
            #expect(try await bundle.subscription(subscription.originalTransactionId)["writes"] == nil)
        }
    }

    @Test("a command that is killed while Apple answers is repeated, and the subscription is extended once")
    func killed() async throws {
        try await WriteCommandBundle.with { bundle in
            let subscription = bundle.subscriptions[0]
            let id = subscription.originalTransactionId
            let end = try #require(subscription.purchases.last?.expiresDate)
            let extend = ["extend", "--subscription", id, "--days", "7", "--reason", "outage", "--yes"]
            try await HeldAnswer.serve(before: bundle.store) { held in
                let process = Process()
                process.executableURL = ServerProcess.executable
                process.arguments = extend + ["--app", WriteCommandBundle.app]
                process.environment = ProcessInfo.processInfo.environment.merging(bundle.environment) { $1 }.merging([
                    "SUBLEDGER_SERVER_API_URL": "\(held.address)/production"
                ]) { $1 }
                process.standardOutput = FileHandle.nullDevice
                try process.run()
                _ = try await eventually("Apple has extended the subscription") { held.isHolding ? true : nil }
                kill(process.processIdentifier, SIGKILL)
                try process.end(within: 10)
            }

            let pending = try await bundle.subscription(id)
            let again = try bundle.run(extend)
            let events = try await bundle.events()

            let write = try #require((pending["writes"] as? [[String: Any]])?.first)
            #expect(write["answer"] == nil && (write["positions"] as? [Int])?.count == 1)
            #expect(again.status == 0, "\(again.output)\(again.error)")
            let line = try Self.json(again.output)
            #expect(line["requestIdentifier"] as? String == write["requestIdentifier"] as? String)
            #expect(line["repeats"] as? Int == (write["positions"] as? [Int])?.first)
            #expect(
                (line["answer"] as? [String: Any])?["effectiveDate"] as? String
                    == "\(end.advanced(by: .seconds(7 * 86_400)))")
            #expect(
                events.map { $0["kind"] as? String } == ["write_request", "write_request", "write_answer"])
        }
    }
}
