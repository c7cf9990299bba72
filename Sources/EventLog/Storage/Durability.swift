import Postgres

/// Checks the PostgreSQL settings without which a committed event may not survive a crash.
package enum Durability {
    /// Why a committed event survives a crash of the database.
    package enum Basis: String, Sendable, CaseIterable {
        /// PostgreSQL's settings, which the server checks.
        case settings
        /// The word of a provider that keeps commits outside of the machine of PostgreSQL, and so runs it with `fsync` or
        /// `full_page_writes` off.
        case provider

        /// Whether the setting must be on. No provider can keep a commit that is reported before it is handed over.
        func requires(_ setting: String) -> Bool { self == .settings || setting == sessionSetting }
    }

    /// The server's durability settings, read once at start.
    package struct Settings: Sendable {
        package let basis: Basis
        /// Whether a commit is reported before it is flushed. A session can override this default.
        package let synchronousCommitIsOff: Bool
    }

    /// Reads the settings, and rejects a server on which `fsync` or `full_page_writes` is off, unless a provider keeps
    /// commits.
    ///
    /// - Throws: ``DurabilityError/unsafe(setting:)`` if the server may corrupt or lose committed data;
    ///   ``PostgresError``.
    package static func check(_ connection: PostgresConnection, _ basis: Basis) async throws -> Settings {
        let off = try settingsOff(try await connection.query(settings, deadline: .now + Limits.readWaitMax), basis)
        if let unsafe = off.first(where: { $0 != sessionSetting }) { throw DurabilityError.unsafe(setting: unsafe) }
        return Settings(basis: basis, synchronousCommitIsOff: off.contains(sessionSetting))
    }

    /// The names of the required settings that are off in the session that ran the query.
    static func settingsOff(_ rows: RowSet, _ basis: Basis) throws -> [String] {
        var names: [String] = []
        for row in rows where try row.value(String.self, at: 1) == "off" { names.append(try row.value(at: 0)) }
        return names.filter(basis.requires)
    }

    /// The share of the notification queue that is in use, from 0 to 1. Any session of the server can fill it.
    static func notificationQueueUsage(_ rows: RowSet) throws -> Double? {
        for row in rows where try row.value(String.self, at: 0) == queueUsage {
            return Double(try row.value(String.self, at: 1))
        }
        return nil
    }

    /// Read with the settings, to spare a statement.
    private static let queueUsage = "notification_queue_usage"

    /// The only one of the settings that a session can switch on for itself.
    private static let sessionSetting = "synchronous_commit"

    static let settings = Statement(
        "durability_settings",
        """
        select name, setting
        from pg_settings
        where name in ('fsync', 'full_page_writes', 'synchronous_commit')
        union all
        select 'notification_queue_usage', pg_notification_queue_usage()::text
        order by name
        """)
}

package enum DurabilityError: Error, CustomStringConvertible {
    case unsafe(setting: String)

    package var description: String {
        switch self {
        case .unsafe(let setting):
            "the database runs with \(setting) = off, so a crash could lose what was acknowledged: switch it on"
        }
    }
}
