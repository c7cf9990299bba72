import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("README and the articles match the product", .serialized)
struct DocumentationTests {
    /// The articles whose commands are run. CookbookTests runs the queries of the cookbook; all other blocks of
    /// commands are in `notRun`.
    static let run = [
        "README", "QuickStart", "GettingStarted", "Operating", "Configuration", "Security", "Simulator", "HTTPAPI",
        "SQL",
        "Receipts", "Webhooks", "Deliveries", "RefundRequests", "Evidence", "OpenProof", "Conformance", "Export",
        "StoreReports", "Erasure", "Archiving",
    ]

    /// The first command of each block that is marked as not run, so that a block cannot be left out by mistake.
    static let notRun: [String: [String]] = [
        "README": ["deploy/demo", "swift build"],
        "GettingStarted": ["swift build"],
        "Installing": [
            "deploy/install", "sudo subledger token", "sudo install", "deploy/container/build", "kubectl create",
            "kubectl apply", "deploy/check-install",
        ],
        "Backups": ["pg_basebackup", "deploy/restore-drill", "store-simulator --in-step"],
        "Citus": ["psql -h coordinator", "psql -h coordinator"],
        "HighAvailability": ["export SUBLEDGER_DATABASE_URL=", "deploy/failover"],
        "Operating": ["subledger serve --roles", "subledger projector skip"],
        "ConnectingTheAppStore": ["curl"],
        "ConnectingGooglePlay": ["curl"],
        "Explanations": ["subledger explain"],
        "Export": ["psql -c"],
        "StoreReports": ["subledger report import"],
        "Offers": ["curl"],
        "Seats": ["curl -s -X PUT"],
        "Switching": ["subledger import", "deploy/switch-over", "subledger compare-access"],
        "Security": ["subledger inspect"],
        "Console": ["token=", "subledger order"],
        "Receipts": ["export SUBLEDGER_TOKEN=", "curl -s", "subledger receipt verify", "subledger backfill"],
        "Deliveries": ["subledger audit", "subledger probe"],
        "Money": ["subledger rate import", "subledger close"],
        "RefundRequests": ["curl -s -X PUT", "curl -s -X PUT"],
        "OperatorWrites": [
            "subledger extend", "subledger extend", "subledger account-token", "subledger grant", "curl -s -X POST",
        ],
        "Simulator": ["store-simulator --in-step", "store-simulator --in-step"],
        "OpenProof": ["subledger witness"],
        "Conformance": ["deploy/conformance", "deploy/conformance --write-setup"],
        "ClientProtocol": ["deploy/client-conformance"],
        "Performance": [
            "deploy/bench", "swift build", "swift build", "swift build", "swift build", "swift build",
            ".build/release/Benchmarks latency", "swift build", "swift build",
        ],
        "Contributing": [
            "deploy/test", "SUBLEDGER_WRITE_COOKBOOK=1", "SUBLEDGER_TEST_CITUS=1", "deploy/build-times", "deploy/storm",
            "deploy/hostile", "deploy/fuzz", "deploy/console", "docc convert",
        ],
    ]

    @Test("README has at most 150 lines")
    func length() throws {
        let lines = try DocumentationArticle("README").text.split(separator: "\n", omittingEmptySubsequences: false)

        #expect(lines.count - 1 <= 150)
    }

    @Test("every link points to an existing file, and to an existing heading if it has an anchor")
    func links() throws {
        let articles = try DocumentationArticle.all()
        let byFile = Dictionary(uniqueKeysWithValues: articles.map { ($0.file.standardizedFileURL.path, $0) })
        #expect(articles.flatMap(\.links).count > 50)

        for article in articles {
            for link in article.links {
                let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                let folder = article.file.deletingLastPathComponent()
                let target =
                    parts[0].isEmpty ? article.file : folder.appendingPathComponent(parts[0]).standardizedFileURL
                #expect(FileManager.default.fileExists(atPath: target.path), "\(article.name): \(link)")
                if parts.count == 2 {
                    let anchors = byFile[target.standardizedFileURL.path]?.anchors ?? []
                    #expect(anchors.contains(parts[1]), "\(article.name): \(link)")
                }
            }
        }
    }

    @Test("every promise names a test of the normal run, and every suite that the articles name exists")
    func promises() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let suites = Set(
            try FileManager.default.subpathsOfDirectory(atPath: tests.path).filter { $0.hasSuffix("Tests.swift") }
                .map { URL(fileURLWithPath: $0).deletingPathExtension().lastPathComponent })
        let guarantees = try DocumentationArticle("Guarantees").text
        let table = try #require(guarantees.firstRange(of: "## Promises"))
        let rows = guarantees[table.upperBound...].prefix(while: { $0 != "#" }).split(separator: "\n")
            .filter { $0.hasPrefix("| ") }.dropFirst()
        #expect(rows.count > 20)

        for row in rows {
            let named = row.matches(of: /deploy\/test --filter '?([A-Za-z\\|]+)/)
                .flatMap { $0.output.1.replacing("\\", with: "").split(separator: "|").map(String.init) }
            #expect(!named.isEmpty || row.contains("`.ci/run`"), "\(row)")
            #expect(suites.isSuperset(of: named), "\(row)")
        }
        for name in try DocumentationArticle("Contributing").text.matches(of: /`([A-Za-z]+Tests)`/) {
            #expect(suites.contains(String(name.output.1)), "\(name.output.1)")
        }
    }

    @Test("every article is linked from README and from the landing page")
    func reachable() throws {
        let articles = try DocumentationArticle.all()
        let readme = try DocumentationArticle("README")
        let fromReadme = Set(readme.links.map { URL(fileURLWithPath: $0).lastPathComponent })
        let fromLandingPage = Set(try DocumentationArticle("Subledger").links)

        for article in articles where !["README", "Subledger"].contains(article.name) {
            #expect(fromReadme.contains("\(article.name).md"), "\(article.name)")
            #expect(fromLandingPage.contains("\(article.name).md"), "\(article.name)")
        }
    }

    @Test("every named file and test suite exists")
    func files() throws {
        let tests = try FileManager.default.subpathsOfDirectory(
            atPath: DocumentationArticle.repository.appendingPathComponent("Tests").path)
        let suites = Set(tests.map { URL(fileURLWithPath: $0).lastPathComponent })

        for article in try DocumentationArticle.all() {
            for path in article.files {
                // The folder of a pattern, without the full stop of a sentence.
                let folder = path.firstMatch(of: /^[^*]*\/(?=[^\/]*\*)/).map { String($0.output) }
                let trimmed = folder ?? (path.hasSuffix(".") ? String(path.dropLast()) : path)
                let file = DocumentationArticle.repository.appendingPathComponent(trimmed).path
                #expect(FileManager.default.fileExists(atPath: file), "\(article.name): \(path)")
            }
            for suite in article.suites {
                #expect(suites.contains("\(suite).swift"), "\(article.name): \(suite)")
            }
        }
    }

    @Test("the article says where a change goes by files that exist, and by a name alone only if no other file has it")
    func filesOfChanges() throws {
        let repository = DocumentationArticle.repository
        let files = try FileManager.default.subpathsOfDirectory(
            atPath: repository.appendingPathComponent("Sources").path
        ).map { "/Sources/\($0)" }
        let text = try DocumentationArticle("Contributing").text
        let start = try #require(text.firstRange(of: "\n## Where a change goes\n"))
        let tables = text[start.upperBound...].components(separatedBy: "\n## ")[0]
        let named = Set(tables.matches(of: /`([\w+\/]+\.swift)`/).map { String($0.output.1) })
            .filter { !$0.hasPrefix("Tests/") }
        #expect(named.count > 60)

        for name in named {
            let found = files.count { $0.hasSuffix("/\(name)") }
            // Each module has limits of its own.
            #expect(found == 1 || found > 1 && name == "Limits.swift", "\(name): \(found)")
        }
    }

    @Test("every block of commands is run, or is marked with a reason and listed here")
    func marked() throws {
        for article in try DocumentationArticle.all() {
            let blocks = article.blocks.filter(\.isCommands)
            let listed = Self.notRun[article.name] ?? []
            let skipped = blocks.filter { $0.notRunBecause != nil }
            #expect(skipped.count == listed.count, "\(article.name)")
            for (block, command) in zip(skipped, listed) {
                let first = block.lines.first ?? ""
                let text = first.hasPrefix("$ ") ? String(first.dropFirst(2)) : first
                #expect(text.hasPrefix(command), "\(article.name): \(text)")
            }
            if blocks.count > skipped.count { #expect(Self.run.contains(article.name), "\(article.name)") }
        }
    }

    @Test("every alert has an entry in the runbook")
    func alerts() throws {
        let rules = try String(
            contentsOf: DocumentationArticle.repository.appendingPathComponent("deploy/alerts.yml"), encoding: .utf8)
        let alerts = Set(rules.matches(of: /- alert: (\w+)/).map { String($0.output.1) })
        let entries = try DocumentationArticle("Runbook").text.matches(of: /(?m)^### (\w+)$/)
            .map { String($0.output.1) }

        #expect(alerts.count > 15)
        #expect(Set(entries) == alerts && entries.count == alerts.count)
    }

    @Test("each query and command of the runbook runs on a server", .timeLimit(.minutes(5)))
    func runbook() throws {
        let shell = try DocumentationShell(article: "Runbook")
        for command in [
            "export SUBLEDGER_DATA_FOLDER=$(mktemp -d) SUBLEDGER_APP_BUNDLE_ID=com.example.magazine",
            "subledger serve --log-level error &",
            "curl -s --retry 20 --retry-connrefused -o /dev/null http://127.0.0.1:8081/health/ready",
        ] {
            #expect(try shell.run(command).status == "0", "\(command)")
        }
        let owner = "psql -v ON_ERROR_STOP=1 -h $SUBLEDGER_DATA_FOLDER/run -d subledger -U subledger"
        var queries = 0
        var commands: Set<String> = []

        for code in try DocumentationArticle("Runbook").code {
            if code.hasPrefix("select ") {
                queries += 1
                // What only the owner can read or make.
                let isOwners = ["_body(", "pg_", "make_body_partitions("].contains { code.contains($0) }
                let query = code.replacing("…", with: "0")
                let result = try shell.run("\(owner)\(isOwners ? "" : "_reader") <<'END'\n\(query);\nEND")
                #expect(result.status == "0", "\(query): \(result.output)")
            } else if code.hasPrefix("subledger ") {
                commands.insert(code.split(separator: " ").prefix { !$0.hasPrefix("-") }.joined(separator: " "))
            } else if code.hasPrefix("psql ") {
                #expect(try shell.run("\(code) -c 'select 1'").status == "0", "\(code)")
            }
        }
        for command in commands { #expect(try shell.run("\(command) --help").status == "0", "\(command)") }
        #expect(queries >= 15 && commands.count >= 7)
        let restored = """
            \(owner) -c 'revoke insert on subledger.event from subledger_receiver'
            awk '/^grant /,/;$/' schema.sql | \(owner) -q
            \(owner) -Atqc "select has_table_privilege('subledger_receiver', 'subledger.event', 'insert')"
            """
        #expect(try shell.run(restored).output.hasSuffix("t\n"))

        try shell.end()
    }

    @Test("the article about explanations has each rule once")
    func rules() throws {
        let rules = try DocumentationArticle("Explanations").text.matches(
            of: /(?m)^\| `([a-z_]+)` \| [^|]+ \| [^|]+ \|$/
        )
        .map { String($0.output.1) }

        #expect(Set(rules) == Set(ExplanationRule.allCases.map(\.rawValue)) && rules.count == Set(rules).count)
    }

    private static let docc: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { folder in "\(folder)/docc" }.first { path in access(path, X_OK) == 0 }

    @Test("docc converts the catalog without a warning", .enabled(if: docc != nil, "docc is not installed"))
    func catalog() throws {
        let folder = TestFolder.path("docc")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let result = try Process.run(
            URL(fileURLWithPath: try #require(Self.docc)),
            [
                "convert", "--warnings-as-errors", DocumentationArticle.catalog.path, "--output-path", folder,
                "--fallback-display-name", "Subledger", "--fallback-bundle-identifier", "subledger",
            ], joined: true, limit: 180)

        #expect(result.status == 0, "\(result.outputText)")
    }

    @Test("each command prints the output in the article", .timeLimit(.minutes(5)), arguments: run)
    func commands(_ name: String) throws {
        let article = try DocumentationArticle(name)
        let steps = article.steps
        #expect(!steps.isEmpty || article.blocks.contains(where: \.isLong))
        let shell = try DocumentationShell(article: name)

        for step in steps {
            let command = step.command.joined(separator: "\n")
            let expected = Self.masked(step.output.joined(separator: "\n"))
            // Projections lag behind the log, so commands that only read are repeated until the output matches.
            let deadline = ContinuousClock.now + (Self.onlyReads(command) ? .seconds(20) : .zero)
            var result = try shell.run(command)
            while Self.masked(result.output) != expected, deadline > .now {
                result = try shell.run(command)
            }
            #expect(Self.masked(result.output) == expected, "\(command)")
            #expect(result.status == "0", "\(command)")
        }

        try shell.end()
    }

    private static func onlyReads(_ command: String) -> Bool {
        if command.hasPrefix("curl -s -H ") { return !command.contains(" -X ") }
        return ["psql ", "subledger projector status", "subledger verify"].contains { command.hasPrefix($0) }
    }

    /// Replaces values that differ between runs. All other output must match the article.
    private static func masked(_ text: String) -> String {
        var text = text
        // Instants of the run itself. All others are before July 2026, where the simulator's stories end.
        text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/) { match in
            match.output.0 > "2026-07" ? "<now>" : String(match.output.0)
        }
        text.replace(/slt_[0-9a-f]{12}_[0-9a-f]{64}/, with: "<token>")
        text.replace(/\b[0-9a-f]{12}\b/, with: "<token id>")
        // It contains a digest of an event, and of when the event arrived.
        text.replace(/"cursor": "[A-Za-z0-9_-]+"/, with: "\"cursor\": <cursor>")
        text.replace(/schema version \d+/, with: "schema version <number>")
        // Progress lines, one every two seconds.
        text.replace(/(?m)^posted \d+ of .*\n/, with: "")
        return text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.replacing(/\s+$/, with: "") }.joined(separator: "\n").trimmingCharacters(in: .newlines)
    }
}
