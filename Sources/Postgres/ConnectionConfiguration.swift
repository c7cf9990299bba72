import CLibpq

/// Where the database is and as whom to work there.
///
/// Its description names no host and no password.
package struct ConnectionConfiguration: Sendable {
    /// libpq's keywords and values; nothing if the text could not be parsed, which connecting reports.
    private var settings: [String: String]?

    /// The role to work as from the first statement on, so that a pool has only the rights that it needs. The user must
    /// be a member of it.
    package var role: String?

    /// What the server shows for us in `pg_stat_activity`.
    package var applicationName = "subledger"

    /// Further settings of the session, by their names.
    package var sessionSettings: [String: String] = [:]

    /// A net on the server for statements whose client is gone; deadlines are the client's own.
    package var statementTimeout: Duration?

    /// - Parameter url: `postgres://…`, `postgresql://…`, or `key=value` pairs, as libpq takes them. What it leaves out
    ///   comes from libpq's environment (`PGPASSFILE` and the like).
    package init(url: String) {
        settings = Self.parse(url)
        if let name = settings?["application_name"] {
            applicationName = name
        }
    }

    /// A server on this machine.
    ///
    /// - Parameter socketFolder: The folder that holds the socket; an absolute path.
    package init(socketFolder: String, user: String, database: String) {
        // The port is part of the socket's name, and must not come from our environment.
        settings = ["host": socketFolder, "port": "5432", "user": user, "dbname": database]
    }

    /// False when the text given for it is no connection string; connecting then fails as unavailable.
    package var isValid: Bool {
        settings != nil
    }

    /// The same server and user, another database.
    package func with(database: String) -> ConnectionConfiguration {
        var copy = self
        copy.settings?["dbname"] = database
        return copy
    }

    /// The same database, worked on as another role.
    package func with(role: String?) -> ConnectionConfiguration {
        var copy = self
        copy.role = role
        return copy
    }

    /// Everything libpq is told, or nothing if the connection string was not understood.
    func parameters() -> [(key: String, value: String)]? {
        guard var settings else { return nil }
        settings["application_name"] = applicationName
        settings["client_encoding"] = "UTF8"
        settings["options"] = options(after: settings["options"])
        return settings.map { ($0.key, $0.value) }
    }

    /// Session settings, which as startup options stand above those of the user and the database.
    private func options(after given: String?) -> String {
        var options = given.map { [$0] } ?? []
        // The warning that a commit is not replicated must reach us, whatever the database's own setting is.
        options.append("-c client_min_messages=warning")
        // A backend whose client gave up at its deadline ends soon, instead of holding its place in a queue of locks.
        options.append("-c client_connection_check_interval=1000")
        if let role {
            options.append("-c role=\(Self.escaped(role))")
        }
        for (name, value) in sessionSettings.sorted(by: { $0.key < $1.key }) {
            options.append("-c \(name)=\(Self.escaped(value))")
        }
        if let statementTimeout {
            let (seconds, attoseconds) = statementTimeout.components
            options.append("-c statement_timeout=\(seconds * 1000 + attoseconds / 1_000_000_000_000_000)")
        }
        return options.joined(separator: " ")
    }

    /// The server splits options at spaces; a backslash keeps the next character as it is.
    private static func escaped(_ value: String) -> String {
        var escaped = ""
        for character in value {
            if character == " " || character == "\\" {
                escaped.append("\\")
            }
            escaped.append(character)
        }
        return escaped
    }

    /// Has libpq take the text apart, so that a URL and pairs mean here what they mean to `psql`.
    private static func parse(_ text: String) -> [String: String]? {
        guard let options = PQconninfoParse(text, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var settings: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val {
                settings[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        return settings
    }
}

extension ConnectionConfiguration: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String {
        "database \(settings?["dbname"] ?? "unnamed")\(role.map { " as \($0)" } ?? "")"
    }

    package var debugDescription: String {
        description
    }

    /// Keeps `dump` and string interpolation of whatever holds a configuration from showing the password.
    package var customMirror: Mirror {
        Mirror(self, children: [])
    }
}
