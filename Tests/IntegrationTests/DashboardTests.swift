import Foundation
import TestSupport
import Testing

@Suite("The dashboard in deploy/dashboard.json")
struct DashboardTests {
    private static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static let prometheus: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { folder in "\(folder)/prometheus" }.first { path in access(path, X_OK) == 0 }

    private struct Dashboard: Decodable {
        struct Panel: Decodable {
            struct Target: Decodable {
                let expr: String
            }
            let id: Int
            let title: String
            let type: String
            let targets: [Target]?
        }
        let panels: [Panel]

        static func read() throws -> Dashboard {
            try JSONDecoder().decode(
                Dashboard.self, from: Data(contentsOf: repository.appendingPathComponent("deploy/dashboard.json")))
        }
    }

    /// A Prometheus that scrapes a server each second.
    private struct Prometheus {
        let process = Process()
        let client: HTTPClient
        let folder: String

        init(scraping port: Int) throws {
            folder = TestFolder.path("prometheus")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let own = try FreePort.find()
            let rules = repository.appendingPathComponent("deploy/alerts.yml").path
            try Data(
                """
                global: {scrape_interval: 1s, evaluation_interval: 1s}
                rule_files: [\(rules)]
                scrape_configs:
                  - job_name: subledger
                    static_configs: [{targets: ["127.0.0.1:\(port)"]}]
                """.utf8
            ).write(to: URL(fileURLWithPath: "\(folder)/prometheus.yml"))
            client = HTTPClient(port: own)
            process.executableURL = URL(fileURLWithPath: try #require(DashboardTests.prometheus))
            process.arguments = [
                "--config.file=\(folder)/prometheus.yml", "--storage.tsdb.path=\(folder)/data",
                "--web.listen-address=127.0.0.1:\(own)", "--log.level=error",
            ]
            process.standardError = FileHandle.nullDevice
            try process.run()
        }

        /// The number of series that a query returns; nil before Prometheus answers.
        ///
        /// - Throws: If Prometheus rejects the query.
        func seriesCount(_ query: String) async throws -> Int? {
            var allowed = CharacterSet.alphanumerics
            allowed.insert(charactersIn: "-._~")
            let encoded = try #require(query.addingPercentEncoding(withAllowedCharacters: allowed))
            guard let answer = try? await client.get("/api/v1/query?query=\(encoded)") else { return nil }
            if answer.status == 503 { return nil }
            #expect(answer.status == 200, "\(query): \(answer.body)")
            let data = answer.json["data"] as? [String: Any]
            return (data?["result"] as? [Any])?.count
        }

        func stop() {
            try? process.end(within: 0)
            try? FileManager.default.removeItem(atPath: folder)
        }
    }

    @Test(
        "every query of a panel returns series from a Prometheus that scrapes a server",
        .enabled(if: prometheus != nil, "prometheus is not installed (Debian has a package of it)"))
    func queries() async throws {
        let panels = try Dashboard.read().panels
        let queries = panels.flatMap { panel in (panel.targets ?? []).map { (panel.title, $0.expr) } }
        let folder = TestFolder.path("dashboard")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        // Metrics of Google Play exist only if it has an app.
        let apps = "\(folder)-apps.json"
        defer { try? FileManager.default.removeItem(atPath: apps) }
        try Data(#"[{"packageName":"com.example.play","push":{"authentication":"none"}}]"#.utf8)
            .write(to: URL(fileURLWithPath: apps))
        let server = try ServerProcess(dataFolder: folder, environment: ["SUBLEDGER_APPS_FILE": apps])
        let ports = try await server.ports()
        #expect(
            try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try V1Body(number: 1).bytes).status
                == 200)
        let prometheus = try Prometheus(scraping: ports.private)
        defer { prometheus.stop() }

        for (title, query) in queries {
            let real = query.replacing("$__rate_interval", with: "1m").replacing("$job", with: ".+")
            #expect(!real.contains("$"), "\(title): \(query)")
            // A rate needs two scrapes.
            let count = try await eventually("\(title) has series") {
                let count = try await prometheus.seriesCount(real)
                return count == 0 ? nil : count
            }
            #expect(count > 0)
        }
        _ = try await eventually("the rules were evaluated") {
            let rules = try await prometheus.client.get("/api/v1/rules").body
            return rules.contains("\"health\":\"ok\"") && !rules.contains("\"health\":\"unknown\"") ? true : nil
        }
        #expect(try await !prometheus.client.get("/api/v1/rules").body.contains("\"health\":\"err\""))
        server.signal(SIGTERM)
        try await server.hasEnded()

        #expect(queries.count >= 20)
    }

    @Test("panels have ids of their own, titles and queries")
    func panels() throws {
        let panels = try Dashboard.read().panels

        #expect(Set(panels.map(\.id)).count == panels.count)
        for panel in panels {
            #expect(!panel.title.isEmpty)
            #expect(panel.type == "row" || panel.targets?.isEmpty == false, "\(panel.title)")
        }
    }
}
