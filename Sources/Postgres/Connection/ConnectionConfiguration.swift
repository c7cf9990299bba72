import CLibpq

/// The address of a database and the user, role and settings of a session.
///
/// Its description contains neither host nor password.
package struct ConnectionConfiguration: Sendable {
    /// libpq's keywords and values; `nil` if the connection string could not be parsed, which connecting reports.
    private var settings: [String: String]?

    /// The role that the session assumes before its first statement, so that a pool has only the privileges it needs.
    /// The user must be a member of it.
    package var role: String?

    /// The name of our sessions in `pg_stat_activity`.
    package var applicationName = "subledger"

    /// Further session settings by name.
    package var sessionSettings: [String: String] = [:]

    /// - Parameter url: `postgres://…`, `postgresql://…`, or `key=value` pairs, in libpq's syntax. Omitted keywords
    ///   come from libpq's environment (`PGPASSFILE` and the like).
    package init(url: String) {
        settings = Self.parse(url)
        if let name = settings?["application_name"] {
            applicationName = name
        }
    }

    /// Connects to a server on this machine.
    ///
    /// - Parameter socketFolder: The absolute path of the folder that holds the socket.
    package init(socketFolder: String, user: String, database: String) {
        // The port is part of the socket's name and must not come from our environment.
        settings = ["host": socketFolder, "port": "5432", "user": user, "dbname": database]
    }

    /// False if the connection string could not be parsed; connecting then fails as unavailable.
    package var isValid: Bool {
        settings != nil
    }

    /// The name of the database, if one is given.
    package var database: String? { settings?["dbname"] }

    /// The same server and user, another database.
    package func with(database: String) -> ConnectionConfiguration {
        var copy = self
        copy.settings?["dbname"] = database
        return copy
    }

    /// The same database, with another role.
    package func with(role: String?) -> ConnectionConfiguration {
        var copy = self
        copy.role = role
        return copy
    }

    /// All connection parameters for libpq, or `nil` if the connection string could not be parsed.
    func parameters() -> [(key: String, value: String)]? {
        guard var settings else { return nil }
        settings["application_name"] = applicationName
        settings["client_encoding"] = "UTF8"
        settings["options"] = options(after: settings["options"])
        return settings.map { ($0.key, $0.value) }
    }

    /// The hosts to connect to at once, and those to connect to if none of these is suitable.
    ///
    /// A list of hosts is taken apart only if `target_session_attrs` wants a kind of server. Without it, libpq tries them in
    /// their order.
    func preferences() -> [[ConnectionConfiguration]] {
        guard let wanted = settings?["target_session_attrs"], wanted != "any" else { return [[self]] }
        guard wanted == "prefer-standby" else { return [hosts()] }
        return ["standby", "any"].map { kind in
            var copy = self
            copy.settings?["target_session_attrs"] = kind
            return copy.hosts()
        }
    }

    /// The longest wait for one of several hosts: `connect_timeout`, or two seconds, the shortest that libpq has.
    var hostWait: Duration {
        let given = settings?["connect_timeout"].flatMap { Int($0) } ?? 0
        return .seconds(given > 0 ? given : 2)
    }

    /// A configuration for each host, or only this one if its lists of hosts do not fit, which libpq reports.
    private func hosts() -> [ConnectionConfiguration] {
        let lists = ["host", "hostaddr", "port"].map { key in
            (key, settings?[key]?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? [])
        }
        let count = lists.prefix(2).map(\.1.count).max() ?? 0
        guard count > 1, lists.prefix(2).allSatisfy({ $0.1.isEmpty || $0.1.count == count }),
            lists[2].1.count <= 1 || lists[2].1.count == count
        else { return [self] }
        return (0..<count).map { index in
            var copy = self
            for (key, values) in lists where values.count == count { copy.settings?[key] = values[index] }
            return copy
        }
    }

    /// Session settings as startup options, which take precedence over those of the user and the database.
    private func options(after given: String?) -> String {
        var options = given.map { [$0] } ?? []
        // The warning that a commit was not replicated must reach us, whatever the database's setting is.
        options.append("-c client_min_messages=warning")
        // A backend whose client gave up at its deadline ends soon instead of keeping its place in a lock queue.
        options.append("-c client_connection_check_interval=1000")
        if let role {
            options.append("-c role=\(Self.escaped(role))")
        }
        for (name, value) in sessionSettings.sorted(by: { $0.key < $1.key }) {
            options.append("-c \(name)=\(Self.escaped(value))")
        }
        return options.joined(separator: " ")
    }

    /// Escapes spaces and backslashes: the server splits options at spaces.
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

    /// Parses the string with libpq, so that URLs and pairs mean the same as in `psql`.
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

    /// Prevents `dump` and string interpolation of a value that contains a configuration from showing the password.
    package var customMirror: Mirror {
        Mirror(self, children: [])
    }
}
