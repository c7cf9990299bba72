import Foundation
import TestSupport
import Testing

@Suite("The fold command gives the same results as the server")
struct FoldCommandTests {
    /// The JSON object on the only line of the output.
    private static func fold(_ sent: [ExampleBodies.Sent], _ arguments: [String]) throws -> [String: Any] {
        let result = try ServerProcess.run(["fold", "-"] + arguments, input: try ExampleBodies.jsonLines(sent))
        #expect(result.status == 0, "\(result.error)")
        return try #require(
            try JSONSerialization.jsonObject(with: Data(result.output.utf8)) as? [String: Any])
    }

    static let orders: [@Sendable ([ExampleBodies.Sent]) -> [ExampleBodies.Sent]] = [
        { $0 }, { $0.reversed() }, { $0 + $0 }, { $0.reversed() + $0 },
    ]

    @Test("the magazine example matches each row of its table", arguments: orders.indices)
    func magazine(_ order: Int) throws {
        let sent = Self.orders[order](ExampleBodies.magazine)
        let table: [(at: String, status: String, active: Bool)] = [
            ("2018-02-01", "never", false), ("2018-02-20", "active", true), ("2018-03-20", "active", true),
            ("2018-04-01", "active", true), ("2018-04-15", "active-will-end", true), ("2018-04-20", "expired", false),
            ("2018-05-01", "expired", false), ("2018-06-17", "active", true), ("2018-07-17", "expired", false),
        ]

        for row in table {
            let line = try Self.fold(sent, ["--at", row.at])
            #expect(line["status"] as? String == row.status, "\(row.at)")
            #expect(line["active"] as? Bool == row.active, "\(row.at)")
        }
        let line = try Self.fold(
            sent, ["--at", "2018-12-31"] + (1...8).flatMap { ["--published-at", "2018-0\($0)-01"] })
        let issues = try #require(line["issues"] as? [[String: Any]])
        #expect(issues.map { $0["readable"] as? Bool } == [false, true, true, true, false, true, true, false])
        let lapses = try #require(line["lapses"] as? [[String: String]])
        #expect(lapses == [["start": "2018-04-20T00:00:00.000Z", "end": "2018-06-17T00:00:00.000Z"]])
    }

    static let settings: [(grace: String?, active: [Bool])] = [
        (nil, [true, false, false, false, false, true, true, true]),
        ("2018-04-23", [true, true, true, false, false, true, true, true]),
        ("2018-05-06", [true, true, true, true, true, true, true, false]),
        ("2018-05-18", [true, true, true, true, true, true, true, false]),
    ]

    @Test("the billing issue matches its table for each grace setting", arguments: settings)
    func billingIssue(_ setting: (grace: String?, active: [Bool])) throws {
        let instants = [
            "2018-04-19", "2018-04-20", "2018-04-22", "2018-04-23", "2018-05-04", "2018-05-05", "2018-05-19",
            "2018-05-20",
        ]
        for order in Self.orders {
            let sent = order(ExampleBodies.billingIssue(grace: setting.grace))
            let active = try instants.map { try Self.fold(sent, ["--at", $0])["active"] as? Bool }
            #expect(active == setting.active, "grace \(setting.grace ?? "none")")
        }
    }

    @Test("--known-at ignores notifications received later")
    func knownAt() throws {
        let refund = ExampleBodies.Sent(
            receivedAt: "2018-05-10T00:00:00Z",
            body: V1Body(
                type: "CANCEL",
                rows: [
                    V1Body.Row(
                        "1000000000000002", subscription: ExampleBodies.subscription,
                        purchase: ExampleBodies.ms("2018-03-20"),
                        expires: ExampleBodies.ms("2018-04-20"), cancelled: ExampleBodies.ms("2018-05-10"))
                ], subscription: ExampleBodies.subscription, autoRenew: false))
        let sent = ExampleBodies.magazine + [refund]

        let before = try Self.fold(sent, ["--at", "2018-04-10", "--known-at", "2018-04-15"])
        let after = try Self.fold(sent, ["--at", "2018-04-10", "--known-at", "2018-05-11"])

        #expect(before["active"] as? Bool == true)
        #expect(after["active"] as? Bool == false)
    }

    @Test("a line that is not a notification is reported with its number, and the other lines are folded")
    func badLine() throws {
        var input = try ExampleBodies.jsonLines(ExampleBodies.magazine)
        input += Data("{\"receivedAt\":\"2018-01-01T00:00:00Z\",\"body\":{}}\nnonsense\n".utf8)

        let result = try ServerProcess.run(["fold", "-", "--at", "2018-03-01"], input: input)

        #expect(result.status == 65)
        #expect(
            result.error == """
                -:5: the body is not an App Store notification: it has neither notification_type nor a signedPayload \
                with a notificationType
                -:6: the body is not JSON: unexpected character at byte 1

                """)
        #expect(result.output.contains("\"status\":\"active\""))
    }
}
