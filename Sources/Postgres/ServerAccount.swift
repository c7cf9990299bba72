import Foundation

/// The account that runs PostgreSQL when we are root, since PostgreSQL refuses to be.
struct ServerAccount: Sendable {
    let user: uid_t
    let group: gid_t
    let setpriv: String

    /// - Returns: Nothing unless we are root.
    /// - Throws: ``EmbeddedServerError`` when there is no such account.
    static func ifRoot() throws(EmbeddedServerError) -> ServerAccount? {
        guard geteuid() == 0 else { return nil }
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16_384)
        guard getpwnam_r("postgres", &entry, &buffer, buffer.count, &found) == 0, found != nil else {
            throw EmbeddedServerError(
                "PostgreSQL refuses to run as root and there is no user postgres to run it; "
                    + "create it, start as another user, or set a database URL"
            )
        }
        guard let setpriv = ServerBinaries.onPath("setpriv") else {
            throw EmbeddedServerError("setpriv was not found; install util-linux, or start as another user than root")
        }
        return ServerAccount(user: entry.pw_uid, group: entry.pw_gid, setpriv: setpriv)
    }

    /// The command that becomes another one under this account, in the same process.
    func command(_ command: [String]) -> [String] {
        [setpriv, "--reuid=\(user)", "--regid=\(group)", "--init-groups", "--"] + command
    }
}
