import Encoding
import Foundation
import Postgres

/// Takes bodies out of archive files, for an erasure.
///
/// A file never changes. So another one is written without the bodies, read back and compared; the erasure's transaction lists
/// it instead of the first one, which is removed after the commit. Whatever is interrupted, the next command removes the file
/// that is not listed as having the bodies.
struct ArchiveRewrite: Sendable {
    /// That of the erasure, in its transaction.
    let erasing: PostgresConnection
    /// Another one, which lists files before they are made.
    let listing: PostgresConnection
    let archive: BodyArchive
    let onStep: @Sendable (BodyArchiver.Step) throws -> Void

    /// The files that can have one of the bodies.
    func files(_ streamId: Int32, _ positions: [Int64]) async throws(PostgresError) -> [ListedArchive] {
        let rows = try await erasing.query(
            BodyArchiver.Statements.filesOf, [Parameter(streamId), .array(positions)],
            deadline: BodyArchiver.deadline)
        let names = Set(try rows.map { row throws(PostgresError) in try row.value(String.self, at: 0) })
        return try await ArchiveRecords(connection: erasing).all().filter { names.contains($0.name) }
    }

    /// Empties the bodies of a stream that are in files.
    ///
    /// - Throws: ``Erasure/Failure/archived(file:)``; ``ArchiveError``; ``PostgresError``.
    func empty(_ streamId: Int32, _ positions: [Int64], at now: Instant) async throws {
        let erased = Set(positions)
        for listed in try await files(streamId, positions) {
            guard let folder = archive.folder else { throw Erasure.Failure.archived(file: listed.name) }
            let old = try listed.open(in: folder)
            guard try positions.contains(where: { try old.body(at: $0).map { !$0.stored.isEmpty } ?? false }) else {
                continue
            }
            let name = BodyArchiver.name(of: old.label)
            try await ArchiveRecords(connection: listing).begin(name, streamId, listed.month, at: now)
            try onStep(.listed)
            let record = try write(name, old, without: erased, in: folder)
            try onStep(.written)
            guard try isCopy(record, old, without: erased, in: folder) else {
                throw BodyArchiver.Failure.readBack(name)
            }
            try onStep(.verified)
            let records = ArchiveRecords(connection: erasing)
            guard try await records.keep(record) else { throw BodyArchiver.Failure.swept(name) }
            try await records.release([old.name])
        }
    }

    /// Removes the files whose bodies are elsewhere, and those that an interrupted command left.
    ///
    /// - Throws: ``Erasure/Failure/archived(file:)`` if there are some, and no folder is configured; ``ArchiveError``;
    ///   ``PostgresError``.
    func sweep() async throws {
        let records = ArchiveRecords(connection: listing)
        if let folder = archive.folder {
            try await records.sweep(folder)
        } else if let left = try await records.all().first(where: { $0.state != .kept }) {
            throw Erasure.Failure.archived(file: left.name)
        }
    }

    private func write(
        _ name: String, _ old: ArchiveFile, without erased: Set<Int64>, in folder: String
    ) throws(ArchiveError) -> ArchiveFileWriter.Record {
        var writer = try ArchiveFileWriter(name, old.label, in: folder)
        var last: Int64 = 0
        for number in 0..<old.count {
            let body = try old.body(number: number)
            guard body.position > last else {
                throw ArchiveError(file: old.name, problem: .damaged("its index is not in order"))
            }
            last = body.position
            try writer.append(
                position: body.position, digest: body.digest, stored: erased.contains(body.position) ? [] : body.stored)
        }
        return try writer.finish(headers: old.headers)
    }

    /// Whether a file, as it is on the disk, has everything of another one but the erased bodies.
    private func isCopy(
        _ record: ArchiveFileWriter.Record, _ old: ArchiveFile, without erased: Set<Int64>, in folder: String
    ) throws(ArchiveError) -> Bool {
        let new = try ArchiveFile(record.name, in: folder)
        guard try new.digest() == record.digest, new.label == old.label, new.count == old.count,
            new.headers == old.headers
        else { return false }
        for number in 0..<old.count {
            let (before, after) = (try old.body(number: number), try new.body(number: number))
            guard before.position == after.position, before.digest == after.digest,
                after.stored == (erased.contains(before.position) ? [] : before.stored)
            else { return false }
        }
        return true
    }
}
