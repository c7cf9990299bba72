import EventLog
import Foundation
import Subscriptions
import TestSupport
import Testing

@Suite("Nothing on the disk names an erased person once the tables are written anew")
struct ErasedFilesTests {
    private struct Failed: Error {
        let text: String
    }

    /// The files below a folder in which one of the texts stands.
    private static func files(with texts: [String], in folder: String, except: String...) throws -> [String] {
        let found = try Process.run(
            command: ["grep", "-rlaiF"] + except.map { "--exclude-dir=\($0)" } + texts.flatMap { ["-e", $0] } + [
                folder
            ],
            limit: 60)
        guard found.status < 2 else { throw Failed(text: found.errorText) }
        return found.outputText.split(separator: "\n").map(String.init)
    }

    /// The tables that the article names.
    private static func tables() throws -> [String] {
        let article = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
            .appendingPathComponent("Sources/subledger/Documentation.docc/Erasure.md")
        let text = try String(contentsOf: article, encoding: .utf8).replacing("\n", with: " ")
        let list = try #require(text.firstMatch(of: /`vacuum \(full, analyze\)` of (.*?) in\s+schema `subledger`/))
            .output.1
        return list.matches(of: /`(\w+)`/).map { String($0.output.1) }
    }

    @Test("no file of the database, no archive file and no dump has an id of the person")
    func found() async throws {
        let folder = TestFolder.path("erased-data")
        let archive = TestFolder.path("erased-archive")
        defer {
            try? FileManager.default.removeItem(atPath: folder)
            try? FileManager.default.removeItem(atPath: archive)
        }
        try FileManager.default.createDirectory(atPath: archive, withIntermediateDirectories: true)
        let simulated = try ServerProcess.simulate(
            [
                "--in-step", "--format", "v1", "--environment", "production", "--seed", "7", "--subscriptions", "12",
                "--data-folder", folder,
            ], limit: 200)
        try #require(simulated.status == 0, "\(simulated.error)")
        let environment = ["SUBLEDGER_DATA_FOLDER": folder, "SUBLEDGER_ARCHIVE_FOLDER": archive]
        let server = try ServerProcess(dataFolder: folder, environment: environment)
        _ = try await server.ports()
        func sql(_ text: String) throws -> [String] {
            let result = try Process.run(
                command: ["psql", "-h", "\(folder)/run", "-U", "subledger", "-d", "subledger", "-XAtq", "-c", text],
                limit: 60)
            guard result.status == 0 else { throw Failed(text: result.errorText) }
            return result.outputText.split(separator: "\n").map(String.init)
        }
        func run(_ arguments: String...) throws {
            let result = try ServerProcess.run(arguments, environment: environment, limit: 120)
            guard result.status == 0 else { throw Failed(text: result.error) }
        }
        func dump() throws -> String {
            let result = try Process.run(
                command: ["pg_dump", "-h", "\(folder)/run", "-U", "subledger", "subledger"], limit: 60)
            guard result.status == 0 else { throw Failed(text: result.errorText) }
            return result.outputText
        }
        /// The archive files with a body that has one of the ids.
        func archived(_ ids: [String]) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: archive).filter { name in
                let file = try BodyArchive(folder: archive).open(name)
                for number in 0..<file.count {
                    let body = try file.body(number: number)
                    guard !body.stored.isEmpty else { continue }
                    let evidence = try file.evidence(of: body, digest: body.digest)
                    let text = ErasedText.opened(String(decoding: evidence, as: UTF8.self)).lowercased()
                    if ids.contains(where: { text.contains($0.lowercased()) }) { return true }
                }
                return false
            }
        }
        try run("archive", "--before", "2026-05")
        // The customer with most ids of those who share no subscription with another one, with the stores' own ids.
        let rows = try sql(
            """
            select customer_kind, customer_id, string_agg(distinct store.id, ' ')
            from subledger.ownership
            join subledger.transaction using (stream_id, original_transaction_id)
            cross join lateral (
              select unnest(array[original_transaction_id, transaction_id, web_order_line_item_id])
              union all
              select id
              from subledger.customer_identity as identity
              where identity.stream_id = ownership.stream_id
                and identity.customer_kind = ownership.customer_kind
                and identity.customer_id = ownership.customer_id
            ) as store (id)
            where customer_kind = 'account'
              and store.id is not null
            group by customer_kind, customer_id
            order by count(*) desc, customer_id
            """
        ).map { $0.split(separator: "|").map(String.init) }
        func erase(_ columns: [String], _ more: String) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(
                [
                    "erase", "--app", "com.example.app", "--customer", columns[1], "--as", columns[0], "--reason",
                    "by mail", "--transactions", more,
                ], environment: environment, limit: 120)
        }
        let columns = try #require(try rows.first { try erase($0, "--dry-run").status == 0 })
        let ids = Array(Set(columns[2].split(separator: " ").map(String.init) + [columns[1]]))
        _ = try sql("analyze; checkpoint")
        let before = try Self.files(with: ids, in: folder)
        #expect(!before.isEmpty)
        #expect(try ids.contains { try dump().contains($0) })

        let erased = try erase(columns, "--yes")
        #expect(erased.status == 0, "\(erased.error)")
        for table in try Self.tables() { _ = try sql("vacuum (full, analyze) subledger.\(table)") }
        _ = try sql("vacuum full pg_catalog.pg_statistic")
        _ = try sql("checkpoint")

        #expect(try archived(ids) == [])
        let text = try dump()
        #expect(!ids.contains { text.contains($0) })
        server.signal(SIGTERM)
        try await server.hasEnded()
        // The write-ahead log has what was written, until its files are used again.
        #expect(try Self.files(with: ids, in: folder, except: "pg_wal") == [])
        #expect(try Self.files(with: ids, in: archive) == [])
    }
}
