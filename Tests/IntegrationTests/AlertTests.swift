import Foundation
import TestSupport
import Testing

@Suite("Alert rules in deploy/alerts.yml")
struct AlertTests {
    private static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("deploy/alerts.yml")

    @Test("a server exports every metric that a rule uses after its first notification")
    func names() async throws {
        let folder = TestFolder.path("alerts")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let rules = try String(contentsOf: Self.file, encoding: .utf8)
        let asked = Set(rules.matches(of: /subledger_[a-z_]+/).map { String($0.output) })
        // Metrics of Google Play exist only if it has an app.
        let apps = "\(folder)-apps.json"
        defer { try? FileManager.default.removeItem(atPath: apps) }
        try Data(#"[{"packageName":"com.example.play","push":{"authentication":"none"}}]"#.utf8)
            .write(to: URL(fileURLWithPath: apps))
        let server = try ServerProcess(dataFolder: folder, environment: ["SUBLEDGER_APPS_FILE": apps])
        let ports = try await server.ports()

        let answer = try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try V1Body(number: 1).bytes)
        let metrics = try await HTTPClient(port: ports.private).get("/metrics").body
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(answer.status == 200)
        let exported = Set(
            metrics.split(separator: "\n").filter { !$0.hasPrefix("#") }
                .map { String($0.prefix { $0 != "{" && $0 != " " }) })
        #expect(asked.count >= 15)
        #expect(asked.subtracting(exported).isEmpty)
        // The first occurrence is an increase only if the series was 0 before.
        var selected = 0
        for selector in rules.matches(of: /(subledger_\w+)\{([^}]*)\}/) {
            for label in selector.output.2.matches(of: /(\w+)=~?"([^"]*)"/) where label.output.1 != "job" {
                for value in label.output.2.split(separator: "|") {
                    let series = try Regex(#"\n\#(selector.output.1)\{[^}]*\#(label.output.1)="\#(value)""#)
                    #expect(metrics.contains(series), "\(selector.output.1) \(label.output.1) \(value)")
                    selected += 1
                }
            }
        }
        #expect(selected >= 25)
        // A rule that selects a label finds nothing if the series has another one.
        for series in [
            #"subledger_checks_total{app="com.example.magazine",result="secret_rejected"} "#,
            #"subledger_checks_total{app="com.example.magazine",result="key_rejected"} "#,
            #"subledger_store_api_breaker_state{host="production"} "#,
            #"subledger_store_breaker_state{host="production"} "#,
            #"subledger_store_breaker_state{host="sandbox"} "#,
        ] {
            #expect(metrics.contains("\n\(series)"), "\(series)")
        }
    }

    @Test("each alert has a runbook_url: its section of the runbook that the package has; each section has an alert")
    func runbook() throws {
        let rules = try String(contentsOf: Self.file, encoding: .utf8)
        let article = Self.file.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/subledger/Documentation.docc/Runbook.md")
        let runbook = try String(contentsOf: article, encoding: .utf8)
        let package = try String(
            contentsOf: Self.file.deletingLastPathComponent().appendingPathComponent("package"), encoding: .utf8)
        let path = "/usr/share/doc/subledger/Runbook.md"
        #expect(package.contains("\nput 644 Sources/subledger/Documentation.docc/Runbook.md \(path)\n"))
        let sections = Set(runbook.matches(of: /\n### (Subledger\w+)\n/).map { String($0.output.1) })

        let alerts = rules.split(separator: "- alert: ").dropFirst()
        #expect(alerts.count >= 40)
        for alert in alerts {
            let name = String(alert.prefix { !$0.isWhitespace })
            #expect(sections.contains(name), "\(name)")
            let address = "file://\(path)#\(name.lowercased())"
            #expect(alert.contains("\n          runbook_url: \(address)\n"), "\(name)")
        }
        #expect(sections == Set(alerts.map { String($0.prefix { !$0.isWhitespace }) }))
    }

    @Test("the command at the head of the rules writes another address into every alert")
    func published() throws {
        let folder = TestFolder.path("rules")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let copy = URL(fileURLWithPath: folder).appendingPathComponent("alerts.yml")
        try FileManager.default.copyItem(at: Self.file, to: copy)
        let rules = try String(contentsOf: copy, encoding: .utf8)
        let command = try #require(rules.firstMatch(of: /\n#   (sed -i .*)\n/)).output.1

        let result = try Process.run(
            URL(fileURLWithPath: "/bin/bash"), ["-c", String(command)], folder: URL(fileURLWithPath: folder),
            joined: true)

        #expect(result.status == 0, "\(result.outputText)")
        let alerts = try String(contentsOf: copy, encoding: .utf8).split(separator: "- alert: ").dropFirst()
        #expect(alerts.count == rules.split(separator: "- alert: ").count - 1)
        for alert in alerts {
            let name = alert.prefix { !$0.isWhitespace }
            let address = "https://docs.example.com/subledger/Runbook.md#\(name.lowercased())"
            #expect(alert.contains("\n          runbook_url: \(address)\n"), "\(name)")
        }
    }

    private static let promtool: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { folder in "\(folder)/promtool" }.first { path in access(path, X_OK) == 0 }

    @Test(
        "promtool accepts the rules",
        .enabled(if: promtool != nil, "promtool is not installed (Debian has it in the package prometheus)"))
    func syntax() throws {
        let result = try Process.run(
            URL(fileURLWithPath: try #require(Self.promtool)), ["check", "rules", Self.file.path], joined: true)

        #expect(result.status == 0, "\(result.outputText)")
    }
}
