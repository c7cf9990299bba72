import Foundation
import Postgres
import Subscriptions

extension BodyArchiver {
    /// Puts the bodies of a month back into the database, and removes their files.
    ///
    /// All or nothing, whenever it is interrupted: the bodies are back once one transaction has committed, and the files are
    /// removed after it, by the next command at the latest.
    ///
    /// - Throws: ``Failure``; ``ArchiveError``; ``DamagedBody``; ``PostgresError``.
    package func restore(
        _ month: String, onProgress: (Int64, Int64) -> Void = { _, _ in }
    ) async throws -> Outcome {
        try await alone {
            let listed = try await records.all().filter { $0.month == month && $0.state == .kept }
            guard !listed.isEmpty else { throw Failure.notArchived(month: month) }
            var files: [(listed: ListedArchive, file: ArchiveFile)] = []
            for file in listed {
                let opened = try file.open(in: folder)
                _ = try await compare(opened, file.streamId)
                files.append((file, opened))
            }
            let total = files.reduce(0) { $0 + Int64($1.file.count) }
            // A transaction of its own, since it keeps others from making partitions.
            _ = try await connection.query(
                BodyPartitions.makeOf, [Parameter(month)], deadline: Self.deadline)
            try await connection.begin(deadline: Self.deadline)
            do {
                var done: Int64 = 0
                for (listed, file) in files {
                    try await restore(file, listed.streamId) { onProgress(done + $0, total) }
                    done += Int64(file.count)
                    try onStep(.restoring)
                }
                try await records.release(files.map(\.listed.name))
                try await connection.commit(deadline: Self.deadline)
            } catch {
                try? await connection.rollback(deadline: Self.deadline)
                throw error
            }
            try onStep(.restored)
            try await records.sweep(folder)
            try onStep(.removed)
            return Outcome(
                month: month, files: files.count, bodies: total, bytes: files.reduce(0) { $0 + $1.file.bytes })
        }
    }

    private func restore(_ file: ArchiveFile, _ streamId: Int32, onProgress: (Int64) -> Void) async throws {
        _ = try await connection.query(
            Statements.restoreHeaders,
            [
                Parameter(streamId), .array(file.headers.map(\.key)), .array(file.headers.map(\.value)),
            ], deadline: Self.deadline)
        var number = 0
        while number < file.count {
            var bodies: [ArchiveFile.Body] = []
            var bytes = 0
            while number < file.count, bodies.count < Limits.archivePageBodiesMax, bytes < Limits.auditPageBytesMax {
                bodies.append(try file.body(number: number))
                bytes += bodies[bodies.count - 1].stored.count
                number += 1
            }
            let rows = try await connection.query(
                Statements.restore,
                [
                    Parameter(streamId), .array(bodies.map(\.position)), .array(bodies.map(\.stored)),
                    Parameter(file.label.month),
                ], deadline: Self.deadline)
            guard rows.count == bodies.count else { throw Failure.readBack(file.name) }
            onProgress(Int64(number))
        }
    }
}

extension ListedArchive {
    /// Opens the file, after it was compared with what the database says of it, byte for byte.
    ///
    /// - Throws: ``ArchiveError``.
    package func open(in folder: String) throws(ArchiveError) -> ArchiveFile {
        let file = try ArchiveFile(name, in: folder)
        guard file.label == label else {
            throw ArchiveError(
                file: name,
                problem: .other(
                    "it has bodies of \(file.label.stream.app) (\(file.label.stream.environment.rawValue)), "
                        + "\(file.label.month)"))
        }
        guard try file.digest() == digest else {
            throw ArchiveError(file: name, problem: .damaged("its SHA-256 is another one than the database has"))
        }
        return file
    }
}
