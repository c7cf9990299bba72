import Postgres

/// Server settings without which "stored" would not mean that it survives a crash.
package enum Durability {
    /// What the server's settings promise, read once at start.
    package struct Settings: Sendable {
        /// Off means that a commit is reported before it is flushed. A session can ask for more than its default.
        package let synchronousCommitIsOff: Bool
    }

    /// - Throws: ``DurabilityError/unsafe(setting:)`` on a server that may corrupt or lose what it committed.
    package static func check(_ connection: PostgresConnection) async throws -> Settings {
        let off = try settingsOff(try await connection.query(settings, deadline: .now + Limits.readWaitMax))
        if let unsafe = off.first(where: { $0 != sessionSetting }) { throw DurabilityError.unsafe(setting: unsafe) }
        return Settings(synchronousCommitIsOff: off.contains(sessionSetting))
    }

    /// Those that are off in the session that asked.
    static func settingsOff(_ rows: RowSet) throws -> [String] {
        var names: [String] = []
        for row in rows where try row.value(String.self, at: 1) == "off" { names.append(try row.value(at: 0)) }
        return names
    }

    /// The one that a session can switch on for itself.
    private static let sessionSetting = "synchronous_commit"

    static let settings = Statement(
        "durability_settings",
        """
        select name, setting
        from pg_settings
        where name in ('fsync', 'full_page_writes', 'synchronous_commit')
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
