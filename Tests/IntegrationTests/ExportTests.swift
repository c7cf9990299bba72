import Encoding
import Foundation
import Postgres
import Readers
import Simulation
import TestSupport
import Testing

@testable import subledger

@Suite("An export contains exactly what the database contains")
struct ExportTests {
    /// The number of kills; SUBLEDGER_TEST_KILLS sets a larger one.
    private static let kills = ProcessInfo.processInfo.environment["SUBLEDGER_TEST_KILLS"].flatMap { Int($0) } ?? 12

    /// A database with a log, and a folder for exports.
    private struct Warehouse {
        let database: SharedDatabase
        let log: SimulatedLog
        let folder: String

        func export(
            _ more: [String] = [], to name: String? = nil
        ) throws -> (status: Int32, output: String, error: String) {
            try ServerProcess.run(["export", "--to", name ?? folder] + more, environment: database.environment())
        }

        /// All lines of a table, of all exports in the folder.
        func lines(_ table: ExportTable) throws -> [String] {
            var lines: [String] = []
            for export in try FileManager.default.contentsOfDirectory(atPath: folder).sorted() {
                guard export.hasPrefix("export-") else { continue }
                for name in try FileManager.default.contentsOfDirectory(atPath: "\(folder)/\(export)").sorted() {
                    guard name.hasPrefix("\(table.rawValue)-0") else { continue }
                    let text = try String(contentsOfFile: "\(folder)/\(export)/\(name)", encoding: .utf8)
                    lines += text.split(separator: "\n").map(String.init)
                }
            }
            return lines
        }

        /// The number of rows that only one of both has: the warehouse, which takes the newest rows, and the database.
        func differences(_ table: ExportTable, _ relation: SQL, key: SQL, of parent: ExportTable) async throws -> Int64
        {
            let connection = try await TestCluster.connect(log.database)
            let rows = try await connection.query(
                Statement(
                    "differences_\(relation)",
                    """
                    with newest as (
                      select \(key) as key, max((line ->> 'export')::integer) as export
                      from unnest($2::jsonb[]) as parent (line)
                      group by 1
                    ),
                    exported as (
                      select (
                        select jsonb_object_agg(name, value)
                        from jsonb_each(to_jsonb(jsonb_populate_record(
                          null::subledger.\(relation),
                          line || jsonb_strip_nulls(jsonb_build_object(
                            'chain', '\\x' || (line ->> 'chain'), 'body_sha256', '\\x' || (line ->> 'body_sha256')))
                        )))
                          as field (name, value)
                        where name = any ($3)
                      ) as row
                      from unnest($1::jsonb[]) as child (line)
                      join newest on newest.key = \(key) and newest.export = (line ->> 'export')::integer
                    ),
                    stored as (
                      select (
                        select jsonb_object_agg(name, value)
                        from jsonb_each(to_jsonb(current)) as field (name, value)
                        where name = any ($3)
                      ) as row
                      from subledger.\(relation) as current
                    )
                    select count(*)
                    from (
                      (select row from exported except all select row from stored)
                      union all
                      (select row from stored except all select row from exported)
                    ) as different
                    """),
                [
                    .array(try lines(table)), .array(try lines(parent)),
                    .array(table.columns.map(\.name).filter { !["app", "environment", "export"].contains($0) }),
                ], deadline: .now + .seconds(60))
            let count: Int64 = try rows[0].value(at: 0)
            await connection.close()
            return count
        }

        /// The tables that differ.
        func different() async throws -> [String] {
            var different: [String] = []
            let subscription: SQL = "(line ->> 'original_transaction_id')"
            for (table, relation, key, parent): (ExportTable, SQL, SQL, ExportTable) in [
                (.events, "event", "(line ->> 'position')", .events),
                (.changes, "change", "(line ->> 'number')", .changes),
                (.subscriptions, "subscription", subscription, .subscriptions),
                (.transactions, "transaction", subscription, .subscriptions),
                (.periods, "access_period", subscription, .subscriptions),
                (.refundedPeriods, "refunded_period", subscription, .subscriptions),
                (.owners, "ownership", subscription, .subscriptions),
                (.customers, "customer_identity", "concat_ws(' ', line ->> 'kind', line ->> 'id')", .customers),
            ] {
                let count = try await differences(table, relation, key: key, of: parent)
                if count > 0 { different.append("\(table.rawValue) \(count)") }
            }
            return different
        }
    }

    private func withWarehouse(_ test: (Warehouse) async throws -> Void) async throws {
        let database = try await SharedDatabase.make()
        let folder = TestFolder.path("export")
        try await SimulatedLog.with(database: database.configuration) { log in
            try await test(Warehouse(database: database, log: log, folder: folder))
        }
        try? FileManager.default.removeItem(atPath: folder)
        try await database.drop()
    }

    @Test("a warehouse that only inserts what is new has every row, through links, settings and clock")
    func increments() async throws {
        try await withWarehouse { warehouse in
            let log = warehouse.log
            let simulation = SimulatedLog.simulation()
            let deliveries = try await SimulatedLog.deliveries()
            let third = deliveries.count / 3
            let flags = ["--format", "jsonl", "--rows-per-file", "40"]
            func check(_ location: SourceLocation = #_sourceLocation) async throws {
                let different = try await warehouse.different()
                #expect(different == [], sourceLocation: location)
            }

            try await log.append(deliveries[..<third])
            await log.projector.foldAllStreams()
            let first = try warehouse.export(flags)
            #expect(first.status == 0, "\(first.error)")
            try await check()
            #expect(try warehouse.export(flags).output == "nothing new since export 1\n")

            try await log.append(deliveries[third..<2 * third])
            try await log.append(linksOf: simulation)
            await log.projector.foldAllStreams()
            #expect(try warehouse.export(flags).status == 0)
            try await check()

            // Events that are not projected yet are exported; what follows from them with the next export.
            try await log.append(deliveries[(2 * third)...])
            #expect(try warehouse.export(flags).status == 0)
            await log.projector.foldAllStreams()
            #expect(try warehouse.export(flags).status == 0)
            try await check()

            // Settings decide the rows of all subscriptions.
            try await log.configure(Product.all(of: V1Body.app), of: V1Body.app)
            await log.projector.foldAllStreams()
            let last = try warehouse.export(flags)
            #expect(last.output.contains("events 0, changes "), "\(last.output)")
            try await check()
        }
    }

    @Test("the manifest has the rows and the digest of each file, and the end of each stream")
    func manifest() async throws {
        try await withWarehouse { warehouse in
            try await warehouse.log.append(try await SimulatedLog.deliveries(subscriptions: 4))
            await warehouse.log.projector.foldAllStreams()
            #expect(try warehouse.export(["--rows-per-file", "10"]).status == 0)

            let export = warehouse.folder + "/export-000001"
            let manifest = try #require(FileManager.default.contents(atPath: "\(export)/manifest.json"))
            let json = try JSONDocument(Array(manifest)).root
            let files = json["files"]?.elements ?? []
            #expect(files.count > 8)
            var names: Set<String> = ["manifest.json"]
            for file in files {
                let name = try #require(file["name"]?.string)
                names.insert(name)
                let content = try #require(FileManager.default.contents(atPath: "\(export)/\(name)"))
                #expect(file["bytes"]?.int64 == Int64(content.count))
                // No value of the simulation has a line break.
                let lines = content.split(separator: UInt8(ascii: "\n")).count - 1
                #expect(file["rows"]?.int64 == Int64(lines))
                let digest = try Process.run(command: ["sha256sum", "\(export)/\(name)"]).outputText.prefix(64)
                #expect(file["sha256"]?.string == String(digest))
            }
            #expect(Set(try FileManager.default.contentsOfDirectory(atPath: export)) == names)
            let heads = try await warehouse.database.lines("select encode(chain, 'hex') from subledger.stream_head")
            #expect(json["streams"]?.elements.map { $0["chain"]?.string } == heads)
        }
    }

    @Test("an export that is killed again and again, and resumed, equals one that was not")
    func killed() async throws {
        try await withWarehouse { warehouse in
            try await warehouse.log.append(try await SimulatedLog.deliveries(subscriptions: 8))
            await warehouse.log.projector.foldAllStreams()
            let flags = ["--rows-per-file", "4"]
            let whole = TestFolder.path("export-whole")
            defer { try? FileManager.default.removeItem(atPath: whole) }
            let started = ContinuousClock.now
            #expect(try warehouse.export(flags, to: whole).status == 0)
            let time = ContinuousClock.now - started
            let milliseconds = UInt64(time / .milliseconds(1))

            var random = TestSeed.generator()
            for _ in 0..<Self.kills {
                let process = Process()
                process.executableURL = ServerProcess.executable
                process.arguments = ["export", "--to", warehouse.folder] + flags
                process.environment = ProcessInfo.processInfo.environment.merging(warehouse.database.environment()) {
                    $1
                }
                process.standardOutput = FileHandle.nullDevice
                process.standardError = FileHandle.nullDevice
                try process.run()
                let killing = process.killed(after: Double(random.next() % max(1, milliseconds)) / 1000)
                try process.end(within: 60)
                killing.cancel()
            }
            #expect(try warehouse.export(flags).status == 0)

            let names = try FileManager.default.contentsOfDirectory(atPath: whole + "/export-000001").sorted()
            #expect(names.count > 40)
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: warehouse.folder + "/export-000001").sorted()
                    == names)
            for name in names where name != "manifest.json" {
                #expect(
                    FileManager.default.contents(atPath: "\(warehouse.folder)/export-000001/\(name)")
                        == FileManager.default.contents(atPath: "\(whole)/export-000001/\(name)"), "\(name)")
            }
        }
    }

    @Test("what an export cannot continue is refused, and nothing is lost")
    func refused() async throws {
        try await withWarehouse { warehouse in
            let deliveries = try await SimulatedLog.deliveries(subscriptions: 4)
            let none = try warehouse.export()
            #expect(none.status == 65)
            #expect(none.error == "subledger: the log has no events of this app and environment\n")
            try await warehouse.log.append(deliveries.prefix(10))
            await warehouse.log.projector.foldAllStreams()
            #expect(try warehouse.export().status == 0)

            let cursor = try warehouse.export(["--since", "tomorrow"])
            #expect(cursor.status == 65 && cursor.error.contains("--since is not a cursor"), "\(cursor.error)")
            let filter = try warehouse.export(["--environment", "production"])
            #expect(filter.status == 65 && filter.error.contains("use the same --app"), "\(filter.error)")
            let file = TestFolder.path("file")
            #expect(FileManager.default.createFile(atPath: file, contents: nil))
            let noFolder = try warehouse.export(to: file)
            #expect(noFolder.status == 69 && noFolder.error == "subledger: cannot make the folder \(file)\n")

            // As an export leaves it that was killed.
            let manifest = warehouse.folder + "/export-000001/manifest.json"
            let json = try JSONDocument(Array(try #require(FileManager.default.contents(atPath: manifest)))).root
            let cursorText = try #require(json["cursor"]?.string)
            let partial = warehouse.folder + "/export-000002.partial"
            try FileManager.default.createDirectory(atPath: partial, withIntermediateDirectories: false)
            let plan =
                #"{"format":"csv","rowsPerFile":7,"since":"\#(cursorText)","startedAt":"2026-11-27T00:00:00.000Z","cursor":"\#(cursorText)"}"#
            #expect(FileManager.default.createFile(atPath: partial + "/plan.json", contents: Data(plan.utf8)))
            let other = try warehouse.export()
            #expect(other.status == 65 && other.error.contains("began with other flags"), "\(other.error)")
            #expect(try warehouse.export(["--rows-per-file", "7"]).status == 0)

            // Another run has the folder.
            let lock = open(warehouse.folder + "/.lock", O_RDWR)
            #expect(flock(lock, LOCK_EX) == 0)
            let busy = try warehouse.export()
            close(lock)
            #expect(busy.status == 69)
            #expect(busy.error == "subledger: another export is writing to \(warehouse.folder)\n")

            // A database in which other events have the same positions.
            try await TestCluster.withDatabase { database in
                try await SimulatedLog.with(database: database) { log in
                    try await log.append(deliveries.suffix(10))
                    await log.projector.foldAllStreams()
                }
                let restored = try ServerProcess.run(
                    ["export", "--to", warehouse.folder],
                    environment: [
                        "SUBLEDGER_DATABASE_URL":
                            "postgres:///\(database.database ?? "")?host=\(warehouse.database.socketFolder)&user=subledger"
                    ])
                #expect(restored.status == 65)
                #expect(restored.error.contains("the database was restored or replaced"), "\(restored.error)")
            }
        }
    }

    @Test("fields of CSV are quoted if they have to be, and null is not an empty text")
    func csv() {
        let row = ExportRow(table: .customers, values: ["a,b", "say \"x\"", nil, "", "line\nbreak", "plain"])
        var csv: [UInt8] = []
        var json: [UInt8] = []
        ExportFormat.csv.write(row, columns: ExportTable.customers.columns, to: &csv)
        ExportFormat.jsonl.write(row, columns: ExportTable.customers.columns, to: &json)

        #expect(String(decoding: csv, as: UTF8.self) == "\"a,b\",\"say \"\"x\"\"\",,\"\",\"line\nbreak\",plain\n")
        #expect(
            String(decoding: json, as: UTF8.self)
                == #"{"app":"a,b","environment":"say \"x\"","export":null,"kind":"","id":"line\u000abreak","starts_at":"plain"}"#
                + "\n")
    }
}
