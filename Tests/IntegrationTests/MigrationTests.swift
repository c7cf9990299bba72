import EventLog
import Foundation
import Postgres
import Simulation
import Synchronization
import TestSupport
import Testing

@Suite("Upgrades of a database of the release of 26 November 2026", .enabled(if: !CitusCluster.isWanted))
struct MigrationTests {
    /// Everything that clients can rely on, as lines.
    private static func catalog(_ database: ConnectionConfiguration) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let lines = try await SchemaCatalog.lines(of: connection)
        await connection.close()
        return lines
    }

    private static func lines(_ sql: SQL, _ database: ConnectionConfiguration) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(Statement("lines", sql), deadline: .now + .seconds(20))
        let lines: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return lines
    }

    private static func migrate(
        _ database: ConnectionConfiguration, report: @Sendable (MigrationProgress) -> Void = { _ in }
    ) async throws -> Schema.Outcome {
        let connection = try await TestCluster.connect(database)
        let outcome: Result<Schema.Outcome, MigrationError>
        do throws(MigrationError) {
            outcome = .success(try await Schema.migrate(connection, report: report))
        } catch {
            outcome = .failure(error)
        }
        await connection.close()
        return try outcome.get()
    }

    /// The lines that only one of the two has, with the side.
    private static func differences(_ left: [String], _ right: [String]) -> [String] {
        Set(left).subtracting(right).sorted().map { "- \($0)" }
            + Set(right).subtracting(left).sorted().map { "+ \($0)" }
    }

    @Test("an upgraded database has the same objects as a new one, with the same privileges and comments")
    func catalog() async throws {
        try await ReleaseDump.withDatabase { database in
            #expect(try await Self.migrate(database) == .applied)

            let upgraded = try await Self.catalog(database)
            let new = try await Self.catalog(try await TestCluster.freshDatabase())
            #expect(upgraded.count > 1500)
            #expect(Self.differences(new, upgraded) == [])
            #expect(try await Self.migrate(database) == .upToDate)
        }
    }

    /// Tables whose rows a migration changes, or that it removes.
    private static let changedTables: Set<String> = ["schema_version", "check_schedule", "google_purchase"]

    /// The columns of each table, as SQL.
    private static func columns(_ database: ConnectionConfiguration) async throws -> [(table: String, columns: String)]
    {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement(
                "columns",
                """
                select table_name::text, string_agg(quote_ident(column_name), ', ' order by ordinal_position)
                from information_schema.columns
                join information_schema.tables using (table_schema, table_name)
                where table_schema = 'subledger'
                  and table_type = 'BASE TABLE'
                  -- Moved to a table of its own.
                  and (table_name, column_name) <> ('event', 'body')
                group by table_name
                order by table_name
                """), deadline: .now + .seconds(20))
        let columns = try (0..<rows.count).map {
            (table: try rows[$0].value(String.self, at: 0), columns: try rows[$0].value(String.self, at: 1))
        }
        await connection.close()
        return columns.filter { !changedTables.contains($0.table) }
    }

    /// The digest of these columns of all rows, table by table.
    private static func digests(
        _ columns: [(table: String, columns: String)], _ database: ConnectionConfiguration
    ) async throws -> [String] {
        let connection = try await TestCluster.connect(database)
        let rows = try await connection.query(
            Statement(
                "digests",
                """
                select chosen.name || ' ' || md5(query_to_xml(
                  format('select part::text from (select %s from subledger.%I) as part order by 1',
                    chosen.columns, chosen.name), true, false, '')::text)
                from unnest($1::text[], $2::text[]) as chosen (name, columns)
                """), [.array(columns.map(\.table)), .array(columns.map(\.columns))], deadline: .now + .seconds(20))
        let digests: [String] = try (0..<rows.count).map { try rows[$0].value(at: 0) }
        await connection.close()
        return digests
    }

    @Test("every row survives: the log, questions under way, pending receipts, purchases and who claimed them")
    func rows() async throws {
        try await ReleaseDump.withDatabase { database in
            let columns = try await Self.columns(database)
            let before = try await Self.digests(columns, database)
            let bodies = try await Self.lines(
                "select format('%s %s %s', stream_id, position, md5(body)) from subledger.event order by 1", database)
            let pending = try await Self.lines(
                """
                select format('%s receipts', count(*)) from subledger.receipt where state = 'pending'
                union all
                select format('%s questions under way', count(*)) from subledger.google_purchase
                where asking_until is not null
                union all
                select format('%s links', count(*)) from subledger.customer_link
                union all
                select format('%s checks', count(*) > 0) from subledger.check_schedule where next_at is not null
                """, database)

            _ = try await Self.migrate(database)

            #expect(pending == ["3 receipts", "4 questions under way", "5 links", "t checks"])
            #expect(Self.differences(before, try await Self.digests(columns, database)) == [])
            #expect(bodies.count == 173)
            #expect(
                try await Self.lines(
                    "select format('%s %s %s', stream_id, position, md5(body)) from subledger.event_body order by 1",
                    database) == bodies)
        }
    }

    /// What decides access, without the evidence for it.
    private static let access: StaticString = """
        select format('%s %s %s %s %s %s', original_transaction_id, starts_at, ends_at, cause, cut, transaction_id)
        from subledger.access_period
        order by 1
        """

    @Test("the first start gives the access of a new database with the same log, and a rebuild gives all of its rows")
    func projections() async throws {
        // Which checks were made is not in the log.
        let forgetChecks = "update subledger.check_schedule set next_at = null"
        var expected: [String] = []
        var access: [String] = []
        try await SimulatedLog.with { log in
            try await ReleaseDump.restoreLog(into: log.database)
            await log.projector.foldAllStreams()
            try await log.script(forgetChecks)
            expected = try await log.projections()
            access = try await log.lines(Self.access)
        }
        try await ReleaseDump.withDatabase { database in
            _ = try await Self.migrate(database)
            try await SimulatedLog.with(database: database) { log in
                let changes = try await log.lines("select count(*)::text from subledger.change")

                await log.projector.foldAllStreams()

                #expect(try await log.status().allSatisfy { $0.contains("lag 0") })
                #expect(access.count > 40)
                #expect(try await log.lines(Self.access) == access)
                _ = try await log.rebuild()
                #expect(try await log.rebuild().rowsReplaced == 0)
                try await log.script(forgetChecks)
                #expect(expected.count > 250)
                #expect(Self.differences(expected, try await log.projections()) == [])
                #expect(try await log.lines("select count(*)::text from subledger.change") == changes)
            }
        }
    }

    @Test("verify accepts events of which the older release read less, and no other facts")
    func verify() async throws {
        let root = TestFolder.path("upgrade-root.pem")
        try Data(TestCertificates.standard.rootPEM.utf8).write(to: URL(fileURLWithPath: root))
        defer { try? FileManager.default.removeItem(atPath: root) }
        try await ReleaseDump.withDatabase { database in
            _ = try await Self.migrate(database)
            let command = ["verify", "--all", "--root", root, "--database-url", try await ReleaseDump.url(database)]
            try await SimulatedLog.with(database: database) { log in
                await log.projector.foldAllStreams()
                _ = try await log.rebuild()

                let sound = try ServerProcess.run(command)
                try await log.script(
                    """
                    alter table subledger.event disable trigger event_append_only;
                    update subledger.event set facts = jsonb_set(facts, '{purchases,0,state}', '"ACTIVE"')
                    where stream_id = 1 and position = 8;
                    update subledger.event set facts = facts #- '{purchases,0}'
                    where stream_id = 1 and position = 9
                    """)
                let changed = try ServerProcess.run(command)

                #expect(sound.status == 0)
                #expect(sound.output == "verified: streams 4, events 173, subscriptions 26 (all subscriptions)\n")
                for position in 8...9 {
                    #expect(changed.output.contains("position \(position): facts do not match the body\n"))
                }
            }
        }
    }

    @Test("the files of deploy/migrations lead from version 1 to that of the release, and each says what it locks")
    func files() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("deploy/migrations").path

        let files = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()

        #expect(Migration.all.map(\.file) == files)
        #expect(Migration.all.map(\.version) == Array(2...Schema.version))
        for migration in Migration.all {
            #expect(migration.file.hasPrefix("\("0000\(migration.version)".suffix(4))_"))
            #expect(migration.notes.contains { $0.contains("Locks") }, "\(migration.file)")
            #expect(migration.steps.allSatisfy { !$0.title.isEmpty })
        }
    }

    @Test("each step is reported in its order, then the repeatable half, then what is left to do")
    func steps() async throws {
        try await ReleaseDump.withDatabase { database in
            let reported = Mutex<[String]>([])

            _ = try await Self.migrate(database) { progress in reported.withLock { $0.append("\(progress)") } }

            var expected: [String] = []
            for migration in Migration.all {
                for (index, step) in migration.steps.enumerated() {
                    expected.append(
                        "\(migration.file), step \(index + 1) of \(migration.steps.count): \(step.title)")
                }
                if migration.version == Schema.version {
                    expected.append("replacing views, functions, triggers and comments")
                }
                if let afterwards = migration.afterwards { expected.append(afterwards) }
            }
            #expect(reported.withLock(\.self) == expected)
        }
    }

    @Test("of four processes that upgrade at once, one does, and the others find it done")
    func atOnce() async throws {
        try await ReleaseDump.withDatabase { database in
            let outcomes = try await withThrowingTaskGroup(of: Schema.Outcome.self) { group in
                for _ in 0..<4 { group.addTask { try await Self.migrate(database) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }

            #expect(outcomes.filter { $0 == .applied }.count == 1)
            #expect(outcomes.filter { $0 == .upToDate }.count == 3)
            #expect(
                try await Self.lines("select version::text from subledger.schema_version order by version", database)
                    == (1...Schema.version).map(String.init))
        }
    }

    @Test("a user who does not own the schema is told who may upgrade it, and changes nothing")
    func notOwner() async throws {
        try await ReleaseDump.withDatabase { database in
            let before = try await Self.catalog(database)

            let error = await #expect(throws: MigrationError.self) {
                try await Self.migrate(database.with(role: "subledger_receiver"))
            }

            #expect(
                error?.description == """
                    the database has schema version 1, this release needs \(Schema.version), and user \
                    "subledger_receiver" may not change it: run `subledger migrate` as a member of subledger_owner
                    """)
            #expect(try await Self.catalog(database) == before)
        }
    }

    @Test("an upgrade that was killed leaves the older database, and the next one succeeds")
    func killed() async throws {
        try await ReleaseDump.withDatabase { database in
            let before = try await Self.catalog(database)
            // The step that creates this table waits for the transaction that created another one of that name.
            let blocker = try await TestCluster.connect(database)
            try await blocker.script(
                "begin; create table subledger.lease (work text primary key)", deadline: .now + .seconds(10))
            let upgrade = Process()
            upgrade.executableURL = ServerProcess.executable
            upgrade.arguments = ["migrate"]
            upgrade.environment = ["SUBLEDGER_DATABASE_URL": try await ReleaseDump.url(database)]
            let errors = Pipe()
            upgrade.standardError = errors
            upgrade.standardOutput = FileHandle.nullDevice
            try upgrade.run()
            let limit = upgrade.killed(after: 120)
            defer { limit.cancel() }
            var said = ""
            while !said.contains("step 5 of 7"), upgrade.isRunning {
                said += String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
            }
            kill(upgrade.processIdentifier, SIGKILL)
            try upgrade.end(within: 10)

            _ = try await eventually("the killed session ends") {
                try await Self.lines(
                    """
                    select pid::text
                    from pg_locks
                    where relation = 'subledger.schema_version'::regclass
                      and mode = 'ShareRowExclusiveLock'
                    """, database
                ).isEmpty ? true : nil
            }
            try await blocker.script("rollback", deadline: .now + .seconds(10))
            await blocker.close()

            #expect(said.contains("0002_endpoints_and_money.sql, step 1 of 7"), "\(said)")
            #expect(Self.differences(before, try await Self.catalog(database)) == [])
            #expect(try await Self.migrate(database) == .applied)
        }
    }

    @Test("a query that reads a table delays the upgrade, which others do not wait for meanwhile")
    func inUse() async throws {
        try await ReleaseDump.withDatabase { database in
            let analyst = try await TestCluster.connect(database.with(role: "subledger_analyst"))
            try await analyst.script("begin; select from subledger.transaction", deadline: .now + .seconds(10))
            let waits = AsyncStream.makeStream(of: String.self)
            async let outcome = Self.migrate(database) { waits.continuation.yield("\($0)") }

            var reported: [String] = []
            for await progress in waits.stream {
                reported.append(progress)
                if progress.contains("waiting") { break }
            }
            try await analyst.script("commit", deadline: .now + .seconds(10))
            await analyst.close()

            #expect(reported.last == "0002_endpoints_and_money.sql: waiting for sessions that use the tables")
            #expect(try await outcome == .applied)
        }
    }

    @Test("an index that was built beforehand is kept, and one that could not be built is made")
    func indexBeforehand() async throws {
        let command = try #require(
            Migration.all[0].notes.joined(separator: "\n").firstMatch(of: /create index concurrently [^;]*;/))
        let node: SQL = "select relfilenode::text from pg_class where relname = 'event_notice_idx'"
        try await ReleaseDump.withDatabase { database in
            let owner = try await TestCluster.connect(database)
            try await owner.script(String(command.output), deadline: .now + .seconds(20))
            await owner.close()
            let before = try await Self.lines(node, database)

            _ = try await Self.migrate(database)

            #expect(before.count == 1)
            #expect(try await Self.lines(node, database) == before)
            let new = try await Self.catalog(try await TestCluster.freshDatabase())
            #expect(Self.differences(new, try await Self.catalog(database)) == [])
        }
        try await ReleaseDump.withDatabase { database in
            let owner = try await TestCluster.connect(database)
            try await owner.script(String(command.output), deadline: .now + .seconds(20))
            try await owner.script(
                "update pg_index set indisvalid = false where indexrelid = 'subledger.event_notice_idx'::regclass",
                deadline: .now + .seconds(10))
            await owner.close()

            _ = try await Self.migrate(database)

            #expect(
                try await Self.lines(
                    "select indisvalid::text from pg_index where indexrelid = 'subledger.event_notice_idx'::regclass",
                    database) == ["true"])
        }
    }

    @Test("a dry run prints versions, files and locks, and changes nothing")
    func dryRun() async throws {
        try await ReleaseDump.withDatabase { database in
            let before = try await Self.catalog(database)

            let dryRun = ["migrate", "--dry-run", "--database-url", try await ReleaseDump.url(database)]
            let first = try ServerProcess.run(dryRun)

            #expect(first.status == 0, "\(first.error)")
            #expect(first.output.hasPrefix("schema version 1 found, this release has \(Schema.version)\n0002_"))
            #expect(first.output.contains("\n  Locks until it commits, against reading and writing: event, change"))
            #expect(first.output.hasSuffix("\nviews, functions, triggers and comments would be replaced\n"))
            #expect(try await Self.catalog(database) == before)
            _ = try await Self.migrate(database)
            let second = try ServerProcess.run(dryRun)
            #expect(second.output == "schema is up to date at version \(Schema.version)\n")
        }
    }

    @Test("a dry run without a database creates none")
    func dryRunOfNothing() throws {
        let folder = TestFolder.path("dry-run")

        let result = try ServerProcess.run(["migrate", "--dry-run", "--data-folder", folder])

        #expect(result.output == "no schema found: version \(Schema.version) would be created\n", "\(result.error)")
        #expect(!FileManager.default.fileExists(atPath: folder))
    }

    @Test("a watch says for how long a statement runs, what it does, and how much of it is done")
    func watch() async throws {
        let database = try await TestCluster.freshDatabase()
        let writer = try await TestCluster.connect(database)
        let builder = try await TestCluster.connect(database)
        let watch = MigrationWatch(configuration: database, backendPID: builder.backendPID)
        #expect(try await watch.progress() == nil)
        try await writer.script(
            "begin; insert into subledger.exchange_rate values ('USD', '2026-11-26', 1.1)",
            deadline: .now + .seconds(10))
        async let built: Void = builder.script(
            "create index concurrently on subledger.exchange_rate (day)", deadline: .now + .seconds(30))

        let progress = try await eventually("the index waits for the writer") { try await watch.progress() }

        #expect("\(progress)".wholeMatch(of: /running for \d+ s: .+/) != nil, "\(progress)")
        try await writer.script("commit", deadline: .now + .seconds(10))
        try await built
        await writer.close()
        await builder.close()
    }
}
