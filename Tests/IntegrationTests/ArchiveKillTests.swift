import EventLog
import Foundation
import Postgres
import Subscriptions
import Synchronization
import TestSupport
import Testing

@Suite("An archive, a restoration and an erasure that are killed lose no body and keep none that was erased")
struct ArchiveKillTests {
    /// The number of kills; SUBLEDGER_TEST_KILLS sets a larger one.
    private static let kills = TestScale.number("SUBLEDGER_TEST_KILLS", 6)

    /// Counts the steps, and ends the work at one of them.
    private final class Killer: Sendable {
        private let left: Mutex<Int>
        private let step: BodyArchiver.Step

        /// - Parameter number: Ends it the time with this number, from 1, that it comes to the step.
        init(at step: BodyArchiver.Step, number: Int) {
            self.step = step
            left = Mutex(number)
        }

        func check(_ step: BodyArchiver.Step) throws {
            guard step == self.step else { return }
            let count = left.withLock { left in
                left -= 1
                return left
            }
            guard count == 0 else { return }
            throw ArchiveBundle.Killed()
        }
    }

    @Test("ended at each step, nothing is lost or there twice, and the next run finishes")
    func steps() async throws {
        try await ArchiveBundle.with { bundle in
            let before = try await bundle.bodies()
            for step in BodyArchiver.Step.allCases {
                let killer = Killer(at: step, number: 2)
                let archived: Void? = try? await bundle.archive(before: "2025-05") { try killer.check($0) }
                #expect(try bundle.verify().status == 0, "archive, \(step)")
                let second = Killer(at: step, number: 1)
                let restored: Void? = try? await bundle.restoreAll { try second.check($0) }
                let verified = try bundle.verify()
                // A file whose bodies are back is reported until it is removed.
                let isLeft = step == .restored
                #expect(verified.status == (isLeft ? 1 : 0), "restore, \(step): \(verified.output.prefix(1000))")
                #expect(verified.output.contains("is to be removed") == isLeft)
                let isOfArchive = [.listed, .written, .verified, .dropping, .dropped].contains(step)
                #expect((archived == nil) == isOfArchive, "\(step)")
                #expect(restored == nil || isOfArchive, "\(step)")
                try await bundle.restoreAll()
                #expect(try await bundle.bodies() == before, "\(step)")
            }
            _ = try await bundle.withArchiver { try await $0.clean() }
            #expect(try bundle.files() == [])
            #expect(try await bundle.listed() == [])
        }
    }

    @Test("killed at any instant, archive and restore lose nothing")
    func killed() async throws {
        try await ArchiveBundle.with { bundle in
            let before = try await bundle.bodies()
            let start = ContinuousClock.now
            #expect(try bundle.run("archive", "--before", "2026-04").status == 0)
            let milliseconds = UInt64(max(1, (ContinuousClock.now - start) / .milliseconds(1)))
            var random = SeededGenerator(seed: TestSeed.value)
            for number in 0..<Self.kills {
                let months = try await bundle.archivedMonths()
                let arguments =
                    number % 2 == 0 && !months.isEmpty
                    ? ["--restore", months[Int(random.next() % UInt64(months.count))]] : ["--before", "2026-04"]
                let process = Process()
                process.executableURL = ServerProcess.executable
                process.arguments = ["archive"] + arguments
                process.environment = ProcessInfo.processInfo.environment.merging(bundle.environment) { $1 }
                process.standardOutput = FileHandle.nullDevice
                process.standardError = FileHandle.nullDevice
                try process.run()
                let killing = process.killed(after: Double(random.next() % milliseconds) / 1000)
                try process.end(within: 60)
                killing.cancel()
                if number % 10 == 0 {
                    _ = try await eventually("the files that are left are removed") {
                        try bundle.run("archive", "--clean").status == 0 ? true : nil
                    }
                    let verified = try bundle.verify()
                    #expect(verified.status == 0, "\(number): \(verified.output.prefix(1000))")
                }
            }

            // The database ends the sessions of the last one by itself.
            _ = try await eventually("the archive ends") {
                try bundle.run("archive", "--before", "2026-04").status == 0 ? true : nil
            }
            #expect(try bundle.verify().status == 0)
            #expect(try await bundle.listed().map { $0.replacing("kept ", with: "") }.sorted() == bundle.files())
            try await bundle.restoreAll()
            #expect(try await bundle.bodies() == before)
            #expect(try bundle.files() == [])
        }
    }

    /// A customer with bodies in archived months, as an id of the given kind.
    ///
    /// - Parameter replacesTransactions: Whether it must be possible to replace the stores' own ids.
    private static func person(
        _ bundle: ArchiveBundle, replacesTransactions: Bool = false
    ) async throws -> CustomerKey {
        let ids = try await bundle.log.lines(
            """
            select customer_identity.id
            from subledger.customer_identity
            join subledger.event
              on event.stream_id = customer_identity.stream_id
              and lower(event.facts::text) like '%"' || customer_identity.id || '"%'
            where customer_identity.kind = 'account'
              and customer_identity.ends_at = 'infinity'
              and event.received_at < '2026-05-01'
            group by customer_identity.id
            having count(distinct date_trunc('month', event.received_at)) > 1
            order by count(*) desc, customer_identity.id
            limit 30
            """)
        for id in ids where replacesTransactions {
            let key = CustomerKey(.account, id)
            let scope = try await withErasure(bundle) { erasure in
                try await erasure.scope(
                    of: key, app: ArchiveBundle.app, environment: .sandbox, replacesTransactions: true)
            }
            if scope.obstacle == nil { return key }
        }
        return CustomerKey(.account, try #require(replacesTransactions ? nil : ids.first))
    }

    /// The ids of a person that an erasure replaces, in lower case.
    private static func ids(
        of key: CustomerKey, _ bundle: ArchiveBundle, replacesTransactions: Bool
    ) async throws -> [String] {
        let scope = try await withErasure(bundle) { erasure in
            try await erasure.scope(
                of: key, app: ArchiveBundle.app, environment: .sandbox, replacesTransactions: replacesTransactions)
        }
        let ids = scope.parts.reduce(into: Set<String>()) { ids, part in
            ids.formUnion(part.keys.map(\.id.text))
            ids.formUnion(part.transactions)
        }
        return ids.map { $0.lowercased() }
    }

    /// The archive files in whose bodies one of the ids stands.
    private static func places(of ids: [String], _ bundle: ArchiveBundle) throws -> [String] {
        try bundle.files().filter { name in
            guard let file = try? BodyArchive(folder: bundle.folder).open(name) else { return true }
            for number in 0..<file.count {
                let body = try file.body(number: number)
                guard !body.stored.isEmpty else { continue }
                let text = String(decoding: try file.evidence(of: body, digest: body.digest), as: UTF8.self)
                let opened = ErasedText.opened(text).lowercased()
                if ids.contains(where: { opened.contains("\"\($0)\"") }) { return true }
            }
            return false
        }
    }

    private static func withErasure<Value>(
        _ bundle: ArchiveBundle, onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in },
        _ body: (Erasure) async throws -> Value
    ) async throws -> Value {
        let erasing = try await TestCluster.connect(bundle.log.database)
        let listing = try await TestCluster.connect(bundle.log.database)
        let outcome: Result<Value, any Error>
        do {
            let erasure = Erasure(
                connection: erasing, listing: listing, archive: BodyArchive(folder: bundle.folder), onStep: onStep)
            outcome = .success(try await body(erasure))
        } catch {
            outcome = .failure(error)
        }
        await erasing.close()
        await listing.close()
        return try outcome.get()
    }

    private static func erase(
        _ key: CustomerKey, _ bundle: ArchiveBundle, replacesTransactions: Bool,
        onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in }
    ) async throws {
        // What a store can still report at the end of the log is no matter here.
        let order = Erasure.Order(
            now: { ArchiveBundle.erasedAt }, by: "test", reason: "by mail", random: [UInt8](repeating: 7, count: 16),
            replacesTransactions: replacesTransactions, isRepeated: replacesTransactions)
        try await withErasure(bundle, onStep: onStep) { erasure in
            _ = try await erasure.erase(key, app: ArchiveBundle.app, environment: .sandbox, order)
            try await erasure.removeReplacedFiles()
        }
    }

    @Test(
        "an erasure reaches the files, whenever it is ended, and the rest of each file stays as it was",
        arguments: [false, true])
    func erased(replacesTransactions: Bool) async throws {
        try await ArchiveBundle.with { bundle in
            let key = try await Self.person(bundle, replacesTransactions: replacesTransactions)
            let ids = try await Self.ids(of: key, bundle, replacesTransactions: replacesTransactions)
            try await bundle.archive()
            let count = try bundle.files().count
            #expect(try !Self.places(of: [key.id.text], bundle).isEmpty)
            // Without the folder, nothing is erased, and the file is named.
            let blind = try bundle.run(
                "erase", "--app", ArchiveBundle.app, "--environment", "sandbox", "--customer", key.id.text, "--as",
                "account", "--reason", "by mail", "--yes", folder: "")
            #expect(blind.status == 78)
            #expect(
                blind.error.contains(
                    /bodies are in archive file \S+\.bodies: set SUBLEDGER_ARCHIVE_FOLDER; nothing was erased/),
                "\(blind.error)")
            for step in [BodyArchiver.Step.listed, .written, .verified] {
                let killer = Killer(at: step, number: 2)
                await #expect(throws: ArchiveBundle.Killed.self, "\(step)") {
                    try await Self.erase(key, bundle, replacesTransactions: replacesTransactions) {
                        try killer.check($0)
                    }
                }
                let verified = try bundle.verify()
                #expect(verified.status == 0, "\(step): \(verified.output.prefix(1000))")
                #expect(!verified.output.contains("erased"))
            }
            try await Self.erase(key, bundle, replacesTransactions: replacesTransactions)
            await bundle.log.projector.foldAllStreams()

            #expect(try Self.places(of: ids, bundle) == [])
            #expect(try bundle.files().count == count)
            #expect(try await bundle.listed().map { $0.replacing("kept ", with: "") }.sorted() == bundle.files())
            let verified = try bundle.verify()
            #expect(verified.status == 0, "\(verified.output.prefix(2000))")
            #expect(verified.output.contains(/\([1-9]\d* erased, \d+ archived\)/), "\(verified.output)")
            #expect(
                try await bundle.log.lines(
                    """
                    select distinct place
                    from subledger.event
                    cross join lateral subledger.body_place(stream_id, position)
                    order by 1
                    """) == ["archive", "database", "erased"])
            try await bundle.restoreAll()
            let restored = try bundle.verify()
            #expect(restored.status == 0, "\(restored.output.prefix(2000))")
        }
    }

    @Test("killed between its commit and the removal of the old files, an erasure is finished by the next command")
    func committed() async throws {
        try await ArchiveBundle.with { bundle in
            let key = try await Self.person(bundle)
            try await bundle.archive()
            let erasing = try await TestCluster.connect(bundle.log.database)
            let listing = try await TestCluster.connect(bundle.log.database)
            let erasure = Erasure(
                connection: erasing, listing: listing, archive: BodyArchive(folder: bundle.folder))
            let order = Erasure.Order(
                now: { ArchiveBundle.erasedAt }, by: "test", reason: "by mail", random: [UInt8](repeating: 7, count: 16)
            )
            _ = try await erasure.erase(key, app: ArchiveBundle.app, environment: .sandbox, order)
            await erasing.close()
            await listing.close()
            await bundle.log.projector.foldAllStreams()

            // The old files are there, and that is no secret.
            #expect(try !Self.places(of: [key.id.text], bundle).isEmpty)
            let verified = try bundle.verify()
            #expect(verified.status == 1)
            #expect(
                verified.output.contains(/archive file \S+ is to be removed: run `subledger archive --clean`/),
                "\(verified.output.prefix(2000))")
            let cleaned = try bundle.run("archive", "--clean")

            #expect(cleaned.status == 0 && cleaned.output.hasPrefix("removed: "), "\(cleaned.error)")
            #expect(try Self.places(of: [key.id.text], bundle) == [])
            #expect(try bundle.verify().status == 0)
        }
    }
}
