import CResources
import Crypto
import Postgres

/// Installs and checks the schema that `schema.sql` describes.
///
/// Its chapters have blocks of two kinds. Those under a line `Once` are applied once; a release that changes them raises
/// the version, and has a ``Migration`` for older databases. Those under a line `Repeatable`, together the repeatable half,
/// have views, functions, triggers and comments, and are applied again when their text has changed.
package enum Schema {
    /// The version that this release reads and writes.
    package static let version: Int32 = 2

    package enum Outcome: Sendable {
        case applied
        case upToDate
        /// The version is this release's, but other sessions use what the repeatable half would replace. The installed
        /// half remains, and works with this release.
        case inUse
    }

    /// The blocks of each kind, in their order.
    private static let (once, repeatable) = blocks(of: embedded_schema_sql().text)
    private static let repeatableDigest = Array(
        SHA256.hash(data: Array((repeatable + Distribution.script).utf8)))

    /// The tables that `schema.sql` creates, and whether their keys begin with the stream.
    static let tables: [(name: String, isKeyedByStream: Bool)] = {
        let create = "create table subledger."
        var tables: [(name: String, isKeyedByStream: Bool)] = []
        for line in once.split(separator: "\n") {
            if line.hasPrefix(create) {
                tables.append((String(line.dropFirst(create.count).prefix { $0 != " " }), false))
            } else if line.contains(" primary key (stream_id") {
                tables[tables.count - 1].isKeyedByStream = true
            }
        }
        return tables
    }()

    /// Collects the blocks of `schema.sql`. A line such as `-- Once ---` begins a block, and the next such line or the
    /// heading of a chapter, such as `-- Checks ===`, ends it.
    static func blocks(of text: String) -> (once: String, repeatable: String) {
        var blocks = (once: "", repeatable: "")
        var current: WritableKeyPath<(once: String, repeatable: String), String>?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("-- Once ---") {
                current = \.once
            } else if line.hasPrefix("-- Repeatable ---") {
                current = \.repeatable
            } else if line.hasPrefix("-- "), line.hasSuffix("===") {
                current = nil
            } else if let current {
                blocks[keyPath: current] += line + "\n"
            }
        }
        precondition(!blocks.once.isEmpty && !blocks.repeatable.isEmpty, "schema.sql has no blocks")
        return blocks
    }

    /// Migrates the database to this release's version, with this release's repeatable half. Safe to repeat, and to call
    /// from several instances at once: one of them migrates, and the others wait and find the schema up to date.
    ///
    /// Each migration is a transaction, so a database is always at one version: after an error, or after the process was
    /// killed, it has what was committed, and the next call continues there. The repeatable half is applied with the last
    /// migration. If releases with the same version but different repeatable halves share a database, the half of the
    /// last call remains. A standby, and a user that does not own the schema, keep the half that they find.
    ///
    /// A session that may only read cannot block this. A database that is up to date is not locked; another one is
    /// locked with a table lock that requires write privileges; the first installation is serialized by the unique name
    /// of the schema. What changes a table or a view waits only seconds for the sessions that use it, so that others do
    /// not queue behind it: the repeatable half is then left as it is, and a migration is tried again for minutes. How
    /// long a migration runs once it has its locks is not limited.
    ///
    /// - Parameter report: Called with each step.
    /// - Throws: ``MigrationError``.
    package static func migrate(
        _ connection: PostgresConnection, report: @Sendable (MigrationProgress) -> Void = { _ in }
    ) async throws(MigrationError) -> Outcome {
        let deadline = ContinuousClock.now + Limits.migrateWaitMax
        var outcome = Outcome.upToDate
        var reported: Attempt?
        while true {
            let attempt = try await attempt(connection, deadline: deadline, report: report)
            switch attempt {
            case .upToDate: return outcome
            case .inUse: return .inUse
            case .applied: outcome = .applied
            case .createdByAnother: continue
            case .blocked(let file):
                if attempt != reported {
                    report(file.map { .waitingForSessions(file: $0) } ?? .waitingForProcess)
                    reported = attempt
                }
                guard ContinuousClock.now < deadline, !Task.isCancelled else {
                    throw file == nil ? .runsElsewhere : .locked
                }
                try? await Task.sleep(for: Limits.migrateRetryPause)
            }
        }
    }

    /// What ``migrate(_:report:)`` would do. Changes and locks nothing.
    ///
    /// - Throws: ``MigrationError``, also if the migration would be refused.
    package static func plan(_ connection: PostgresConnection) async throws(MigrationError) -> MigrationPlan {
        do {
            let found = try await installed(connection, deadline: .now + Limits.readWaitMax)
            let missing = try found.missing()
            return MigrationPlan(
                found: found.version, migrations: missing,
                replacesRepeatable: found.version > 0 && !found.isUpToDate)
        } catch let error as MigrationError {
            throw error
        } catch let error as PostgresError {
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
    }

    /// What one transaction came to.
    private enum Attempt: Equatable {
        case upToDate
        case applied
        case inUse
        /// Another instance has created the schema in the meantime.
        case createdByAnother
        /// A lock was not available. Nothing has changed.
        ///
        /// - Parameter file: The migration that needs it; nil if another process migrates.
        case blocked(file: String?)
    }

    private static func attempt(
        _ connection: PostgresConnection, deadline: ContinuousClock.Instant,
        report: @Sendable (MigrationProgress) -> Void
    ) async throws(MigrationError) -> Attempt {
        /// What to answer if a lock is not available. The first installation waits for that of another process.
        var blocked = Attempt.blocked(file: nil)
        do {
            let before = try await installed(connection, deadline: deadline)
            if before.isUpToDate { return .upToDate }
            _ = try before.missing()
            try await connection.begin(deadline: deadline)
            try await connection.script(transactionSettings, deadline: deadline)
            if try await exists(connection, deadline: deadline) {
                _ = try await connection.query(Statements.lock, deadline: deadline)
            }
            let found = try await installed(connection, deadline: deadline)
            let migration = try found.missing().first
            if found.isUpToDate {
                try await connection.commit(deadline: deadline)
                return .upToDate
            }
            if found.version > 0 { blocked = migration.map { .blocked(file: $0.file) } ?? .inUse }
            try await apply(migration, to: found, connection, deadline: deadline, report: report)
            try await connection.commit(deadline: .now + Limits.migrateWaitMax)
            if let afterwards = migration?.afterwards { report(.afterwards(afterwards)) }
            return .applied
        } catch let error as MigrationError {
            try? await connection.rollback(deadline: .now + Limits.readWaitMax)
            throw error
        } catch let error as PostgresError {
            try? await connection.rollback(deadline: .now + Limits.readWaitMax)
            if error.isLockFailure { return blocked }
            if error.isSchemaThere, (try? await exists(connection, deadline: deadline)) == true {
                return .createdByAnother
            }
            throw .database(error)
        } catch {
            throw .unexpected(String(describing: error))
        }
    }

    /// Applies the whole schema, or the migration, or only the repeatable half, within a transaction.
    private static func apply(
        _ migration: Migration?, to found: Installed, _ connection: PostgresConnection,
        deadline: ContinuousClock.Instant, report: @Sendable (MigrationProgress) -> Void
    ) async throws {
        let isDistributed = try await Distribution.isInUse(connection)
        if let migration {
            if isDistributed { try await connection.script(Distribution.sequentially, deadline: deadline) }
            for (index, step) in migration.steps.enumerated() {
                report(
                    .step(file: migration.file, number: index + 1, of: migration.steps.count, title: step.title))
                try await connection.script(step.sql, deadline: .now + Limits.migrationStepMax)
            }
            _ = try await connection.query(
                Statements.advance, [Parameter(migration.version)], deadline: .now + Limits.readWaitMax)
            guard migration.version == version else { return }
            report(.repeatable)
        }
        let deadline = ContinuousClock.now + Limits.migrateWaitMax
        try await connection.script(found.version == 0 ? once + repeatable : repeatable, deadline: deadline)
        if isDistributed { try await connection.script(Distribution.script, deadline: deadline) }
        _ = try await connection.query(
            Statements.record, [Parameter(version), Parameter(repeatableDigest)], deadline: deadline)
    }

    /// A migration takes as long as it takes, whatever is usual for the user, but what waits for a lock makes all others
    /// wait. If the process is killed, PostgreSQL ends its statement, where it can find out.
    private static let transactionSettings = """
        set local statement_timeout = 0;
        set local lock_timeout = '3s';
        do $$
        begin
          perform set_config('client_connection_check_interval', '1s', true);
        exception when others then
          null;
        end
        $$
        """

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
        var isOwned = false
        var isStandby = false
        var user = ""

        var isUpToDate: Bool {
            version == Schema.version && (repeatableDigest == Schema.repeatableDigest || !isOwned || isStandby)
        }

        /// The migrations to this release's version; none if there is no schema yet.
        ///
        /// - Throws: ``MigrationError`` if the database is newer, or there are some and they cannot be applied.
        func missing() throws(MigrationError) -> [Migration] {
            guard version <= Schema.version else { throw .newer(found: version, known: Schema.version) }
            guard version > 0, version < Schema.version else { return [] }
            guard !isStandby else { throw .standby(found: version, needed: Schema.version) }
            guard isOwned else { throw .notOwner(found: version, needed: Schema.version, user: user) }
            return Migration.all.filter { $0.version > version }
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
            isOwned: try rows[0].value(at: 2), isStandby: try rows[0].value(at: 3), user: try rows[0].value(at: 4))
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
              pg_has_role(pg_class.relowner, 'usage'), pg_is_in_recovery(), current_user::text
            from subledger.schema_version
            join pg_class on pg_class.oid = schema_version.tableoid
            order by schema_version.version desc
            limit 1
            """)
        static let advance = Statement(
            "schema_advance",
            """
            insert into subledger.schema_version (version)
            values ($1)
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
    /// The schema is older than this release, and the user may not change it.
    case notOwner(found: Int32, needed: Int32, user: String)
    /// The schema is older than this release, and the database is a standby.
    case standby(found: Int32, needed: Int32)
    /// See ``Schema/Outcome/inUse``.
    case inUse
    /// Sessions used tables that a migration changes, for as long as it was tried. Nothing has changed.
    case locked
    /// Another process changes the schema, for longer than this one waited.
    case runsElsewhere
    case database(PostgresError)
    case unexpected(String)

    package var description: String {
        switch self {
        case .newer(let found, let known):
            "the database has schema version \(found), this release supports up to \(known): install a newer subledger"
        case .older(let found, let needed):
            "the database has schema version \(found), this release needs \(needed): run `subledger migrate` first"
        case .notOwner(let found, let needed, let user):
            """
            the database has schema version \(found), this release needs \(needed), and user "\(user)" may not change \
            it: run `subledger migrate` as a member of subledger_owner
            """
        case .standby(let found, let needed):
            """
            the database has schema version \(found), this release needs \(needed), and it is a standby: run \
            `subledger migrate` on the primary
            """
        case .locked:
            """
            the tables of the schema are in use and were not changed: stop the servers of the older release, or try \
            again when long queries have ended
            """
        case .runsElsewhere:
            "another process is changing the schema and has not finished: try again when it has"
        case .inUse:
            "the views of the schema are in use and were not replaced: try again when long queries have ended"
        case .database(let error):
            "the schema could not be applied: \(error.debugDescription)"
        case .unexpected(let problem):
            "the schema could not be applied: \(problem)"
        }
    }
}
