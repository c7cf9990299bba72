import Foundation
import Postgres

/// The folder with the archive files of a log, as far as this process can reach it.
package struct BodyArchive: Sendable, Hashable {
    /// Nil if none is configured.
    package let folder: String?

    package static let none = BodyArchive(folder: nil)

    package init(folder: String?) {
        self.folder = folder
    }

    /// Opens a file that the database lists.
    ///
    /// - Throws: ``DamagedBody/archived(file:)`` without a folder; ``DamagedBody/archive(_:)``.
    package func open(_ file: String) throws(DamagedBody) -> ArchiveFile {
        guard let folder else { throw .archived(file: file) }
        do throws(ArchiveError) {
            return try ArchiveFile(file, in: folder)
        } catch {
            throw .archive(error)
        }
    }

    /// The body of an event as it is in one of the files, with the file.
    ///
    /// - Parameter files: Those that can have it, as ``filesOfEvent`` names them.
    /// - Returns: Nil if none of them has it.
    func find(
        _ position: Int64, in files: String, _ opened: inout [String: Result<ArchiveFile, DamagedBody>]
    ) throws(DamagedBody) -> (body: ArchiveFile.Body, file: ArchiveFile)? {
        var unread: DamagedBody?
        for name in files.split(separator: "/").map(String.init) {
            let result = opened[name] ?? Result { () throws(DamagedBody) in try open(name) }
            opened[name] = result
            switch result {
            case .failure(let problem): unread = problem
            case .success(let file):
                do throws(ArchiveError) {
                    if let body = try file.body(at: position) { return (body, file) }
                } catch {
                    unread = .archive(error)
                }
            }
        }
        if let unread { throw unread }
        return nil
    }

    /// The evidence of an event whose body is in one of the files; nil if it was erased.
    ///
    /// - Throws: ``DamagedBody``.
    package func evidence(at position: Int64, in files: String, digest: [UInt8]) throws(DamagedBody) -> [UInt8]? {
        var opened: [String: Result<ArchiveFile, DamagedBody>] = [:]
        guard let (body, file) = try find(position, in: files, &opened) else { throw .missing }
        return body.stored.isEmpty ? nil : try file.evidence(of: body, digest: digest)
    }

    /// The files that can have the body of each `event` of a query, as `archived.files`, separated by `/`; null without any.
    package static let filesOfEvent: SQL = """
        lateral (
          select string_agg(event_archive.file, '/' order by event_archive.file) as files
          from subledger.event_archive
          where event_archive.stream_id = event.stream_id
            and event_archive.month = date_trunc('month', event.received_at at time zone 'UTC')::date
            and event_archive.state = 'kept'
            and event.position between event_archive.first_position and event_archive.last_position
        ) as archived
        """
}
