/// A part of the server that a process may run by itself, named as the role of the database that it works as most.
enum ServerRole: String, CaseIterable {
    /// Takes notifications: the public listener, questions about revocation.
    case receiver
    /// Folds the log.
    case projector
    /// Answers backends on the private listener.
    case reader

    /// Without which it cannot do its work.
    var databaseRoles: [Database.Role] {
        switch self {
        case .receiver: [.receiver]
        case .projector: [.projector]
        case .reader: [.reader, .products, .authenticator]
        }
    }
}

extension Settings {
    /// The parts that this process runs; all of them unless some are named.
    func roles() throws(SettingError) -> Set<ServerRole> {
        guard let names else { return Set(ServerRole.allCases) }
        var roles: Set<ServerRole> = []
        for name in names {
            guard let role = ServerRole(rawValue: name) else {
                throw SettingError(description: "role \"\(name)\" is none of receiver, projector, reader")
            }
            roles.insert(role)
        }
        return roles
    }

    private var names: [String]? {
        roleNames?.split(separator: ",", omittingEmptySubsequences: false).map { name in
            String(name.filter { !$0.isWhitespace })
        }
    }
}
