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
        let rows = try await connection.query(Statements.settings, deadline: .now + Limits.readWaitMax)
        var synchronousCommitIsOff = false
        for row in rows {
            let name: String = try row.value(at: 0)
            let value: String = try row.value(at: 1)
            guard value == "off" else { continue }
            guard name == "synchronous_commit" else { throw DurabilityError.unsafe(setting: name) }
            synchronousCommitIsOff = true
        }
        return Settings(synchronousCommitIsOff: synchronousCommitIsOff)
    }

    private enum Statements {
        static let settings = Statement(
            "durability_settings",
            """
            select name, setting
            from pg_settings
            where name in ('fsync', 'full_page_writes', 'synchronous_commit')
            """)
    }
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
