import Encoding
import Testing

@testable import Simulation

@Suite("Answers about customers are compared entitlement by entitlement")
struct AnswerComparisonTests {
    private static func instant(_ text: String) -> Instant { Instant(iso8601: text)! }
    private static let at = instant("2025-02-01T00:00:00.000Z")
    private static let end = instant("2025-03-01T00:00:00.000Z")

    private static let ending = AccessText(active: true, until: end)
    private static let noEnd = AccessText(active: true, until: nil)

    private static let expected = CustomerAnswer(
        customer: SimulatedId(.link, "user-1"), at: at,
        entitlements: [
            CustomerAnswer.Entitlement(name: "audio", active: false, until: nil),
            CustomerAnswer.Entitlement(name: "owned", active: true, until: nil),
            CustomerAnswer.Entitlement(name: "plus", active: true, until: end),
        ], story: .linked, isIncomplete: false)

    static let cases: [(active: [String: AccessText]?, differences: [String])] = [
        (["owned": noEnd, "plus": ending], []),
        (["owned": noEnd], ["user-1 plus: active until 2025-03-01T00:00:00.000Z, not active"]),
        (
            ["owned": noEnd, "plus": AccessText(active: true, until: at)],
            ["user-1 plus: active until 2025-03-01T00:00:00.000Z, active until 2025-02-01T00:00:00.000Z"]
        ),
        (
            ["owned": noEnd, "plus": noEnd],
            ["user-1 plus: active until 2025-03-01T00:00:00.000Z, active"]
        ),
        (["owned": ending, "plus": ending], ["user-1 owned: active, active until 2025-03-01T00:00:00.000Z"]),
        (
            ["owned": noEnd, "plus": ending, "audio": ending],
            ["user-1 audio: not active, active until 2025-03-01T00:00:00.000Z"]
        ),
        // An entitlement that the customer never had must not be listed as active either.
        (
            ["owned": noEnd, "plus": ending, "unexpected": noEnd],
            ["user-1 unexpected: not active, active"]
        ),
        (
            nil,
            [
                "user-1 audio: not active, nothing", "user-1 owned: active, nothing",
                "user-1 plus: active until 2025-03-01T00:00:00.000Z, nothing",
            ]
        ),
    ]

    @Test("a missing entitlement is not active, and another end of access is a difference", arguments: cases)
    func differences(_ active: [String: AccessText]?, _ expected: [String]) {
        let found = AnswerQuestion.differences(Self.expected, active)

        #expect(
            found.map { "\($0.subject): \($0.expected), \($0.answered?.description ?? "nothing")" } == expected)
        #expect(found.allSatisfy { $0.isUnanswered == (active == nil) })
    }

    @Test("a difference is described in one line")
    func text() throws {
        let differences = AnswerQuestion.differences(Self.expected, ["owned": Self.noEnd])
        let difference = try #require(differences.first)

        #expect(
            difference.description == """
                user-1 plus (linked) at 2025-02-01T00:00:00.000Z: expected active until 2025-03-01T00:00:00.000Z, \
                answered not active
                """)
    }

    @Test("a path segment percent-encodes every reserved character of an id")
    func segments() {
        #expect(AnswerReader.segment("user-1_a.b~c") == "user-1_a.b~c")
        #expect(AnswerReader.segment("a/b?c#d e%") == "a%2Fb%3Fc%23d%20e%25")
    }

    @Test("a link statement waits for the previous one, whichever is called first")
    func order() async {
        let order = StatementOrder()
        order.finish(3)

        await order.wait(for: 3)
        async let late: Void = order.wait(for: 5)
        order.finish(5)
        await late
    }
}
