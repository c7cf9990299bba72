/// The access rules of an embedded server's socket, in PostgreSQL's `pg_hba.conf` and `pg_ident.conf`.
///
/// The roles of the server's owner are authenticated by the system user (`peer`), so access to the socket alone gives
/// no superuser rights. Any other role needs its password. Replication connections, which backups use, also need the
/// attribute `replication`, which only the superuser has.
struct ServerAccess {
    /// The system users that can log in as these roles.
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

    /// Quotes a name, so that spaces, commas and keywords such as `all` have no special meaning.
    private static func quoted(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }
}
