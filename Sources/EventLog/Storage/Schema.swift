import CResources
import Crypto
import Postgres

/// Installs and checks the schema that `schema.sql` describes.
///
/// The file has two halves. The first is applied once; a release that changes it raises the version. The second, the
/// repeatable half, has views, functions, triggers and comments, and is applied again when its text has changed.
package enum Schema {
    /// The version that this release reads and writes.
    package static let version: Int32 = 1

    package enum Outcome: Sendable {
        case applied
        case upToDate
        /// The version is this release's, but other sessions use what the repeatable half would replace. The installed
        /// half remains, and works with this release.
        case inUse
    }

    private static let whole: String = {
        let file = embedded_schema_sql()
        return String(decoding: UnsafeBufferPointer(start: file.start, count: file.count), as: UTF8.self)
    }()
    private static let repeatable: String = {
        guard let marker = whole.firstRange(of: "\n-- Repeatable ---") else {
            preconditionFailure("schema.sql has no repeatable half")
        }
        return String(whole[marker.lowerBound...])
    }()
    private static let repeatableDigest = Array(
        SHA256.hash(data: Array((repeatable + Distribution.script).utf8)))

    /// Migrates the database to this release's version, with this release's repeatable half. Safe to repeat, and to call
    /// from several instances at once: one of them migrates, and the others wait and find the schema up to date.
    ///
    /// If releases with the same version but different repeatable halves share a database, the half of the last call
    /// remains. A standby, and a user that does not own the schema, keep the half that they find.
    ///
    /// A session that may only read cannot block this. A database that is up to date is not locked; another one is
    /// locked with a table lock that requires write privileges; the first installation is serialized by the unique name
    /// of the schema; the repeatable half waits only seconds for the readers of a view.
    ///
    /// - Throws: ``MigrationError``.
    package static func migrate(_ connection: PostgresConnection) async throws(MigrationError) -> Outcome {
        let deadline = ContinuousClock.now + Limits.migrateWaitMax
        do throws(MigrationError) {
            return try await migrate(connection, deadline: deadline)
        } catch {
            // Another instance has created the schema in the meantime. If it is a foreign schema, the second attempt
            // fails too.
            guard case .database(let cause) = error, cause.isSchemaThere else { throw error }
            return try await migrate(connection, deadline: deadline)
        }
    }

    private static func migrate(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws(MigrationError) -> Outcome {
        var isReplacing = false
        do {
            if try await installed(connection, deadline: deadline).isUpToDate { return .upToDate }
            try await connection.begin(deadline: deadline)
            if try await exists(connection, deadline: deadline) {
                _ = try await connection.query(Statements.lock, deadline: deadline)
            }
            let found = try await installed(connection, deadline: deadline)
            guard found.version <= version else {
                throw MigrationError.newer(found: found.version, known: version)
            }
            if found.isUpToDate {
                try await connection.commit(deadline: deadline)
                return .upToDate
            }
            isReplacing = found.version == version
            try await connection.script(isReplacing ? repeatable : whole, deadline: deadline)
            if try await Distribution.isInUse(connection) {
                try await connection.script(Distribution.script, deadline: deadline)
            }
            _ = try await connection.query(
                Statements.record, [Parameter(version), Parameter(repeatableDigest)], deadline: deadline)
            try await connection.commit(deadline: deadline)
            return .applied
        } catch let error as MigrationError {
            try? await connection.rollback(deadline: deadline)
            throw error
        } catch let error as PostgresError {
            try? await connection.rollback(deadline: deadline)
            if isReplacing, error.isLockFailure { return .inUse }
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
    }

    /// Checks that the database has this release's schema version. Changes nothing. The repeatable half may be that of
    /// another release.
    ///
    /// - Throws: ``MigrationError``.
    package static func check(_ connection: PostgresConnection) async throws(MigrationError) {
        let found: Int32
        do {
            found = try await installed(connection, deadline: .now + Limits.readWaitMax).version
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
        guard found <= version else { throw .newer(found: found, known: version) }
        guard found == version else { throw .older(found: found, needed: version) }
    }

    private struct Installed {
        /// 0 if there is no schema yet.
        var version: Int32 = 0
        /// SHA-256 of the repeatable half; nil if it is unknown.
        var repeatableDigest: [UInt8]?
        /// Whether the database is not a standby, and the user owns the schema.
        var isReplaceable = false

        var isUpToDate: Bool {
            version == Schema.version && (repeatableDigest == Schema.repeatableDigest || !isReplaceable)
        }
    }

    private static func installed(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws -> Installed {
        guard try await exists(connection, deadline: deadline) else { return Installed() }
        let rows = try await connection.query(Statements.installed, deadline: deadline)
        guard rows.count > 0 else { return Installed() }
        return Installed(
            version: try rows[0].value(at: 0), repeatableDigest: try rows[0].optional(at: 1),
            isReplaceable: try rows[0].value(at: 2))
    }

    private static func exists(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws -> Bool {
        try await connection.query(Statements.exists, deadline: deadline)[0].value(at: 0)
    }

    private enum Statements {
        static let lock = Statement(
            "schema_lock",
            """
            lock table subledger.schema_version in share row exclusive mode
            """)
        static let exists = Statement(
            "schema_exists",
            """
            select to_regclass('subledger.schema_version') is not null
            """)
        static let installed = Statement(
            "schema_installed",
            """
            select schema_version.version, schema_version.repeatable_sha256,
              pg_has_role(pg_class.relowner, 'usage') and not pg_is_in_recovery()
            from subledger.schema_version
            join pg_class on pg_class.oid = schema_version.tableoid
            order by schema_version.version desc
            limit 1
            """)
        static let record = Statement(
            "schema_record",
            """
            update subledger.schema_version
            set repeatable_sha256 = $2
            where version = $1
            """)
    }
}

extension PostgresError {
    /// Whether a schema of that name exists, possibly just committed by another transaction.
    fileprivate var isSchemaThere: Bool {
        sqlstate == "42P06" || (sqlstate == "23505" && constraint == "pg_namespace_nspname_index")
    }

    /// Whether a lock was not available in time, or two transactions waited for each other's locks.
    fileprivate var isLockFailure: Bool {
        sqlstate == "55P03" || sqlstate == "40P01"
    }
}

package enum MigrationError: Error, CustomStringConvertible {
    /// The schema is from a newer release; this release could lose data that it does not know.
    case newer(found: Int32, known: Int32)
    /// The schema is older than this release, and the command does not migrate it.
    case older(found: Int32, needed: Int32)
    /// See ``Schema/Outcome/inUse``.
    case inUse
    case database(PostgresError)
    case unexpected(String)

    package var description: String {
        switch self {
        case .newer(let found, let known):
            "the database has schema version \(found), this release supports up to \(known): install a newer subledger"
        case .older(let found, let needed):
            "the database has schema version \(found), this release needs \(needed): run `subledger migrate` first"
        case .inUse:
            "the views of the schema are in use and were not replaced: try again when long queries have ended"
        case .database(let error):
            "the schema could not be applied: \(error.debugDescription)"
        case .unexpected(let problem):
            "the schema could not be applied: \(problem)"
        }
    }
}
