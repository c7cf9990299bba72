import Foundation
import TestSupport
import Testing

@Suite("Rules that all articles keep")
struct ArticleRuleTests {
    private static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The files of some folders with an ending.
    private static func files(_ folders: [String], _ endings: Set<String>) throws -> [(path: String, text: String)] {
        try folders.flatMap { folder -> [(path: String, text: String)] in
            let all = FileManager.default.enumerator(
                at: repository.appendingPathComponent(folder), includingPropertiesForKeys: nil)
            return try (all?.allObjects ?? []).compactMap { $0 as? URL }.filter { endings.contains($0.pathExtension) }
                .map { ($0.path, try String(contentsOf: $0, encoding: .utf8)) }
        }
    }

    private static func articles() throws -> [(path: String, text: String)] {
        let readme = try String(contentsOf: repository.appendingPathComponent("README.md"), encoding: .utf8)
        return try files(["Sources/subledger/Documentation.docc"], ["md"]) + [("README.md", readme)]
    }

    // MARK: - Apple's retries

    private static let statement =
        "Apple retries production notifications for three days in version 1 and six in version 2"

    /// Sentences that say how long Apple retries a notification, in a file without its line breaks and comment marks.
    private static func statements(_ text: String) -> [String] {
        // Patterns over all files take a minute.
        guard text.contains("retries") || text.contains("repeats") else { return [] }
        let plain = text.replacing(#/\s*\n[ *#\/>\-]*/#, with: " ")
        return plain.split(separator: #/[.:;|] /#).map(String.init).filter { sentence in
            sentence.contains(#/Apple (retries|repeats)/#) && sentence.contains(#/(three|six|[0-9]+) (days|hours)/#)
                && !sentence.contains(#/renewal|payment|60 days/#)
        }
    }

    @Test("every statement of how long Apple retries a notification is the same")
    func retries() throws {
        let files = try Self.articles() + Self.files(["Sources", "deploy"], ["swift", "json", "yml", "yaml", "sql"])
        var count = 0
        for (path, text) in files {
            for sentence in Self.statements(text) {
                #expect(sentence.contains(Self.statement), "\(path): \(sentence)")
                count += 1
            }
        }

        #expect(count >= 7)
        #expect(Self.statements("a: Apple retries for\n    // three days. Then").count == 1)
        #expect(Self.statements("Apple retries the payment for 60 days.").isEmpty)
    }

    @Test("the simulated App Store retries as Guarantees says, with the hours counted from the attempt before")
    func schedule() throws {
        let guarantees = try #require(try Self.articles().first { $0.path.hasSuffix("/Guarantees.md") }).text
        let sources = try Self.files(["Sources/Simulation"], ["swift"])
        let sender = try #require(sources.first { $0.path.hasSuffix("/NotificationSender.swift") }).text

        let plain = guarantees.replacing(#/\s*\n */#, with: " ")
        let hours = "after 6, 24 and 48 hours in version 1, and after 1, 12, 24, 48 and 72 hours in version 2"
        #expect(plain.contains(hours))
        #expect(sender.contains("[1, 12, 24, 48, 72]"))
    }

    // MARK: - Commands

    /// What is still running at the end of an article: a line that ends in `&` starts a job, and `kill` ends some.
    private static func running(_ article: String) -> Int {
        var running = 0
        var isCode = false
        for line in article.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") { isCode = line == "```console" }
            guard isCode else { continue }
            if line.hasSuffix(" &") { running += 1 }
            if line.hasPrefix("$ kill ") { running -= line.split(separator: " ").count - 2 }
        }
        return running
    }

    @Test("what an article starts, it stops")
    func stops() throws {
        let articles = try Self.articles()
        for (path, text) in articles { #expect(Self.running(text) == 0, "\(path)") }

        #expect(articles.filter { $0.text.contains(#/\n\$ subledger serve.* &\n/#) }.count >= 6)
        #expect(Self.running("```console\n$ subledger serve &\n$ date\n```\n") == 1)
        #expect(Self.running("```console\n$ subledger serve &\n```\ntext\n```console\n$ kill %1\n```\n") == 0)
    }

    @Test("each script prints its usage with --help, and does nothing else")
    func help() throws {
        let folder = Self.repository.appendingPathComponent("deploy")
        let scripts = try FileManager.default.contentsOfDirectory(atPath: folder.path).map(
            folder.appendingPathComponent
        )
        .filter {
            let values = try $0.resourceValues(forKeys: [.isRegularFileKey, .isExecutableKey])
            return values.isRegularFile == true && values.isExecutable == true
        }
        #expect(scripts.count >= 19)

        for script in scripts {
            let run = try Process.run(script, ["--help"], limit: 20)
            #expect(run.status == 0, "\(script.lastPathComponent): \(run.errorText)")
            #expect(run.outputText.contains("deploy/\(script.lastPathComponent)"), "\(script.lastPathComponent)")
            #expect(run.errorText == "", "\(script.lastPathComponent)")
        }
    }

    @Test("the article about Kubernetes creates the roles before it grants them, and grants them before pods use them")
    func kubernetes() throws {
        let article = try #require(try Self.articles().first { $0.path.hasSuffix("/Installing.md") }).text
        let steps = [
            "create role subledger_server login", "--selector app.kubernetes.io/component=migrate\n",
            "wait --for=condition=complete --timeout=5m job/subledger-migrate", "grant subledger_receiver,",
            "$ kubectl apply --kustomize deploy/kubernetes\n", "rollout status deployment/subledger-receiver",
        ]
        var rest = Substring(article)
        for step in steps {
            let range = try #require(rest.range(of: step), "\(step)")
            rest = rest[range.upperBound...]
        }
        let job = try String(
            contentsOf: Self.repository.appendingPathComponent("deploy/kubernetes/migrate.yaml"), encoding: .utf8)
        #expect(job.contains("\n  labels: {app.kubernetes.io/component: migrate}\nspec:"))
    }
}
