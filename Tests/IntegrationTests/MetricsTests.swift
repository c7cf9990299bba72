import Foundation
import HTTPServer
import TestSupport
import Testing

@Suite("GET /metrics")
struct MetricsTests {
    private static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    @Test("a server shows requests by route, its pools and its process, each metric with a description")
    func server() async throws {
        let folder = TestFolder.path("metrics")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let start = Date.now.timeIntervalSince1970
        let server = try ServerProcess(dataFolder: folder)
        let ports = try await server.ports()
        let backend = HTTPClient(port: ports.private)
        #expect(
            try await HTTPClient(port: ports.public, patience: .seconds(60)).post(try V1Body(number: 1).bytes).status
                == 200)
        #expect(try await HTTPClient(port: ports.public).get("/nowhere/1").status == 404)
        #expect(try await backend.get("/subscriptions/1000000588791509").status == 401)
        #expect(try await backend.send("PURGE", "/subscriptions/1000000588791510").status == 405)

        let text = try await backend.get("/metrics").body

        server.signal(SIGTERM)
        try await server.hasEnded()
        for line in [
            #"subledger_http_requests_total{listener="public",method="POST",route="/apple/notifications",status="200"} 1"#,
            #"subledger_http_requests_total{listener="public",method="GET",route="none",status="404"} 1"#,
            #"subledger_http_requests_total{listener="private",method="GET",route="/subscriptions/{originalTransactionId}",status="401"} 1"#,
            #"subledger_http_requests_total{listener="private",method="other",route="none",status="405"} 1"#,
            #"subledger_http_request_seconds_count{listener="public",method="POST",route="/apple/notifications"} 1"#,
            #"subledger_http_request_seconds_bucket{listener="public",method="POST",route="/apple/notifications",le="+Inf"} 1"#,
            #"subledger_database_waiting_calls{pool="reader"} 0.0"#,
        ] {
            #expect(text.contains("\n\(line)\n"), "\(line)")
        }
        #expect(!text.contains("1000000588791509") && !text.contains("1000000588791510"))
        let values = Dictionary(
            uniqueKeysWithValues: text.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap { line in
                line.lastIndex(of: " ").map { (String(line[..<$0]), Double(line[$0...].dropFirst()) ?? .nan) }
            })
        #expect(try #require(values[#"subledger_database_connections_max{pool="reader"}"#]) >= 8)
        #expect(values.keys.contains { $0.hasPrefix(#"subledger_database_connections{pool="receiver",state="idle"}"#) })
        #expect(try #require(values["process_cpu_seconds_total"]) > 0)
        #if os(Linux)
            #expect(try #require(values["process_resident_memory_bytes"]) > 1_048_576)
            #expect(try #require(values["process_virtual_memory_bytes"]) > 1_048_576)
            let files = try #require(values["process_open_fds"])
            #expect(files > 3 && files <= values["process_max_fds"] ?? 0)
            #expect(abs(try #require(values["process_start_time_seconds"]) - start) < 60)
        #endif
        // A description, then the type, then all series of the metric.
        var described: Set<Substring> = []
        var previous: Substring = ""
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ")
            if line.hasPrefix("# TYPE ") {
                #expect(previous.hasPrefix("# HELP \(words[2]) "), "\(line)")
                #expect(described.insert(words[2]).inserted, "\(line)")
            }
            previous = line
        }
        #expect(described.count > 40)
    }

    @Test("each metric in the sources and in Operating.md has a description, and each description a metric")
    func descriptions() throws {
        func text(_ path: String) throws -> String {
            try String(contentsOf: Self.repository.appendingPathComponent(path), encoding: .utf8)
        }

        let described = Set(
            try text("Sources/HTTPServer/Metrics/MetricDescriptions.swift")
                .matches(of: /\n        "([a-z_]+)":/).map { String($0.output.1) })
        let listed = Set(
            try text("Sources/subledger/Documentation.docc/Operating.md").split(separator: "\n")
                .filter { $0.hasPrefix("| `subledger_") || $0.hasPrefix("| `process_") }
                .flatMap { row in
                    row.split(separator: "|")[0].matches(of: /`([a-z_]+)`/).map { String($0.output.1) }
                })
        // Names without such an end are also those of roles, tables and channels of the database.
        let made = try Self.sources().flatMap { file in
            try String(contentsOf: file, encoding: .utf8)
                .matches(of: /(label: )?"(subledger_[a-z_]+?(_total|_seconds)?)"/)
                .filter { $0.output.1 != nil || $0.output.3 != nil }.map { String($0.output.2) }
        }

        #expect(made.count > 40)
        #expect(Set(made).subtracting(described) == [])
        #expect(listed.subtracting(described) == [])
        #expect(described.subtracting(listed) == [])
    }

    private static func sources() throws -> [URL] {
        let folder = repository.appendingPathComponent("Sources")
        let all = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        return (all?.allObjects ?? []).compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }
    }

    @Test("observations of a timer with buckets are counted by their size, up to each bound")
    func buckets() {
        let registry = MetricsRegistry()
        let timer = registry.makeTimer(label: "subledger_http_request_seconds", dimensions: [("route", "/a")])

        for milliseconds: Int64 in [1, 30, 60_000] { timer.recordNanoseconds(milliseconds * 1_000_000) }

        let lines = registry.prometheusText.split(separator: "\n")
        #expect(lines[0].hasPrefix("# HELP subledger_http_request_seconds "))
        #expect(lines[1] == "# TYPE subledger_http_request_seconds histogram")
        for (bound, count) in [("0.001", 1), ("0.025", 1), ("0.05", 2), ("10.0", 2), ("+Inf", 3)] {
            let line = "subledger_http_request_seconds_bucket{route=\"/a\",le=\"\(bound)\"} \(count)"
            #expect(lines.contains { $0 == line }, "\(line)")
        }
        #expect(lines.contains(#"subledger_http_request_seconds_count{route="/a"} 3"#))
    }
}
