import Foundation

/// The data folder of an embedded server: what lies where, and whose it is.
struct ServerFolder: Sendable {
    /// What `sockaddr_un` holds, less the final zero byte.
    static let socketPathBytesMax = 107
    /// A log of this size is set aside at the next start.
    static let logBytesMax = 16 << 20

    /// Absolute and free of symbolic links, as the kernel names it.
    let path: String
    let account: ServerAccount?

    var cluster: String { path + "/postgres" }
    var newCluster: String { path + "/postgres.new" }
    var run: String { path + "/run" }
    var lock: String { path + "/lock" }
    var log: String { path + "/postgres.log" }
    var initLog: String { path + "/initdb.log" }
    var socket: String { run + "/.s.PGSQL.5432" }
    var pidFile: String { cluster + "/postmaster.pid" }

    /// Creates the folder if need be.
    ///
    /// - Throws: ``EmbeddedServerError`` when it cannot be, or its path is too long for a socket.
    init(path: String, account: ServerAccount?) throws(EmbeddedServerError) {
        self.account = account
        let isNew = access(path, F_OK) != 0
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw EmbeddedServerError("cannot create the folder \(path): \(errnoText()); check the rights above it")
        }
        guard let resolved = realpath(path, nil) else {
            throw EmbeddedServerError("cannot open the folder \(path): \(errnoText())")
        }
        self.path = String(cString: resolved)
        free(resolved)
        guard socket.utf8.count <= Self.socketPathBytesMax else {
            throw EmbeddedServerError(
                "the folder \(self.path) is too long for a unix socket "
                    + "(\(socket.utf8.count) bytes of \(Self.socketPathBytesMax)); choose a shorter path"
            )
        }
        // The server's account must be able to pass through, and has nothing to see here. A folder that was there
        // before keeps its rights: it may be anybody's.
        if isNew { try change(self.path, mode: account == nil ? 0o700 : 0o711) }
        try checkPassage()
    }

    /// Makes the socket's folder and the log, and gives to the server's account what it works with.
    func prepare() throws(EmbeddedServerError) {
        try makePrivateFolder(run)
        if let size = try? FileManager.default.attributesOfItem(atPath: log)[.size] as? Int, size > Self.logBytesMax {
            rename(log, log + ".1")
        }
        let descriptor = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw EmbeddedServerError("cannot write \(log): \(errnoText())") }
        close(descriptor)
        try own(log)
    }

    /// A folder for the server's account alone.
    func makePrivateFolder(_ folder: String) throws(EmbeddedServerError) {
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw EmbeddedServerError("cannot create \(folder): \(errnoText())")
        }
        try change(folder, mode: 0o700)
        try own(folder)
    }

    /// The major version that made the cluster; nothing if there is none yet.
    func clusterVersion() throws(EmbeddedServerError) -> Int? {
        guard access(cluster, F_OK) == 0 else { return nil }
        let text = try? String(contentsOfFile: cluster + "/PG_VERSION", encoding: .utf8)
        guard let version = text.flatMap({ Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }) else {
            throw EmbeddedServerError("\(cluster) is no PostgreSQL cluster; move it away, or choose another folder")
        }
        return version
    }

    /// Makes a finished new cluster the cluster, and durably so.
    func adoptNewCluster() throws(EmbeddedServerError) {
        guard rename(newCluster, cluster) == 0 else {
            throw EmbeddedServerError("cannot rename \(newCluster): \(errnoText())")
        }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor >= 0 {
            fsync(descriptor)
            close(descriptor)
        }
    }

    func command(_ command: [String]) -> [String] {
        account?.command(command) ?? command
    }

    private func own(_ path: String) throws(EmbeddedServerError) {
        guard let account else { return }
        guard chown(path, account.user, account.group) == 0 else {
            throw EmbeddedServerError("cannot give \(path) to the user postgres: \(errnoText())")
        }
    }

    private func change(_ path: String, mode: mode_t) throws(EmbeddedServerError) {
        guard chmod(path, mode) == 0 else {
            throw EmbeddedServerError("cannot set the rights of \(path): \(errnoText())")
        }
    }

    /// As root we can go where the server's account cannot.
    private func checkPassage() throws(EmbeddedServerError) {
        guard let account else { return }
        var folder = path
        while true {
            var status = stat()
            let isKnown = stat(folder, &status) == 0
            let isOwner = status.st_uid == account.user && status.st_mode & S_IXUSR != 0
            guard !isKnown || isOwner || status.st_mode & S_IXOTH != 0 else {
                throw EmbeddedServerError(
                    "the user postgres cannot pass through \(folder) to \(path); "
                        + "run chmod o+x \(folder), or choose another folder"
                )
            }
            if folder == "/" { return }
            folder = (folder as NSString).deletingLastPathComponent
        }
    }
}
