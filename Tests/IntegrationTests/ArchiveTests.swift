import AppStore
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Simulation
import Subscriptions
import Synchronization
import TestSupport
import Testing

@Suite("Bodies of past months are in files, and everything proves and shows them as before")
struct ArchiveTests {
    @Test("all months but the last are moved; verify, evidence, a rebuild and the console go on; and all comes back")
    func moved() async throws {
        try await ArchiveBundle.with { bundle in
            let before = try await bundle.bodies()
            let months = try await bundle.months()
            try #require(months.count > 6 && months.last == ArchiveBundle.last, "\(months)")
            let cold = try await bundle.log.lines(
                "select min(position)::text from subledger.event_body where received_at < '2026-01-01'")[0]
            let head = TestFolder.path("head")
            let key = TestFolder.path("head-key") + ".pem"
            let proofs = (TestFolder.path("hot.json"), TestFolder.path("cold.json"))
            defer { for path in [head, key, proofs.0, proofs.1] { try? FileManager.default.removeItem(atPath: path) } }
            let signed = try bundle.run("head", "--head-key", key)
            try #require(signed.status == 0, "\(signed.error)")
            try signed.output.write(toFile: head, atomically: true, encoding: .utf8)
            func evidence(_ path: String, folder: String? = nil) throws -> (
                status: Int32, output: String, error: String
            ) {
                try bundle.run(
                    "evidence", cold, "--app", ArchiveBundle.app, "--environment", "sandbox", "--head", head,
                    "--output",
                    path, folder: folder)
            }
            #expect(try evidence(proofs.0).status == 0)

            let shown = try bundle.run("archive", "--before", ArchiveBundle.last, "--dry-run")
            #expect(shown.status == 0 && shown.output == "")
            #expect(shown.error.contains("\(months[0]): bodies "), "\(shown.error)")
            #expect(try await bundle.bodies() == before)
            let archived = try bundle.run("archive", "--before", ArchiveBundle.last)

            #expect(archived.status == 0, "\(archived.error)")
            let outcomes = try archived.output.split(separator: "\n").map { try JSONDocument(Array($0.utf8)).root }
            #expect(outcomes.map { $0.string("month") } == months.dropLast().map(Optional.some))
            let left = try await bundle.bodies()
            let moved = outcomes.reduce(0) { $0 + ($1["bodies"]?.int64 ?? 0) }
            #expect(Int64(left.count) + moved == Int64(before.count) && moved > 100)
            #expect(try await bundle.months() == [ArchiveBundle.last])
            #expect(try await bundle.listed().map { $0.replacing("kept ", with: "") }.sorted() == bundle.files())
            let list = try bundle.run("archive", "--list")
            #expect(list.output.split(separator: "\n").count == outcomes.count, "\(list.output)")

            let verified = try bundle.verify()
            #expect(verified.status == 0, "\(verified.output.prefix(2000))")
            #expect(verified.output.contains("(\(moved) archived)"), "\(verified.output)")
            #expect(try bundle.run("rebuild", "--diff").status == 0)
            let proof = try evidence(proofs.1)
            #expect(proof.status == 0, "\(proof.error)")
            #expect(
                FileManager.default.contents(atPath: proofs.0) == FileManager.default.contents(atPath: proofs.1))
            let places = try await bundle.log.lines(
                """
                select distinct place || (file is not null)::text
                from subledger.event
                cross join lateral subledger.body_place(stream_id, position)
                order by 1
                """)
            #expect(places == ["archivetrue", "databasefalse"])

            // Without the folder, each says which file it needs.
            let blind = try bundle.verify(folder: "")
            #expect(blind.status == 1)
            #expect(blind.output.contains(/is not read, with \d+ bodies: set SUBLEDGER_ARCHIVE_FOLDER/))
            #expect(blind.output.split(separator: "\n").count == outcomes.count + 1, "\(blind.output.prefix(2000))")
            let unproven = try evidence(proofs.1, folder: "")
            #expect(unproven.status == 1)
            #expect(
                unproven.error.contains(
                    /body is in archive file \S+\.bodies: set SUBLEDGER_ARCHIVE_FOLDER to read it/), "\(unproven.error)"
            )

            for month in months.dropLast() {
                let restored = try bundle.run("archive", "--restore", month)
                #expect(restored.status == 0, "\(restored.error)")
            }
            #expect(try await bundle.bodies() == before)
            #expect(try bundle.files() == [])
            #expect(try await bundle.listed() == [])
            #expect(try bundle.verify().status == 0)
            #expect(try bundle.run("archive", "--restore", months[0]).status == 65)
        }
    }

    @Test("a body in a file is read like one in the database, for receipts and for forwarding")
    func read() async throws {
        try await ArchiveBundle.with { bundle in
            let positions = try await bundle.log.lines(
                """
                select position::text
                from subledger.event
                where source = 'apple-v1' and received_at < '2026-04-01'
                order by position
                limit 20
                """
            ).compactMap { Int64($0) }
            let stream = StreamKey(app: ArchiveBundle.app, environment: .sandbox)
            let pool = PostgresPool(
                bundle.log.database.with(role: "subledger_poller"), limit: 1, logger: LogRecorder().logger)
            func bodies(_ archive: BodyArchive) async throws -> [[UInt8]] {
                var bodies: [[UInt8]] = []
                for position in positions {
                    bodies.append(
                        try await LogReader(pool: pool, archive: archive).body(at: position, in: stream)?.bytes ?? [])
                }
                return bodies
            }
            let before = try await bodies(.none)

            try await bundle.archive()

            #expect(before.count == 20 && !before.contains([]))
            #expect(try await bodies(BodyArchive(folder: bundle.folder)) == before)
            let error = await #expect(throws: ReadError.self) { _ = try await bodies(.none) }
            guard case .damaged(let detail) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(detail.contains("set SUBLEDGER_ARCHIVE_FOLDER"), "\(detail)")
            await pool.close()
        }
    }

    @Test("an archived body, an erased one, a lost one and one under a wrong time are told apart")
    func toldApart() async throws {
        try await ArchiveBundle.with { bundle in
            try await bundle.archive(before: "2026-01")
            let hot = try await bundle.log.lines(
                """
                select position::text
                from subledger.event_body
                where received_at < '2026-04-25' and received_at >= '2026-04-01'
                order by position
                limit 2
                """)
            try #require(hot.count == 2)
            try await bundle.log.damage("delete from subledger.event_body where position = \(hot[0])")
            try await bundle.log.damage(
                "update subledger.event_body set received_at = received_at + interval '1 hour' where position = \(hot[1])"
            )
            let file = try #require(try bundle.files().last)
            try FileManager.default.moveItem(
                atPath: "\(bundle.folder)/\(file)", toPath: "\(bundle.folder)/elsewhere")

            let verified = try bundle.verify()

            #expect(verified.status == 1)
            let findings = verified.output.split(separator: "\n").filter { $0.contains("stream 1") }.map(String.init)
            #expect(findings.count == 3, "\(verified.output.prefix(2000))")
            #expect(findings.contains { $0.hasSuffix("archive file \(file) is missing") })
            #expect(
                findings.contains {
                    $0.hasSuffix("position \(hot[0]): body is missing, and no erasure in the log says so")
                })
            #expect(
                findings.contains {
                    $0.hasSuffix("position \(hot[1]): body is stored under another time than received_at")
                })
            #expect(verified.output.contains(/\(\d+ archived, \d+ not read\)/))
            let places = try await bundle.log.lines(
                """
                select place
                from subledger.event
                cross join lateral subledger.body_place(stream_id, position)
                group by place
                order by place
                """)
            #expect(places == ["archive", "database", "missing", "wrong_time"])
            // A body that belongs to no event is not dropped.
            let refused = try bundle.run("archive", "--before", "2026-05")
            #expect(refused.status == 65)
            #expect(
                refused.error.contains(/the database has \d+ bodies of 2026-04, of which \d+ belong to events/),
                "\(refused.error)")
        }
    }

    @Test("a file with one changed bit, of another stream, cut or lost is reported, and restores nothing")
    func damaged() async throws {
        try await ArchiveBundle.with { bundle in
            try await bundle.archive(before: "2025-05")
            let names = try bundle.files()
            try #require(names.count >= 2)
            let (path, other) = ("\(bundle.folder)/\(names[0])", "\(bundle.folder)/\(names[1])")
            let whole = try #require(FileManager.default.contents(atPath: path))
            let hot = try await bundle.bodies()
            var random = SeededGenerator(seed: TestSeed.value)
            var changes: [(String, Data?)] = (0..<4).map { _ in
                let place = Int.random(in: 0..<whole.count, using: &random)
                var changed = whole
                changed[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
                return ("bit of byte \(place)", changed)
            }
            changes.append(("cut", whole.prefix(whole.count - 1)))
            changes.append(("of another month", FileManager.default.contents(atPath: other)))
            changes.append(("lost", nil))
            for (name, bytes) in changes {
                if let bytes {
                    try bytes.write(to: URL(fileURLWithPath: path))
                } else {
                    try FileManager.default.removeItem(atPath: path)
                }
                let verified = try bundle.verify()
                #expect(verified.status == 1, "\(name)")
                #expect(verified.output.contains("archive file \(names[0]) is "), "\(name): \(verified.output)")
                let month = names[0].split(separator: "-").dropFirst(2).prefix(2).joined(separator: "-")
                let restored = try bundle.run("archive", "--restore", month)
                #expect([65, 69].contains(restored.status), "\(name): \(restored)")
                #expect(restored.error.contains("archive file \(names[0])"), "\(name): \(restored.error)")
                #expect(try await bundle.bodies() == hot)
            }
            try whole.write(to: URL(fileURLWithPath: path))
            #expect(try bundle.verify().status == 0)
        }
    }

    @Test(
        "a month that is not over, or whose bodies are still needed, stays; and so does everything if two run at once")
    func refused() async throws {
        try await ArchiveBundle.with { bundle in
            let before = try await bundle.bodies()
            func refusal(_ month: String = "2026-02") async throws -> (status: Int32, error: String) {
                let refused = try bundle.run("archive", "--before", month)
                #expect(refused.output == "")
                #expect(try await bundle.bodies() == before)
                #expect(try bundle.files() == [])
                return (refused.status, refused.error)
            }
            #expect(
                try await refusal("9999-12")
                    == (64, "subledger: --before 9999-12: that month has not begun, so the one before it is not over\n")
            )
            #expect(try bundle.run("archive", "--before", "2026-13").status == 64)
            #expect(try bundle.run("archive").status == 64)
            #expect(try bundle.run("archive", "--before", "2026-02", folder: "").status == 78)

            try await bundle.log.script(
                "create table kept as table subledger.checkpoint; update subledger.checkpoint set position = 1")
            let unfolded = try await refusal()
            try await bundle.log.script(
                "update subledger.checkpoint set position = kept.position from kept where kept.stream_id = checkpoint.stream_id"
            )
            #expect(unfolded.status == 69)
            #expect(
                unfolded.error.contains(
                    /the bodies of 2025-\d\d are still needed: com.example.magazine \(sandbox\): the projector has not processed/
                ),
                "\(unfolded.error)")

            try await bundle.log.script(
                """
                insert into subledger.endpoint (
                  endpoint_id, purpose, app, environment, url, signature, created_at
                ) values (
                  'fwd_0123456789abcdef', 'events', '\(ArchiveBundle.app)', 'sandbox', 'https://example.com', 'none', now()
                )
                """)
            let unforwarded = try await refusal()
            #expect(unforwarded.status == 69)
            #expect(
                unforwarded.error.contains("endpoint fwd_0123456789abcdef has not received all of its notifications"))
            try await bundle.log.script("delete from subledger.endpoint")

            try await bundle.log.script(
                """
                insert into subledger.google_notification (app, token_sha256, stream_id, position)
                select '\(ArchiveBundle.app)', sha256('token'), stream_id, position
                from subledger.event
                order by received_at
                limit 1
                """)
            let unread = try await refusal()
            #expect(unread.status == 69, "\(unread.error)")
            #expect(unread.error.contains("pushes of Google Play were not read yet"), "\(unread.error)")
            try await bundle.log.script("delete from subledger.google_notification")

            let other = try await TestCluster.connect(bundle.log.database)
            try await other.script(
                "begin; lock table subledger.event_archive in share update exclusive mode",
                deadline: .now + .seconds(20))
            let busy = try await refusal()
            await other.close()
            #expect(busy.status == 69)
            #expect(busy.error.contains("another command archives, restores or erases"), "\(busy.error)")

            let unwritable = try bundle.run("archive", "--before", "2026-02", folder: "/proc")
            #expect(unwritable.status == 69)
            #expect(unwritable.error.contains("subledger: cannot write archive file /proc/"), "\(unwritable.error)")
            // The largest file that a process may write stands for the disk that is full.
            let full = try Process.run(
                command: [
                    "sh", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh", ServerProcess.executable.path,
                    "archive",
                    "--before", "2026-02",
                ], environment: ProcessInfo.processInfo.environment.merging(bundle.environment) { $1 })
            #expect(full.status == 69)
            #expect(full.errorText.contains(": File too large"), "\(full.errorText)")
            #expect(try await bundle.bodies() == before)
            #expect(try bundle.files() == [])

            #expect(try bundle.run("archive", "--before", "2026-02").status == 0)
            // Another folder than that of the earlier files.
            let elsewhere = TestFolder.path("archive-elsewhere")
            try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: elsewhere) }
            let lost = try bundle.run("archive", "--before", "2026-03", folder: elsewhere)
            #expect(lost.status == 78)
            #expect(lost.error.contains("has none of the archive files"), "\(lost.error)")
        }
    }

    @Test("a month is dropped by another attempt if the first one is ended because of a deadlock")
    func deadlock() async throws {
        try await ArchiveBundle.with { bundle in
            let month = try await bundle.months()[1]
            let url = try #require(bundle.environment["SUBLEDGER_DATABASE_URL"])
            let other = Mutex<Process?>(nil)
            let attempts = Mutex(0)
            try await bundle.archive(before: month) { step in
                guard step == .dropping else { return }
                attempts.withLock { $0 += 1 }
                guard attempts.withLock({ $0 }) == 1 else { return }
                // It holds the bodies, and waits for the list. It does not look for a deadlock itself.
                let session = Process()
                session.executableURL = URL(fileURLWithPath: "/usr/bin/env")
                session.arguments =
                    ["psql", url, "-Xq"]
                    + [
                        "set deadlock_timeout = '60s'", "begin", "lock table subledger.event_body in access share mode",
                        "update subledger.event_archive set bodies = bodies", "rollback",
                    ].flatMap { ["-c", $0] }
                try session.run()
                other.withLock { $0 = session }
                let waiting =
                    "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() "
                    + "and query like 'update subledger.event_archive%'"
                let deadline = ContinuousClock.now + .seconds(60)
                while try Process.run(command: ["psql", url, "-XAtqc", waiting]).outputText.isEmpty {
                    guard ContinuousClock.now < deadline else { throw ArchiveBundle.Killed() }
                }
            }

            _ = try await eventually("the other session ends") { other.withLock { $0?.isRunning } == true ? nil : true }
            #expect(attempts.withLock { $0 } >= 2)
            #expect(try await bundle.months().first == month)
            #expect(try await bundle.archivedMonths().count == 1)
            #expect(try bundle.verify().status == 0)
        }
    }

    @Test("a body that arrives after its month was archived stays, and goes into a second file later")
    func late() async throws {
        try await ArchiveBundle.with { bundle in
            let month = try await bundle.months()[0]
            let next = try await bundle.months()[1]
            let day = try #require(Instant(iso8601: "\(month)-20T00:00:00.000Z"))
            let apps = Apps([App(bundleId: V1Body.app, sharedSecrets: [V1Body.secret])])
            func append(_ numbers: ClosedRange<Int>) async throws {
                let events = try numbers.map { number in
                    PreparedEvent(try apps.verify(try V1Body(number: number).bytes, receivedAt: day), receivedAt: day)
                }
                _ = try await bundle.log.append(events)
                await bundle.log.projector.foldAllStreams()
            }
            try await append(1...3)
            try await bundle.archive(before: next)
            let files = try bundle.files().count
            try await append(4...6)

            let between = try bundle.verify()
            #expect(between.status == 0, "\(between.output.prefix(2000))")
            try await bundle.archive(before: next)

            #expect(try bundle.files().count == files + 1)
            #expect(try bundle.verify().status == 0)
            try await bundle.restoreAll()
            #expect(
                try await bundle.log.lines("select count(*)::text from subledger.event")
                    == [String(try await bundle.bodies().count)])
            #expect(try bundle.verify().status == 0)
        }
    }

    @Test("a lost file and one that should be gone are a condition, a metric and a line in the log")
    func watched() async throws {
        try await ArchiveBundle.with { bundle in
            try await bundle.archive(before: "2025-04")
            let recorder = LogRecorder()
            let pool = PostgresPool(
                bundle.log.database.with(role: "subledger_receiver"), limit: 1, logger: recorder.logger)
            let watch = ArchiveWatch(pool: pool, archive: BodyArchive(folder: bundle.folder), logger: recorder.logger)
            await watch.look()
            let sound = watch.figures
            let name = try #require(try bundle.files().first)
            let path = "\(bundle.folder)/\(name)"
            let whole = try #require(FileManager.default.contents(atPath: path))
            try whole.dropLast().write(to: URL(fileURLWithPath: path))
            await watch.look()
            let cut = watch.figures
            try whole.write(to: URL(fileURLWithPath: path))
            try await bundle.log.script(
                "update subledger.event_archive set state = 'removing' where file = '\(name)'")
            await watch.look()
            let stale = watch.figures
            try await bundle.log.script("update subledger.event_archive set state = 'kept'")
            await watch.look()

            #expect(sound?.problem == nil && sound?.kept ?? 0 > 0)
            #expect(cut?.problem == "archive files missing: 1, for example \(name)")
            #expect(stale?.problem == "archive files to remove: 1, for example \(name)")
            #expect(watch.figures?.problem == nil)
            #expect(recorder.text.ranges(of: "archive files are not as listed").count == 2)
            #expect(recorder.text.ranges(of: "archive files are as listed again").count == 1)
            await pool.close()
        }
    }
}
