import Postgres

/// Installs and checks the schema that `schema.sql` describes.
package enum Schema {
    /// The version that this release reads and writes.
    package static let version: Int32 = 1

    package enum Outcome: Sendable {
        case applied
        case upToDate
    }

    /// Migrates the database to this release's version. Safe to repeat, and to call from several instances at once: one
    /// of them migrates, and the others wait and find the schema up to date.
    ///
    /// A session that may only read cannot block this. A database that is up to date is not locked; an older one is
    /// locked with a table lock that requires write privileges; the first installation is serialized by the unique name
    /// of the schema.
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
        do {
            if try await installedVersion(connection, deadline: deadline) == version { return .upToDate }
            try await connection.begin(deadline: deadline)
            if try await exists(connection, deadline: deadline) {
                _ = try await connection.query(Statements.lock, deadline: deadline)
            }
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
            try? await connection.rollback(deadline: deadline)
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
    }

    /// Checks that the database has this release's schema version. Changes nothing.
    ///
    /// - Throws: ``MigrationError``.
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

    /// The installed version; 0 if there is no schema yet.
    private static func installedVersion(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant
    ) async throws -> Int32 {
        guard try await exists(connection, deadline: deadline) else { return 0 }
        return try await connection.query(Statements.installed, deadline: deadline)[0].value(Int32.self, at: 0)
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
            select coalesce(max(version), 0)
            from subledger.schema_version
            """)
    }
}

extension PostgresError {
    /// Whether a schema of that name exists, possibly just committed by another transaction.
    fileprivate var isSchemaThere: Bool {
        sqlstate == "42P06" || (sqlstate == "23505" && constraint == "pg_namespace_nspname_index")
    }
}

package enum MigrationError: Error, CustomStringConvertible {
    /// The schema is from a newer release; this release could lose data that it does not know.
    case newer(found: Int32, known: Int32)
    /// The schema is older than this release, and the command does not migrate it.
    case older(found: Int32, needed: Int32)
    case database(PostgresError)
    case unexpected(String)

    package var description: String {
        switch self {
        case .newer(let found, let known):
            "the database has schema version \(found), this release supports up to \(known): install a newer subledger"
        case .older(let found, let needed):
            "the database has schema version \(found), this release needs \(needed): run `subledger migrate` first"
        case .database(let error):
            "the schema could not be applied: \(error.debugDescription)"
        case .unexpected(let problem):
            "the schema could not be applied: \(problem)"
        }
    }
}
