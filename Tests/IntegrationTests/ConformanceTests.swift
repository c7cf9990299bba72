import Foundation
import TestSupport
import Testing

/// Whether the script has what it needs.
private let isRunnable = ["python3", "openssl", "psql"].allSatisfy { tool in
    (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .contains { access("\($0)/\(tool)", X_OK) == 0 }
}

/// Runs the corpus of cases that other people reported, in `Tests/Conformance`, with `deploy/conformance`.
@Suite("The conformance corpus", .enabled(if: isRunnable, "python3, openssl or psql is missing"))
struct ConformanceTests {
    /// The cases that do not hold yet. A case that begins to hold must leave the list.
    static let knownToFail: Set<String> = []

    private static let repository = DocumentationArticle.repository

    @Test("every case holds, except those that are known to fail", .timeLimit(.minutes(10)))
    func corpus() throws {
        let result = try Self.run(["--json", "--program", ServerProcess.executable.path])

        let report = try #require(
            try JSONSerialization.jsonObject(with: result.output) as? [String: Any], "\(result.error)")
        let cases = try #require(report["cases"] as? [[String: Any]])
        #expect(cases.count >= 138)
        var failing: Set<String> = []
        for item in cases {
            let id = try #require(item["id"] as? String)
            let promises = try #require(item["promises"] as? [[String: String]])
            #expect(item["error"] == nil, "\(id): \(item["error"] ?? "")")
            #expect(!promises.isEmpty && promises.allSatisfy { $0["verdict"] != "not checked" }, "\(id)")
            guard item["verdict"] as? String == "fails" else { continue }
            failing.insert(id)
            let broken = promises.filter { $0["verdict"] == "fails" }
                .map { "\($0["promise"] ?? ""): \($0["found"] ?? "")" }
            #expect(Self.knownToFail.contains(id), "\(id): \(broken.joined(separator: "; "))")
        }
        #expect(Self.knownToFail.subtracting(failing) == [], "these hold now: take them off the list")
        #expect(result.status == (failing.isEmpty ? 0 : 1))
    }

    @Test("the files of the corpus are listed, each with its kind, and an unknown case is wrong usage")
    func usage() throws {
        let files = try FileManager.default.contentsOfDirectory(
            atPath: Self.repository.appendingPathComponent("Tests/Conformance").path)

        let listed = try Self.run(["--list"])
        let unknown = try Self.run(["--case", "nothing"])

        let lines = String(decoding: listed.output, as: UTF8.self).split(separator: "\n")
        #expect(listed.status == 0)
        #expect(lines.map { "\($0.prefix { $0 != ":" }).json" } == files.sorted())
        #expect(lines.allSatisfy { $0.hasSuffix(")") })
        #expect(unknown.status == 2)
        #expect(unknown.error == "deploy/conformance: no case is called 'nothing': --list lists them\n")
    }

    @Test(
        "a malformed case is wrong usage, and the error says what is expected",
        arguments: [
            (#""kind": "money""#, #""kind": "luck""#, "unknown kind 'luck': expected one of identity, end of access, "),
            (#""kind": "money", "#, "", "missing kind"),
            ("https://a.example", "a report", "the source 'a report' is no address"),
            (#"{"wait": "now"}"#, #"{"pray": 1}"#, #"the step {"pray": 1} must have one of notify, post, "#),
            (#""why""#, #""because": "it is", "why""#, "unknown because: expected id, title, kind, "),
            (#""id": "a""#, #""id": "b""#, "the id 'b' must be the file's name"),
        ])
    func malformed(_ part: String, _ changed: String, _ error: String) throws {
        let text = #"""
            {"id": "a", "title": "t", "kind": "money", "sources": ["https://a.example"], "why": "w",
            "steps": [{"wait": "now"}]}
            """#
        let folder = URL(fileURLWithPath: TestFolder.path("corpus"))
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appendingPathComponent("a.json")

        try Data(text.utf8).write(to: file)
        let sound = try Self.run(["--list", "--cases", folder.path])
        try Data(text.replacing(part, with: changed).utf8).write(to: file)
        let result = try Self.run(["--list", "--cases", folder.path])

        #expect(sound.status == 0)
        #expect(result.status == 2)
        #expect(result.error.hasPrefix("deploy/conformance: a.json: \(error)"), "\(result.error)")
    }

    private static func run(_ arguments: [String]) throws -> (status: Int32, output: Data, error: String) {
        // The script stops its server when it is terminated.
        let result = try Process.run(
            repository.appendingPathComponent("deploy/conformance"), arguments, limit: 540)
        return (result.status, result.output, result.errorText)
    }
}
