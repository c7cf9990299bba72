import Postgres

/// The database's own tables, as `schema.sql` describes them.
package enum Schema {
    /// The version that this release reads and writes.
    package static let version: Int32 = 1

    package enum Outcome: Sendable {
        case applied
        case upToDate
    }

    /// Brings the database to this release's version. Safe to repeat, and from several instances at once: they take
    /// turns under an advisory lock.
    ///
    /// - Throws: ``MigrationError``.
    package static func migrate(_ connection: PostgresConnection) async throws(MigrationError) -> Outcome {
        let deadline = ContinuousClock.now + Limits.migrateWaitMax
        do {
            try await connection.begin(deadline: deadline)
            _ = try await connection.query(Statements.lock, deadline: deadline)
            let found = try await installedVersion(connection, deadline: deadline)
            guard found <= version else { throw MigrationError.newer(found: found, known: version) }
            if found == version {
                try await connection.commit(deadline: deadline)
                return .upToDate
            }
            try await connection.script(
                String(decoding: PackageResources.schema_sql, as: UTF8.self), deadline: deadline)
            try await connection.commit(deadline: deadline)
            return .applied
        } catch let error as MigrationError {
            try? await connection.rollback(deadline: deadline)
            throw error
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
    }

    /// Throws unless the database is of this release's version. Changes nothing.
    package static func check(_ connection: PostgresConnection) async throws(MigrationError) {
        let found: Int32
        do {
            found = try await installedVersion(connection, deadline: .now + Limits.readWaitMax)
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
        guard found <= version else { throw .newer(found: found, known: version) }
        guard found == version else { throw .older(found: found, needed: version) }
    }

    /// 0 where there is no schema yet.
    private static func installedVersion(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws -> Int32 {
        let exists = try await connection.query(Statements.exists, deadline: deadline)
        guard try exists[0].value(Bool.self, at: 0) else { return 0 }
        return try await connection.query(Statements.installed, deadline: deadline)[0].value(Int32.self, at: 0)
    }

    private enum Statements {
        static let lock = Statement(
            "schema_lock",
            """
            select pg_advisory_xact_lock(hashtext('subledger'), hashtext('schema'))
            """)
        static let exists = Statement(
            "schema_exists",
            """
            select to_regclass('subledger.schema_version') is not null
            """)
        static let installed = Statement(
            "schema_installed",
            """
            select coalesce(max(version), 0)
            from subledger.schema_version
            """)
    }
}

package enum MigrationError: Error, CustomStringConvertible {
    /// The database was set up by a newer release; running this one on it could lose what that one knows.
    case newer(found: Int32, known: Int32)
    /// The database is behind this release; what was asked for does not bring it up to date by itself.
    case older(found: Int32, needed: Int32)
    case database(PostgresError)
    case unexpected(String)

    package var description: String {
        switch self {
        case .newer(let found, let known):
            "the database has schema version \(found), this release knows up to \(known): install a newer subledger"
        case .older(let found, let needed):
            "the database has schema version \(found), this release needs \(needed): run `subledger migrate` first"
        case .database(let error):
            "the schema could not be applied: \(error.debugDescription)"
        case .unexpected(let problem):
            "the schema could not be applied: \(problem)"
        }
    }
}
