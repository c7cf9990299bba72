import Encoding
import EventLog
import Foundation
import Postgres
import Simulation
import Subscriptions
import TestSupport
import Testing

/// A log with bodies of sixteen months, and a folder for its archive files.
struct ArchiveBundle {
    let log: SimulatedLog
    let folder: String
    let root: String
    let environment: [String: String]

    /// Ends work where a test wants it to end, as a kill does.
    struct Killed: Error {}

    static let last = "2026-04"
    static let app = V1Body.app

    /// - Parameter now: The clock of the archiver: the months of the log are over.
    static let now = Instant(iso8601: "2026-05-05T12:00:00.000Z") ?? .latest
    /// In a month that has a partition.
    static let erasedAt = Instant(iso8601: "2026-04-30T23:59:59.999Z") ?? .latest

    static func with(_ test: (ArchiveBundle) async throws -> Void) async throws {
        let template = try await SimulatedLog.everyStory.value
        try await SimulatedLog.with(from: template) { log in
            let folder = TestFolder.path("archive")
            let root = TestFolder.path("root") + ".pem"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            defer {
                try? FileManager.default.removeItem(atPath: folder)
                try? FileManager.default.removeItem(atPath: root)
            }
            try TestCertificates.standard.rootPEM.write(toFile: root, atomically: true, encoding: .utf8)
            let socket = try await TestCluster.server().socketFolder
            let url = "postgres:///\(log.database.database ?? "")?host=\(socket)&user=subledger"
            try await test(
                ArchiveBundle(
                    log: log, folder: folder, root: root,
                    environment: [
                        "SUBLEDGER_DATABASE_URL": url, "SUBLEDGER_ARCHIVE_FOLDER": folder,
                        "SUBLEDGER_APP_BUNDLE_ID": app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret,
                    ]))
        }
    }

    func run(_ arguments: String..., folder: String? = nil) throws -> (status: Int32, output: String, error: String) {
        try ServerProcess.run(
            arguments, environment: environment.merging(["SUBLEDGER_ARCHIVE_FOLDER": folder ?? self.folder]) { $1 },
            limit: 120)
    }

    func verify(folder: String? = nil) throws -> (status: Int32, output: String, error: String) {
        try ServerProcess.run(
            ["verify", "--all", "--root", root],
            environment: environment.merging(["SUBLEDGER_ARCHIVE_FOLDER": folder ?? self.folder]) { $1 }, limit: 120)
    }

    /// Every body in the database, with its place.
    func bodies() async throws -> [String] {
        try await log.lines(
            """
            select format('%s %s %s %s', stream_id, position, received_at at time zone 'UTC', md5(body))
            from subledger.event_body
            order by stream_id, position
            """)
    }

    func months() async throws -> [String] {
        try await log.lines(
            """
            select distinct to_char(received_at at time zone 'UTC', 'YYYY-MM')
            from subledger.event_body
            order by 1
            """)
    }

    /// The files that the database lists, with their states.
    func listed() async throws -> [String] {
        try await log.lines("select format('%s %s', state, file) from subledger.event_archive order by month, file")
    }

    func files() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
    }

    /// Runs work with the archiver, with connections of its own, which end with it.
    func withArchiver<Value>(
        onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in },
        _ work: (BodyArchiver) async throws -> Value
    ) async throws -> Value {
        let lock = try await TestCluster.connect(log.database)
        let connection = try await TestCluster.connect(log.database)
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(
                try await work(
                    BodyArchiver(
                        lock: lock, connection: connection, folder: folder, now: { Self.now }, onStep: onStep)))
        } catch {
            outcome = .failure(error)
        }
        await lock.close()
        await connection.close()
        return try outcome.get()
    }

    func archive(
        before month: String = Self.last, onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in }
    ) async throws {
        try await withArchiver(onStep: onStep) { try await $0.archive(before: month) }
    }

    func archivedMonths() async throws -> [String] {
        try await log.lines(
            """
            select distinct to_char(month, 'YYYY-MM')
            from subledger.event_archive
            where state = 'kept'
            order by 1
            """)
    }

    /// Restores every archived month.
    func restoreAll(onStep: @escaping @Sendable (BodyArchiver.Step) throws -> Void = { _ in }) async throws {
        for month in try await archivedMonths() {
            _ = try await withArchiver(onStep: onStep) { try await $0.restore(month) }
        }
    }
}
