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
    private static let kills = TestScale.number("SUBLEDGER_TEST_KILLS", 12)

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

        /// The figures that differ: those of queries over lines of the layout of RevenueCat, of which the last one of each
        /// purchase counts, and those of the analyst views.
        func differences(_ lines: [String]) async throws -> [String] {
            let connection = try await TestCluster.connect(log.database)
            let rows = try await connection.query(
                Statement(
                    "revenuecat",
                    """
                    with purchase as materialized (
                      select distinct on (original_store_transaction_id, store_transaction_id) found.*
                      from unnest($1::jsonb[]) with ordinality as exported (line, number)
                      cross join lateral jsonb_to_record(exported.line) as found (
                        original_store_transaction_id text, store_transaction_id text, start_time timestamp,
                        effective_end_time timestamp, refunded_at timestamp, is_auto_renewable boolean,
                        is_trial_period boolean, is_trial_conversion boolean, is_sandbox boolean, ownership_type text,
                        purchased_currency text, price_in_purchased_currency numeric, price_in_usd numeric,
                        renewal_number integer
                      )
                      order by original_store_transaction_id, store_transaction_id, exported.number desc
                    ),
                    day as (
                      select generate_series(min(start_time), max(start_time), interval '1 day')::date as day
                      from purchase
                    ),
                    theirs as (
                      select 'active ' || day as figure, count(distinct original_store_transaction_id)::numeric as value
                      from day
                      join purchase
                        on start_time <= day
                        and (effective_end_time > day or effective_end_time is null)
                        and is_auto_renewable
                        and not is_trial_period
                        and ownership_type = 'PURCHASED'
                      group by day
                      union all
                      select 'revenue ' || purchased_currency, sum(price_in_purchased_currency)
                      from purchase
                      where ownership_type = 'PURCHASED'
                      group by purchased_currency
                      union all
                      select 'refunds', count(*)
                      from purchase
                      where refunded_at is not null
                      union all
                      select 'conversions', count(*)
                      from purchase
                      where is_trial_conversion
                        and refunded_at is null
                      union all
                      select 'dollars', sum(price_in_usd)
                      from purchase
                      where purchased_currency in ('USD', 'EUR')
                    ),
                    ours as (
                      select 'active ' || day as figure, sum(paying + in_grace)::numeric as value
                      from analyst.active_subscriptions
                      join day using (day)
                      group by day
                      union all
                      select 'revenue ' || currency, sum(price - coalesce(refunded_amount, 0))
                      from analyst.revenue_detail
                      where price is not null
                      group by currency
                      union all
                      select 'refunds', count(*)
                      from analyst.refund_rate_detail
                      where refund is not null
                      union all
                      select 'conversions', sum(conversions)
                      from analyst.movements
                      union all
                      select 'dollars', sum((price - coalesce(refunded_amount, 0)) * case currency when 'EUR' then 2 else 1 end)
                      from analyst.revenue_detail
                      where currency in ('USD', 'EUR')
                    )
                    select concat_ws(' ', figure, theirs.value, ours.value), theirs.value is distinct from ours.value
                    from theirs
                    full join ours using (figure)
                    where coalesce(theirs.value, ours.value) <> 0
                    """), [.array(lines)], deadline: .now + .seconds(60))
            let found: [(text: String, isDifferent: Bool)] = try rows.map {
                (try $0.value(at: 0), try $0.value(at: 1))
            }
            await connection.close()
            for figure in ["active", "revenue", "refunds", "conversions", "dollars"] {
                #expect(found.contains { $0.text.hasPrefix(figure) }, "\(figure)")
            }
            return found.filter(\.isDifferent).map(\.text)
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

    /// Runs a command that may mount file systems, which end with it. Other users than root need a namespace of their own.
    private static let mounting = ["unshare", "--mount"] + (geteuid() == 0 ? [] : ["--map-root-user"])
    private static let canMount =
        (try? Process.run(command: mounting + ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]))?.status == 0

    @Test(
        "on a full disk, an export ends with one line, and goes on where it ended once there is room",
        .enabled(if: canMount, "needs the right to mount a small file system"))
    func fullDisk() async throws {
        try await withWarehouse { warehouse in
            try await warehouse.log.append(try await SimulatedLog.deliveries(subscriptions: 8))
            await warehouse.log.projector.foldAllStreams()
            let flags = ["--rows-per-file", "20"]
            let whole = TestFolder.path("export-whole")
            defer { try? FileManager.default.removeItem(atPath: whole) }
            #expect(try warehouse.export(flags, to: whole).status == 0)
            let export = "\(whole)/export-000001"
            let names = try FileManager.default.contentsOfDirectory(atPath: export).sorted()
            let pages = try names.reduce(0) { pages, name in
                pages + (try #require(FileManager.default.contents(atPath: "\(export)/\(name)")).count + 4095) / 4096
            }
            // Half of that fits, until the third run. The file system ends with the script, which copies what was exported.
            let script = """
                mount -t tmpfs -o size=\(pages * 2)k tmpfs "$1"
                for run in 1 2 3; do
                    if [ $run = 3 ]; then mount -o remount,size=64m tmpfs "$1"; fi
                    "$3" export --to "$1" --rows-per-file 20 >/dev/null 2>"$2/error$run"
                    echo $? >"$2/status$run"
                done
                cp -r "$1/export-000001" "$2"
                """
            let (full, kept) = (TestFolder.path("export-full"), warehouse.folder)
            defer { try? FileManager.default.removeItem(atPath: full) }
            for folder in [full, kept] {
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            }
            let ended = try Process.run(
                command: Self.mounting + ["sh", "-c", script, "sh", full, kept, ServerProcess.executable.path],
                environment: ProcessInfo.processInfo.environment.merging(warehouse.database.environment()) { $1 })
            #expect(ended.status == 0, "\(ended.errorText)")

            func text(_ name: String) throws -> String {
                try String(contentsOfFile: "\(kept)/\(name)", encoding: .utf8)
            }
            for run in 1...2 {
                let error = try text("error\(run)")
                #expect(try text("status\(run)") == "69\n")
                #expect(
                    error.wholeMatch(of: /subledger: cannot write [^\n]+: No space left on device\n/) != nil, "\(error)"
                )
                #expect(error.hasPrefix("subledger: cannot write \(full)/export-000001.partial/"), "\(error)")
            }
            #expect(try text("status3") == "0\n")
            #expect(try FileManager.default.contentsOfDirectory(atPath: "\(kept)/export-000001").sorted() == names)
            for name in names where name != "manifest.json" {
                #expect(
                    FileManager.default.contents(atPath: "\(kept)/export-000001/\(name)")
                        == FileManager.default.contents(atPath: "\(export)/\(name)"), "\(name)")
            }
        }
    }

    /// The columns of RevenueCat's transaction export, version 5, as its documentation lists them.
    private static let revenueCatColumns = """
        rc_original_app_user_id,rc_last_seen_app_user_id_alias,country,country_source,product_identifier,\
        product_display_name,product_duration,start_time,end_time,grace_period_end_time,effective_end_time,store,\
        is_auto_renewable,is_trial_period,is_in_intro_offer_period,is_sandbox,price_in_usd,purchase_price_in_usd,\
        takehome_percentage,tax_percentage,commission_percentage,store_transaction_id,original_store_transaction_id,\
        refunded_at,unsubscribe_detected_at,billing_issues_detected_at,purchased_currency,price_in_purchased_currency,\
        purchase_price_in_purchased_currency,entitlement_identifiers,renewal_number,is_trial_conversion,\
        presented_offering,ownership_type,reserved_subscriber_attributes,custom_subscriber_attributes,platform,\
        experiment_id,experiment_variant,updated_at,offer,offer_type,first_seen_time,auto_resume_time
        """

    @Test("as RevenueCat's export, the figures that its queries compute are those of the analyst views")
    func revenueCat() async throws {
        try await withWarehouse { warehouse in
            let deliveries = try await SimulatedLog.deliveries(environment: .production)
            let flags = ["--as", "revenuecat-v5", "--format", "jsonl"]
            try await warehouse.log.configure(Product.all(of: V1Body.app), of: V1Body.app)
            try await warehouse.database.script(
                "insert into subledger.exchange_rate (currency, day, per_euro) "
                    + "select 'USD', day, 2 from generate_series(date '2015-01-01', '2035-01-01', interval '7 days') as day"
            )
            try await warehouse.log.append(deliveries.dropLast(20))
            await warehouse.log.projector.foldAllStreams()
            let first = try warehouse.export(flags)
            #expect(first.status == 0, "\(first.error)")
            #expect(try warehouse.export(flags).output == "nothing new since export 1\n")
            try await warehouse.log.append(deliveries.suffix(20))
            await warehouse.log.projector.foldAllStreams()
            #expect(try warehouse.export(flags).status == 0)

            let lines = try warehouse.lines(.revenueCat)
            let names = try JSONDocument(Array(try #require(lines.first).utf8)).root.members.compactMap(\.key.string)
            #expect(names == Self.revenueCatColumns.split(separator: ",").map(String.init))
            #expect(ImportLayout(header: names) == .revenueCat)
            #expect(try await warehouse.differences(lines) == [])

            let other = try warehouse.export(["--format", "jsonl"])
            #expect(other.status == 65)
            #expect(
                other.error
                    == "subledger: export 2 is as revenuecat-v5: use the same --as, or another folder\n")
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
