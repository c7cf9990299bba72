import Foundation

/// The account that runs the server if root starts it: PostgreSQL refuses to run as root, and the server should not.
package struct ServerAccount: Sendable {
    /// The candidates, in order of preference; the second exists wherever PostgreSQL is installed.
    static let names = ["subledger", "postgres"]

    package let name: String
    package let home: String
    let user: uid_t
    let group: gid_t
    let setpriv: String

    /// False if it is PostgreSQL's own account, which other servers on the machine may share.
    package var isOwn: Bool { name == Self.names[0] }

    /// - Returns: Nil unless the process runs as root.
    /// - Throws: ``EmbeddedServerError`` if there is no such account.
    package static func ifRoot() throws(EmbeddedServerError) -> ServerAccount? {
        guard geteuid() == 0 else { return nil }
        guard let setpriv = ServerBinaries.onPath("setpriv") else {
            throw EmbeddedServerError("setpriv was not found; install util-linux, or start as a user other than root")
        }
        for name in names {
            var entry = passwd()
            var found: UnsafeMutablePointer<passwd>?
            var buffer = [CChar](repeating: 0, count: 16_384)
            guard getpwnam_r(name, &entry, &buffer, buffer.count, &found) == 0, found != nil, entry.pw_uid != 0 else {
                continue
            }
            return ServerAccount(
                name: name, home: String(cString: entry.pw_dir), user: entry.pw_uid, group: entry.pw_gid,
                setpriv: setpriv)
        }
        throw EmbeddedServerError(
            "the server does not run as root, and there is no user subledger or postgres to run it: "
                + "create the system user subledger, or start as another user")
    }

    /// The name of a system user, or its number if it has none.
    package static func name(of user: uid_t) -> String {
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16_384)
        guard getpwuid_r(user, &entry, &buffer, buffer.count, &found) == 0, found != nil else { return "\(user)" }
        return String(cString: entry.pw_name)
    }

    /// Returns the command that runs another command under this account, in the same process.
    ///
    /// - Parameter privileges: Further arguments of `setpriv`.
    func command(_ command: [String], privileges: [String] = []) -> [String] {
        [setpriv, "--reuid=\(user)", "--regid=\(group)", "--init-groups"] + privileges + ["--"] + command
    }

    /// Checks that the account can reach the path, which root can in any case.
    func checkPassage(to path: String) throws(EmbeddedServerError) {
        guard let folder = obstacle(on: path) else { return }
        throw EmbeddedServerError(
            "user \(name) has no search permission on \(folder), above \(path); "
                + "run chmod o+x \(folder), or choose another folder"
        )
    }

    /// The first folder above the path on which the account has no search permission.
    func obstacle(on path: String) -> String? {
        var folder = (path as NSString).deletingLastPathComponent
        while true {
            var status = stat()
            let isKnown = stat(folder, &status) == 0
            let isOwner = status.st_uid == user && status.st_mode & S_IXUSR != 0
            guard !isKnown || isOwner || status.st_mode & S_IXOTH != 0 else { return folder }
            if folder == "/" || folder.isEmpty { return nil }
            folder = (folder as NSString).deletingLastPathComponent
        }
    }
}
