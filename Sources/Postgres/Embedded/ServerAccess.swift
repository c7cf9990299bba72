/// Who may connect to an embedded server's socket, as PostgreSQL's own two files say it.
///
/// A database role that the server's owner uses is given to a process by its system user (`peer`), so that reaching the
/// socket alone makes nobody a superuser. Any other role needs its password. Replication connections, which backups use,
/// also need the attribute `replication`, which only the superuser has.
struct ServerAccess {
    /// System users that take on the roles.
    let users: [String]
    let roles: [String]

    var hostAccess: String {
        """
        local all,replication \(roles.map(Self.quoted).joined(separator: ",")) peer map=\(Self.map)
        local all all scram-sha-256

        """
    }

    var userMap: String {
        var lines: [String] = []
        for user in Set(users).sorted() {
            for role in roles {
                lines.append("\(Self.map) \(Self.quoted(user)) \(Self.quoted(role))\n")
            }
        }
        return lines.joined()
    }

    private static let map = "owner"

    /// Keeps spaces, commas and words with a meaning, such as `all`, from being read as such.
    private static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }
}
