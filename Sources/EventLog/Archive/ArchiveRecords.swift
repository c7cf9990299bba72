import Encoding
import Foundation
import Postgres
import Subscriptions

/// A file that the database lists.
package struct ListedArchive: Sendable, Hashable {
    package enum State: String, Sendable {
        /// Being made, or left by a command that was interrupted.
        case writing
        /// Has bodies that are nowhere else.
        case kept
        /// Replaced or restored; to be removed.
        case removing
    }

    package let streamId: Int32
    package let stream: StreamKey?
    /// `2026-03`.
    package let month: String
    package let name: String
    package let state: State
    /// Nil while it is being made.
    package let digest: [UInt8]?
    package let bytes: Int64?
    package let bodies: Int64?
    package let positions: ClosedRange<Int64>?

    /// What the file's first line says.
    var label: ArchiveFile.Label? { stream.map { ArchiveFile.Label(stream: $0, month: month) } }
}

/// The list of archive files in the database, and what keeps commands that change it apart.
///
/// A file is listed before it exists and until it is removed. So what a kill leaves is known: the next command removes it.
package struct ArchiveRecords: Sendable {
    let connection: PostgresConnection

    /// - Parameter connection: Of the owner of the schema, unless it only reads.
    package init(connection: PostgresConnection) {
        self.connection = connection
    }

    /// All files, in order of stream and month.
    package func all() async throws(PostgresError) -> [ListedArchive] {
        try await connection.query(Statements.all, deadline: Self.deadline).map { row throws(PostgresError) in
            var stream: StreamKey?
            if let app = try row.optional(String.self, at: 1),
                let environment = Environment(rawValue: try row.value(at: 2))
            {
                stream = StreamKey(app: app, environment: environment)
            }
            let first = try row.optional(Int64.self, at: 9)
            let last = try row.optional(Int64.self, at: 10)
            return ListedArchive(
                streamId: try row.value(at: 0), stream: stream, month: try row.value(at: 3),
                name: try row.value(at: 4), state: ListedArchive.State(rawValue: try row.value(at: 5)) ?? .kept,
                digest: try row.optional(at: 6), bytes: try row.optional(at: 7), bodies: try row.optional(at: 8),
                positions: first.flatMap { first in last.map { first...max(first, $0) } })
        }
    }

    /// Begins a transaction during which no other command changes the list; appends go on.
    ///
    /// - Returns: False if another command is at work.
    func beginAlone(with steps: [Step] = []) async throws(PostgresError) -> Bool {
        let lock = [
            Step(Statements.waitShortly), Step(Statements.lock), Step(Statements.waitAgain),
        ]
        do throws(PostgresError) {
            try await connection.begin(with: lock + steps, deadline: Self.deadline)
            return true
        } catch {
            try? await connection.rollback(deadline: Self.deadline)
            guard error.sqlstate == "55P03" else { throw error }
            return false
        }
    }

    /// Lists a file that is about to be made.
    func begin(_ name: String, _ streamId: Int32, _ month: String, at now: Instant) async throws(PostgresError) {
        _ = try await connection.query(
            Statements.begin, [Parameter(streamId), Parameter(month), Parameter(name), Parameter(now)],
            deadline: Self.deadline)
    }

    /// Lists a file that is complete, as one that has the bodies.
    ///
    /// - Returns: False if another command has removed it from the list meanwhile.
    func keep(_ record: ArchiveFileWriter.Record) async throws(PostgresError) -> Bool {
        let rows = try await connection.query(
            Statements.keep,
            [
                Parameter(record.name), Parameter(record.digest), Parameter(record.bytes), Parameter(record.first),
                Parameter(record.last), Parameter(record.bodies),
            ], deadline: Self.deadline)
        return rows.count == 1
    }

    /// Lists files as those whose bodies are elsewhere now.
    func release(_ names: [String]) async throws(PostgresError) {
        _ = try await connection.query(Statements.release, [.array(names)], deadline: Self.deadline)
    }

    /// Removes the files whose bodies are elsewhere, and those that an interrupted command left.
    ///
    /// - Returns: How many were listed.
    /// - Throws: ``BodyArchiver/Failure/folderIsOther(_:missing:)``; ``ArchiveError`` if a file cannot be removed;
    ///   ``PostgresError``.
    @discardableResult
    func sweep(_ folder: String) async throws -> Int {
        let listed = try await all()
        let kept = listed.filter { $0.state == .kept }.map(\.name)
        // In another folder, nothing would be found to remove, and the list would say that nothing is left.
        if let first = kept.first, !kept.contains(where: { access("\(folder)/\($0)", F_OK) == 0 }) {
            throw BodyArchiver.Failure.folderIsOther(folder, missing: first)
        }
        let stale = listed.filter { $0.state != .kept }
        for file in stale {
            for name in [file.name, ArchiveFileWriter.unfinished(file.name)] {
                guard unlink("\(folder)/\(name)") == 0 || errno == ENOENT else {
                    throw ArchiveError.unwritable("\(folder)/\(name)")
                }
            }
        }
        guard !stale.isEmpty else { return 0 }
        try ArchiveFileWriter.synchronize(folder)
        _ = try await connection.query(
            Statements.forget, [.array(stale.map(\.name))], deadline: Self.deadline)
        return stale.count
    }

    private static var deadline: ContinuousClock.Instant { .now + Limits.auditWaitMax }

    enum Statements {
        static let all = Statement(
            "archive_all",
            """
            select stream_id, stream.app, stream.environment, to_char(month, 'YYYY-MM'), file, state, file_sha256,
              file_bytes, bodies, first_position, last_position
            from subledger.event_archive
            left join subledger.stream using (stream_id)
            order by stream_id, month, file
            """)

        /// Autovacuum gives way after a second.
        static let waitShortly = Statement(
            "archive_wait_shortly",
            """
            select set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '0', true)
            """)

        static let lock = Statement(
            "archive_lock",
            """
            lock table subledger.event_archive in share update exclusive mode
            """)

        static let waitAgain = Statement(
            "archive_wait_again",
            """
            select set_config('lock_timeout', '0', true)
            """)

        static let begin = Statement(
            "archive_begin",
            """
            insert into subledger.event_archive (stream_id, month, file, state, written_at)
            values ($1, ($2 || '-01')::date, $3, 'writing', $4)
            """)

        static let keep = Statement(
            "archive_keep",
            """
            update subledger.event_archive
            set state = 'kept', file_sha256 = $2, file_bytes = $3, first_position = $4, last_position = $5, bodies = $6
            where file = $1
              and state = 'writing'
            returning file
            """)

        static let release = Statement(
            "archive_release",
            """
            update subledger.event_archive
            set state = 'removing'
            where file = any ($1::text[])
            """)

        static let forget = Statement(
            "archive_forget",
            """
            delete from subledger.event_archive
            where file = any ($1::text[])
              and state <> 'kept'
            """)
    }
}
