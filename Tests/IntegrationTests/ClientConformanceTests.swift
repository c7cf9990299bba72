import Foundation
import TestSupport
import Testing

/// Runs `deploy/client-conformance` against the client library, against a second client, and against wrong ones.
@Suite("The conformance of clients")
struct ClientConformanceTests {
    private static let repository = DocumentationArticle.repository
    private static let secondClient = repository.appendingPathComponent(
        "Tests/IntegrationTests/Fixtures/protocol-client.py"
    ).path

    private struct Report: Decodable {
        let passed: Int
        let scenarios: [Scenario]

        struct Scenario: Decodable {
            let id: String
            let rule: String
            let verdict: String
            let problems: [Problem]
        }

        struct Problem: Decodable {
            let rule: String
            let problem: String
        }

        /// The scenarios that did not pass, with what was broken.
        var others: [String] {
            scenarios.filter { $0.verdict != "passed" && $0.verdict != "skipped" }
                .map { "\($0.id) \($0.verdict): \($0.problems.map { "\($0.rule): \($0.problem)" })" }
        }
    }

    private static func run(_ arguments: [String]) throws -> (status: Int32, output: String, error: String) {
        let result = try Process.run(
            repository.appendingPathComponent("deploy/client-conformance"), arguments, limit: 400)
        return (result.status, result.outputText, result.errorText)
    }

    private static func report(_ arguments: [String]) throws -> (status: Int32, report: Report) {
        let result = try run(["--json"] + arguments)
        do {
            return (result.status, try JSONDecoder().decode(Report.self, from: Data(result.output.utf8)))
        } catch {
            Issue.record("\(result)")
            throw error
        }
    }

    @Test("the client library keeps all rules, in each scenario", .timeLimit(.minutes(10)))
    func library() throws {
        let (status, report) = try Self.report([ClientSampleTests.program.path])

        #expect(report.others == [])
        #expect(status == 0)
        #expect(report.passed >= 57)
    }

    @Test(
        "so does a second client, in another language, that was written from the article, for each store",
        .timeLimit(.minutes(10)), arguments: ["appStore", "googlePlay"])
    func second(_ store: String) throws {
        // The stores differ in what is handed in, not in how.
        let isWhole = TestScale.isFull || store == "appStore"
        let (status, report) = try Self.report(
            (isWhole ? [] : Self.selection(Self.chosen)) + ["python3", Self.secondClient, "--store", store])

        #expect(report.others == [])
        #expect(status == 0)
        #expect(report.passed >= (isWhole ? 54 : Self.chosen.count))
    }

    private static func selection(_ scenarios: [String]) -> [String] { scenarios.flatMap { ["--scenario", $0] } }

    /// A scenario or two of each rule that a mistake breaks, and others.
    fileprivate static let chosen = [
        "purchase", "away-three-days", "pauses", "refused", "two-users", "kept-while-away", "kept-through-errors",
        "answer-ends", "answer-of-another-key", "answer-of-another-app", "clock-back", "user-required",
    ]

    @Test(
        "a client that breaks a rule fails the scenarios of this rule, and those that depend on it",
        .timeLimit(.minutes(10)),
        arguments: [
            (
                "finishes-early", "store-before-finish",
                Array(ClientConformanceTests.chosen.dropLast())
            ),
            ("drops-refused", "store-before-finish", ["refused"]),
            ("grants-too-long", "ended-at-exp", ["answer-ends", "clock-back"]),
            ("hands-in-for-others", "own-purchases", ["two-users"]),
            ("any-key", "checked-answers", ["answer-of-another-key"]),
            ("any-app", "checked-answers", ["answer-of-another-app"]),
            (
                "locks-out", "kept-until-exp",
                ["kept-while-away", "kept-through-errors", "answer-ends", "clock-back"]
            ),
            ("no-pause", "pause-between-attempts", ["pauses"]),
            ("trusts-clock", "trusted-time", ["clock-back"]),
        ])
    func mistakes(_ mistake: String, _ rule: String, _ scenarios: [String]) throws {
        // Those that should fail, and some that should not.
        let others = Self.chosen.filter { !scenarios.contains($0) }
        let tried = scenarios + others.prefix(TestScale.count(2, full: others.count))
        let (status, report) = try Self.report(
            Self.selection(tried) + ["python3", Self.secondClient, "--mistake", mistake])
        let failed = report.scenarios.filter { $0.verdict == "failed" }

        #expect(status == 1)
        #expect(report.scenarios.count == tried.count)
        #expect(Set(failed.map(\.id)) == Set(scenarios), "\(report.others)")
        #expect(failed.contains { $0.problems.contains { $0.rule == rule } }, "\(report.others)")
        #expect(report.passed == tried.count - scenarios.count)
    }

    @Test("each rule of the article has a scenario, and each scenario a rule")
    func rules() throws {
        let article = try DocumentationArticle("ClientProtocol").text
        let section = try #require(article.components(separatedBy: "\n## Rules\n").last)
            .components(separatedBy: "\n## ")[0]
        let rules = Set(section.matches(of: /(?m)^\| `([a-z-]+)` \|/).map { String($0.output.1) })
        let listed = try Self.run(["--list"]).output.split(separator: "\n").map { line in
            line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: true).map(String.init)
        }

        #expect(rules.count >= 20)
        // It holds in every scenario.
        #expect(Set(listed.map { $0[1] }) == rules.subtracting(["hand-in-as-signed"]))
        #expect(Set(listed.map { $0[0] }).count == listed.count)
    }

    @Test("a program that follows no protocol is broken, and wrong arguments are named")
    func broken() throws {
        let silent = try Self.report(["--scenario", "purchase", "true"])
        let talking = try Self.report(["--scenario", "purchase", "echo", "hello"])
        let missing = try Self.report(["--scenario", "purchase", "/no/such/program"])
        let unknown = try Self.run(["--scenario", "nothing", "true"])
        let none = try Self.run([])

        #expect(silent.status == 1 && silent.report.others.count == 1)
        #expect(talking.report.others == [#"purchase broken: ["line-protocol: no line of the protocol: hello"]"#])
        #expect(
            missing.report.others
                == [#"purchase broken: ["line-protocol: cannot start /no/such/program: No such file or directory"]"#])
        #expect(unknown.status == 2 && unknown.error.contains("--scenario nothing: not among those that --list prints"))
        #expect(none.status == 2 && none.error.contains("COMMAND is missing"))
    }
}
