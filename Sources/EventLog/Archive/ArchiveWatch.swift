import Foundation
import Logging
import Metrics
import Postgres
import Synchronization

/// Looks whether each archive file is in the folder with its length, and none is left that should be gone.
///
/// Without a folder, only files that are to be removed are a problem: a process needs the folder only for bodies that it reads.
package final class ArchiveWatch: Sendable {
    package struct Figures: Sendable, Hashable {
        /// Files with bodies that are nowhere else.
        package var kept = 0
        /// Those of them that are not there, or have another length. Nil without a folder.
        package var missing: Int?
        /// Files that an interrupted erasure or restoration left, which can have bodies of an erased person.
        package var stale = 0
        /// The first file with a problem.
        package var example: String?

        /// One line; nil if there is none.
        package var problem: String? {
            let found = [
                missing.flatMap { $0 > 0 ? "archive files missing: \($0)" : nil },
                stale > 0 ? "archive files to remove: \(stale)" : nil,
            ].compactMap(\.self)
            guard !found.isEmpty else { return nil }
            return "\(found.joined(separator: ", ")), for example \(example ?? "")"
        }
    }

    private let pool: PostgresPool
    private let archive: BodyArchive
    private let logger: Logger
    private let latest = Mutex<Figures?>(nil)
    private let missing = Gauge(label: "subledger_archive_files_missing")
    private let stale = Gauge(label: "subledger_archive_files_stale")

    /// - Parameter pool: Of the receiver's role.
    package init(pool: PostgresPool, archive: BodyArchive, logger: Logger) {
        self.pool = pool
        self.archive = archive
        self.logger = logger
        // A series that begins with its first problem shows no increase.
        missing.record(0)
        stale.record(0)
    }

    /// Nil before the database has answered for the first time.
    package var figures: Figures? { latest.withLock { $0 } }

    /// Looks every ``Limits/archiveLookTime`` until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await look()
            try? await Task.sleep(for: Limits.archiveLookTime)
        }
    }

    /// Looks once, and logs a line if a problem is new or another one.
    package func look() async {
        guard let listed = try? await pool.query(Statements.files, deadline: .now + Limits.readWaitMax) else { return }
        var figures = Figures(missing: archive.folder == nil ? nil : 0)
        do throws(PostgresError) {
            for row in listed {
                let name: String = try row.value(at: 0)
                let bytes: Int64? = try row.optional(at: 1)
                if let bytes {
                    figures.kept += 1
                    guard let folder = archive.folder, !Self.isThere("\(folder)/\(name)", bytes) else { continue }
                    figures.missing = (figures.missing ?? 0) + 1
                } else {
                    figures.stale += 1
                }
                figures.example = figures.example ?? name
            }
        } catch {
            return
        }
        missing.record(figures.missing ?? 0)
        stale.record(figures.stale)
        let old = latest.withLock { latest in
            defer { latest = figures }
            return latest
        }
        guard figures.problem != old?.problem else { return }
        if let problem = figures.problem {
            logger.error("archive files are not as listed", metadata: ["archive.problem": "\(problem)"])
        } else if old?.problem != nil {
            logger.notice("archive files are as listed again")
        }
    }

    private static func isThere(_ path: String, _ bytes: Int64) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && Int64(status.st_size) == bytes
    }

    private enum Statements {
        /// Those that are to be removed have no length. One that is being made is none of them, unless it takes a day.
        static let files = Statement(
            "archive_watch_files",
            """
            select file, case when state = 'kept' then file_bytes end
            from subledger.event_archive
            where state <> 'writing'
              or written_at < now() - interval '1 day'
            order by stream_id, month, file
            """)
    }
}
