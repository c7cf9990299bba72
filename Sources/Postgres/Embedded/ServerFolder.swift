import Foundation

/// The data folder of an embedded server: its layout and owner.
struct ServerFolder: Sendable {
    /// The size of the path in `sockaddr_un`, without the final zero byte.
    static let socketPathBytesMax = 107
    /// A log larger than this is renamed at the next start.
    static let logBytesMax = 16 << 20

    private let folder: TrustedFolder
    let account: ServerAccount?

    /// The kernel's path of the folder: absolute and without symbolic links.
    var path: String { folder.path }
    var cluster: String { path + "/" + Name.cluster }
    var newCluster: String { path + "/" + Name.newCluster }
    var run: String { path + "/" + Name.run }
    var log: String { path + "/" + Name.log }
    var initLog: String { path + "/" + Name.initLog }
    var hostAccess: String { path + "/" + Name.hostAccess }
    var userMap: String { path + "/" + Name.userMap }
    var socket: String { run + "/.s.PGSQL.5432" }
    var pidFile: String { cluster + "/postmaster.pid" }

    private enum Name {
        static let cluster = "postgres"
        static let newCluster = "postgres.new"
        static let run = "run"
        static let lock = "lock"
        static let log = "postgres.log"
        static let oldLog = "postgres.log.1"
        static let initLog = "initdb.log"
        static let hostAccess = "pg_hba.conf"
        static let userMap = "pg_ident.conf"
        static let all: Set = [
            cluster, newCluster, run, lock, log, oldLog, initLog, hostAccess, userMap,
        ]
    }

    /// Creates the folder if necessary, and changes its owner to the account.
    ///
    /// - Throws: ``EmbeddedServerError`` if it cannot be used: its path is too long for a socket, another user can
    ///   change it, or root's folder contains unrelated files.
    init(path: String, account: ServerAccount?) throws(EmbeddedServerError) {
        self.account = account
        folder = try TrustedFolder(path: path, account: account)
        guard socket.utf8.count <= Self.socketPathBytesMax else {
            throw EmbeddedServerError(
                "the folder \(self.path) is too long for a unix socket "
                    + "(\(socket.utf8.count) bytes of \(Self.socketPathBytesMax)); choose a shorter path"
            )
        }
        guard let account else { return }
        try account.checkPassage(to: self.path)
        try checkClusterOwner(account)
        guard try !folder.isAccounts else { return }
        // The owner of a folder with unrelated files, such as `/etc`, must not change.
        if let other = try folder.names().sorted().first(where: { !Name.all.contains($0) }) {
            throw EmbeddedServerError(
                "the folder \(path) contains other files, such as \(other): choose an empty folder or a new one")
        }
        try folder.giveToAccount()
    }

    private func checkClusterOwner(_ account: ServerAccount) throws(EmbeddedServerError) {
        guard try clusterVersion() != nil, let owner = try folder.owner(ofFolder: Name.cluster) else { return }
        guard owner == account.user else {
            throw EmbeddedServerError(
                "\(cluster) belongs to user \(ServerAccount.name(of: owner)): expected \(account.name); "
                    + "stop its server and run chown -R \(account.name) \(path)")
        }
    }

    /// Creates the socket's folder and the log, and writes the access rules.
    ///
    /// - Parameters:
    ///   - superuser: The database role of the server's owner.
    ///   - logins: Further database roles that the owner and root can log in as without a password.
    func prepare(superuser: String, logins: [String]) throws(EmbeddedServerError) {
        try folder.makeFolder(Name.run)
        folder.rotate(Name.log, to: Name.oldLog, over: Self.logBytesMax)
        close(try folder.openFile(Name.log, O_WRONLY))
        let access = ServerAccess(
            users: ["root", account?.name ?? ServerAccount.name(of: geteuid())], roles: [superuser] + logins)
        try folder.write(access.hostAccess, to: Name.hostAccess)
        try folder.write(access.userMap, to: Name.userMap)
    }

    /// Creates a folder for a new cluster that only the server's account can access.
    func makeNewCluster() throws(EmbeddedServerError) {
        try? FileManager.default.removeItem(atPath: newCluster)
        try folder.makeFolder(Name.newCluster)
    }

    /// Opens the file that a process locks while it uses the folder.
    func openLock() throws(EmbeddedServerError) -> Int32 {
        try folder.openFile(Name.lock, O_RDWR)
    }

    var hasCluster: Bool {
        get throws(EmbeddedServerError) { try folder.owner(ofFolder: Name.cluster) != nil }
    }

    /// The major version that created the cluster; nil if there is no cluster yet.
    func clusterVersion() throws(EmbeddedServerError) -> Int? {
        guard try hasCluster else { return nil }
        let text = try? String(contentsOfFile: cluster + "/PG_VERSION", encoding: .utf8)
        guard let version = text.flatMap({ Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }) else {
            throw EmbeddedServerError("\(cluster) is not a PostgreSQL cluster; move it away, or choose another folder")
        }
        return version
    }

    /// Renames the completed new cluster to its final name, durably.
    func adoptNewCluster() throws(EmbeddedServerError) {
        try folder.rename(Name.newCluster, to: Name.cluster)
    }

    func command(_ command: [String]) -> [String] {
        account?.command(command) ?? command
    }
}
