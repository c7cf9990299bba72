import Encoding
import Foundation
import Postgres
import Subscriptions

/// Moves the bodies of past months from the database into files, and back.
///
/// Every step can be followed by a kill. The partition of a month is dropped in the transaction that lists its files as those
/// that have the bodies, after each of them was read back from the disk and compared with the digests in the log.
package struct BodyArchiver: Sendable {
    /// Where a test ends the work.
    package enum Step: String, Sendable, CaseIterable {
        case locked, listed, written, verified, dropping, dropped, restoring, restored, removed
    }

    /// A month that was moved.
    package struct Outcome: Sendable, Hashable {
        package let month: String
        package let files: Int
        package let bodies: Int64
        package let bytes: Int64
    }

    /// Why nothing more is moved. The description is one line.
    package enum Failure: Error, Hashable, CustomStringConvertible {
        case distributed
        case busy
        case monthNotOver(String)
        case needed(month: String, String)
        case damaged(StreamKey, position: Int64, String)
        case stray(month: String, found: Int64, moved: Int64)
        case notArchived(month: String)
        case folderIsOther(String, missing: String)
        case readBack(String)
        case swept(String)
        case inUse(month: String)

        package var description: String {
            switch self {
            case .distributed: "bodies cannot be archived on a cluster of several nodes"
            case .busy: "another command archives, restores or erases: wait until it has ended"
            case .monthNotOver(let month):
                "--before \(month): that month has not begun, so the one before it is not over"
            case .needed(let month, let why): "the bodies of \(month) are still needed: \(why)"
            case .damaged(let stream, let position, let problem):
                "\(stream.app) (\(stream.environment.rawValue)) position \(position): \(problem): run `subledger verify`"
            case .stray(let month, let found, let moved):
                "the database has \(found) bodies of \(month), of which \(moved) belong to events: run `subledger verify`, or "
                    + "repeat the command if bodies arrived meanwhile"
            case .notArchived(let month): "no body of \(month) is archived"
            case .folderIsOther(let folder, let missing):
                "\(folder) has none of the archive files, for example not \(missing): expected the folder of the earlier ones"
            case .readBack(let file): "archive file \(file) was not read back as it was written: nothing was dropped"
            case .swept(let file): "another command removed archive file \(file): nothing was dropped"
            case .inUse(let month):
                "other sessions use table event_body, so the bodies of \(month) stay for now: repeat the command later"
            }
        }
    }

    /// Holds the lock.
    private let lock: ArchiveRecords
    let connection: PostgresConnection
    let folder: String
    let now: @Sendable () -> Instant
    let onStep: @Sendable (Step) throws -> Void

    var records: ArchiveRecords { ArchiveRecords(connection: connection) }

    /// - Parameters:
    ///   - lock: A connection of the owner of the schema that nothing else uses.
    ///   - connection: Another one.
    package init(
        lock: PostgresConnection, connection: PostgresConnection, folder: String,
        now: @escaping @Sendable () -> Instant, onStep: @escaping @Sendable (Step) throws -> Void = { _ in }
    ) {
        self.lock = ArchiveRecords(connection: lock)
        self.connection = connection
        self.folder = folder
        self.now = now
        self.onStep = onStep
    }

    /// The months before one that have bodies in the database, with their numbers.
    ///
    /// - Throws: ``Failure/monthNotOver(_:)``.
    package func months(before month: String) async throws -> [(month: String, bodies: Int64)] {
        let date = now().calendarDate
        let current = "\(date.year)-\(date.month < 10 ? "0" : "")\(date.month)"
        guard month <= current else { throw Failure.monthNotOver(month) }
        var months: [(String, Int64)] = []
        for row in try await connection.query(Statements.months, [Parameter(month)], deadline: Self.deadline) {
            let name: String = try row.value(at: 0)
            let rows = try await connection.query(Statements.count, [Parameter(name)], deadline: Self.deadline)
            months.append((name, try rows[0].value(at: 0)))
        }
        return months
    }

    /// Why the bodies of a month must stay in the database; nil if nothing waits for them.
    package func need(of month: String) async throws(PostgresError) -> String? {
        try await connection.query(Statements.needs, [Parameter(month)], deadline: Self.deadline).first?.value(at: 0)
    }

    /// Moves the bodies of all months before one into files, the oldest first. Each month is durable by itself.
    ///
    /// - Parameters:
    ///   - onMonth: Called after each.
    ///   - onProgress: Called with the numbers of bodies moved, and of all of them.
    /// - Throws: ``Failure``; ``ArchiveError``; ``PostgresError``.
    package func archive(
        before month: String, onMonth: (Outcome) -> Void = { _ in }, onProgress: (Int64, Int64) -> Void = { _, _ in }
    ) async throws {
        try await alone {
            let months = try await months(before: month)
            let total = months.reduce(0) { $0 + $1.bodies }
            var done: Int64 = 0
            for (month, _) in months {
                if let need = try await need(of: month) { throw Failure.needed(month: month, need) }
                let outcome = try await archive(month) { onProgress(done + $0, total) }
                done += outcome.bodies
                onMonth(outcome)
            }
        }
    }

    /// Removes the files that interrupted commands left.
    ///
    /// - Returns: How many were listed.
    package func clean() async throws -> Int {
        let before = try await records.all().count
        return try await alone { before - (try await records.all().count) }
    }

    /// Runs work while no other command changes the list of files, after what an interrupted one left was removed.
    func alone<Value>(_ work: () async throws -> Value) async throws -> Value {
        guard try await !Distribution.isInUse(connection) else { throw Failure.distributed }
        guard try await lock.beginAlone() else { throw Failure.busy }
        do {
            try await records.sweep(folder)
            try onStep(.locked)
            let value = try await work()
            try? await lock.connection.rollback(deadline: Self.deadline)
            return value
        } catch {
            try? await lock.connection.rollback(deadline: Self.deadline)
            throw error
        }
    }

    private func archive(_ month: String, onProgress: (Int64) -> Void) async throws -> Outcome {
        var files: [ArchiveFileWriter.Record] = []
        var done: Int64 = 0
        for row in try await connection.query(Statements.streams, [Parameter(month)], deadline: Self.deadline) {
            guard let environment = Environment(rawValue: try row.value(at: 2)) else { continue }
            let label = ArchiveFile.Label(
                stream: StreamKey(app: try row.value(at: 1), environment: environment), month: month)
            let streamId: Int32 = try row.value(at: 0)
            let name = Self.name(of: label)
            try await records.begin(name, streamId, month, at: now())
            try onStep(.listed)
            let record = try await write(name, label, streamId) { onProgress(done + $0) }
            try onStep(.written)
            guard record.bodies > 0 else { throw try await stray(month, moved: done) }
            try await check(record, label, streamId)
            try onStep(.verified)
            done += record.bodies
            files.append(record)
        }
        try await drop(month, files)
        try onStep(.dropped)
        return Outcome(month: month, files: files.count, bodies: done, bytes: files.reduce(0) { $0 + $1.bytes })
    }

    /// The name of a new file. A random part keeps it apart from every file that was there before.
    static func name(of label: ArchiveFile.Label) -> String {
        let app = label.stream.app.utf8.map { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                String(UnicodeScalar(byte))
            default: "%" + Hex.text([byte])
            }
        }.joined()
        let random = Hex.text((0..<4).map { _ in UInt8.random(in: .min ... .max) })
        let prefix = app.hasPrefix(".") ? "_" : ""
        return "\(prefix)\(app)-\(label.stream.environment.rawValue)-\(label.month)-\(random).bodies"
    }

    private func write(
        _ name: String, _ label: ArchiveFile.Label, _ streamId: Int32, onProgress: (Int64) -> Void
    ) async throws -> ArchiveFileWriter.Record {
        var writer = try ArchiveFileWriter(name, label, in: folder)
        var headers: [[UInt8]: [UInt8]] = [:]
        let audit = LogAudit(connection: connection)
        var position: Int64 = 0
        var written: Int64 = 0
        while true {
            let rows = try await connection.query(
                Statements.page,
                [
                    Parameter(streamId), Parameter(label.month), Parameter(position),
                    Parameter(Int64(Limits.archivePageBodiesMax)), Parameter(Int64(Limits.auditPageBytesMax)),
                ], deadline: Self.deadline)
            guard rows.count > 0 else { break }
            let bodies = try rows.map { row throws(PostgresError) in try row.value([UInt8].self, at: 2) }
            for (digest, text) in try await audit.headers(of: bodies, inStream: streamId, except: headers) {
                headers[digest] = text
            }
            for (row, stored) in zip(rows, bodies) {
                position = try row.value(at: 0)
                let digest: [UInt8] = try row.value(at: 1)
                if !stored.isEmpty {
                    do throws(DamagedBody) {
                        _ = try AuditedBody(stored: stored, digest: digest, headers: headers).bytes()
                    } catch {
                        throw Failure.damaged(label.stream, position: position, error.description)
                    }
                }
                try writer.append(position: position, digest: digest, stored: stored)
            }
            written += Int64(rows.count)
            onProgress(written)
        }
        return try writer.finish(headers: headers)
    }

    /// Reads a file back from the disk, and compares each body with its digest in the log.
    private func check(
        _ record: ArchiveFileWriter.Record, _ label: ArchiveFile.Label, _ streamId: Int32
    ) async throws {
        let file = try ArchiveFile(record.name, in: folder)
        guard try file.digest() == record.digest, file.label == label, Int64(file.count) == record.bodies,
            try await compare(file, streamId) == record.empty
        else { throw Failure.readBack(record.name) }
    }

    /// Compares each body of a file with its digest in the log.
    ///
    /// - Returns: How many are empty.
    /// - Throws: ``Failure/readBack(_:)``.
    func compare(_ file: ArchiveFile, _ streamId: Int32) async throws -> Int64 {
        var empty: Int64 = 0
        for start in stride(from: 0, to: file.count, by: Limits.archivePageBodiesMax) {
            var bodies: [ArchiveFile.Body] = []
            for number in start..<min(file.count, start + Limits.archivePageBodiesMax) {
                bodies.append(try file.body(number: number))
            }
            let rows = try await connection.query(
                Statements.digests,
                [Parameter(streamId), .array(bodies.map(\.position)), Parameter(file.label.month)],
                deadline: Self.deadline)
            var digests: [Int64: [UInt8]] = [:]
            for row in rows { digests[try row.value(at: 0)] = try row.value([UInt8].self, at: 1) }
            for body in bodies {
                guard let digest = digests[body.position], digest == body.digest else {
                    throw Failure.readBack(file.name)
                }
                if body.stored.isEmpty {
                    empty += 1
                } else if (try? file.evidence(of: body, digest: digest)) == nil {
                    throw Failure.readBack(file.name)
                }
            }
        }
        return empty
    }

    /// Lists the files as those that have the bodies, and drops the partition, in one transaction.
    private func drop(_ month: String, _ files: [ArchiveFileWriter.Record]) async throws {
        let bodies = files.reduce(0) { $0 + $1.bodies }
        var attempt = 1
        while true {
            try await connection.begin(deadline: Self.deadline)
            do {
                for file in files {
                    guard try await records.keep(file) else { throw Failure.swept(file.name) }
                }
                try onStep(.dropping)
                if let need = try await need(of: month) { throw Failure.needed(month: month, need) }
                _ = try await connection.query(
                    Statements.drop, [Parameter(month), Parameter(bodies)], deadline: Self.deadline)
                try await connection.commit(deadline: Self.deadline)
                return
            } catch let error as PostgresError {
                try? await connection.rollback(deadline: Self.deadline)
                switch error.sqlstate {
                // A session that stores bodies of the month may wait for this one, too, and this one be ended for it.
                case "55P03" where attempt < Limits.archiveDropAttemptsMax,
                    "40P01" where attempt < Limits.archiveDropAttemptsMax:
                    attempt += 1
                    try await Task.sleep(for: Limits.archiveDropPause)
                case "55P03", "40P01": throw Failure.inUse(month: month)
                case "55000": throw try await stray(month, moved: bodies)
                default: throw error
                }
            } catch {
                try? await connection.rollback(deadline: Self.deadline)
                throw error
            }
        }
    }

    private func stray(_ month: String, moved: Int64) async throws -> Failure {
        let rows = try await connection.query(Statements.count, [Parameter(month)], deadline: Self.deadline)
        return .stray(month: month, found: try rows[0].value(at: 0), moved: moved)
    }

    static var deadline: ContinuousClock.Instant { .now + Limits.auditWaitMax }
}
