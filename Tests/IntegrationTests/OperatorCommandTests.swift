import EventLog
import Foundation
import Postgres
import TestSupport
import Testing

@Suite("Operator commands with and without a running server")
struct OperatorCommandTests {
    private static func sql(_ folder: String, _ script: String) async throws {
        let connection = try await PostgresConnection.connect(
            ConnectionConfiguration(socketFolder: folder + "/run", user: "subledger", database: "subledger"),
            deadline: .now + .seconds(20))
        try await connection.script(script, deadline: .now + .seconds(20))
        await connection.close()
    }

    @Test("status, skip, rebuild and verify print their results and exit statuses")
    func beside() async throws {
        let folder = TestFolder.path("operator")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func run(_ arguments: String...) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(arguments + ["--data-folder", folder, "--log-level", "error"])
        }
        let server = try ServerProcess(dataFolder: folder)
        let apple = HTTPClient(port: try await server.ports().public, patience: .seconds(60))
        for number in 1...3 { #expect(try await apple.post(try V1Body(number: number).bytes).status == 200) }
        let folded = try await eventually("all events are folded") {
            let status = try run("projector", "status")
            return status.output.contains("lag 0") ? status : nil
        }

        #expect(folded.status == 0)
        #expect(folded.output == "\(V1Body.app), production: head 3, folded 3, lag 0, skips 0\n")
        let clean = try run("verify", "--all")
        #expect(clean.status == 0, "\(clean.error)")
        #expect(clean.output == "verified: streams 1, events 3, subscriptions 3 (all subscriptions)\n")

        try await Self.sql(folder, "update subledger.subscription set auto_renew = not auto_renew")
        let damaged = try run("verify", "--seed", "7")
        #expect(damaged.status == 1)
        let lines = damaged.output.split(separator: "\n")
        #expect(
            lines.first == """
                stream 1 (\(V1Body.app), production) subscription 2000000000000001: differs from a fresh fold
                """)
        #expect(lines.last == "not verified: streams 1, events 3, subscriptions 0 (sample with seed 7)")

        let difference = try run("rebuild", "--diff")
        #expect(difference.status == 1)
        #expect(difference.output.contains(#""table":"subscription","change":"changed","field":"auto_renew""#))
        #expect(
            difference.output.split(separator: "\n").last
                == "not the same: streams 1, events 3, rows 3, subscriptions 3", "\(difference.output)")
        let rebuilt = try run("rebuild", "--app", V1Body.app, "--environment", "Production")
        #expect(rebuilt.status == 0, "\(rebuilt.error)")
        #expect(rebuilt.output == "rebuilt: streams 1, events 3, rows replaced 6\n")
        let same = try run("rebuild", "--diff")
        #expect(same.status == 0, "\(same.error)")
        #expect(same.output == "the same: streams 1, events 3, rows 0, subscriptions 0\n")
        #expect(try run("rebuild", "--environment", "xcode").status == 65)
        let skip = ["--app", V1Body.app, "--environment", "production", "--reason", "why not"]
        let refused = try ServerProcess.run(
            ["projector", "skip", "2", "--data-folder", folder, "--log-level", "error"] + skip)
        #expect(refused.status == 65)
        #expect(refused.error == "subledger: the event at position 2 is already folded, as are all events up to 3\n")

        let sizes = try run("sizes")
        #expect(sizes.status == 0, "\(sizes.error)")
        let columns = sizes.output.split(separator: "\n").map { $0.split(separator: "\t") }
        #expect(columns.allSatisfy { $0.count == 7 })
        #expect(columns.contains { $0[0] == "event_body" && $0[2] != "0" }, "\(sizes.output)")
        let bytes = columns.dropFirst().compactMap { Int64($0[2]) }
        #expect(columns.last?[0] == "all" && bytes.dropLast().reduce(0, +) == bytes.last)

        server.signal(SIGTERM)
        try await server.hasEnded()
        let alone = try run("verify", "--all")
        #expect(alone.status == 0, "\(alone.output)\(alone.error)")
    }

    @Test("commands without a database create nothing, and an unreachable database is reported")
    func nothingThere() throws {
        let folder = TestFolder.path("nowhere")

        for command in [["verify"], ["rebuild"], ["projector", "status"]] {
            let missing = try ServerProcess.run(command + ["--data-folder", folder])
            let away = try ServerProcess.run(command + ["--database-url", "postgres://canary:hush@127.0.0.1:1/none"])

            #expect(missing.status == 78)
            #expect(
                missing.error
                    == "subledger: no database in \(folder): set its data folder or a database URL\n")
            #expect(away.status == 69)
            #expect(away.error.hasPrefix("subledger: database: "))
        }
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test("verify rejects a database with an older schema")
    func olderSchema() async throws {
        let folder = TestFolder.path("older")
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(dataFolder: folder)
        _ = try await server.ports()
        try await Self.sql(folder, "delete from subledger.schema_version")

        let result = try ServerProcess.run(["verify", "--data-folder", folder])

        #expect(result.status == 69)
        #expect(
            result.error.hasSuffix(
                "the database has schema version 0, this release needs \(Schema.version): run `subledger migrate` first\n"
            ))
        server.signal(SIGTERM)
        try await server.hasEnded()
    }
}
