/// A part of the server that a process can run by itself, named after its main database role.
package enum ServerRole: String, CaseIterable {
    /// Receives notifications: the public listener and revocation checks.
    case receiver
    /// Folds the log into projections.
    case projector
    /// Serves backends on the private listener.
    case reader
    /// Checks subscriptions with the stores when the schedule says so, and delivers changes to endpoints.
    case poller

    /// The database roles that it requires.
    package var databaseRoles: [Database.Role] {
        switch self {
        case .receiver: [.receiver]
        case .projector: [.projector]
        case .reader: [.reader, .products, .authenticator]
        // What a check finds is appended. Endpoints get what readers read.
        case .poller: [.poller, .receiver, .reader]
        }
    }
}

extension Settings {
    /// The parts that this process runs; all of them by default.
    package func roles() throws(SettingError) -> Set<ServerRole> {
        guard let names else { return Set(ServerRole.allCases) }
        var roles: Set<ServerRole> = []
        for name in names {
            guard let role = ServerRole(rawValue: name) else {
                throw SettingError(
                    description: "unknown role \"\(name)\": expected receiver, projector, reader or poller")
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
