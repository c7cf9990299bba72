import Foundation
import Logging

/// A private PostgreSQL in a folder, which is reached over a unix socket only and by this user only.
///
/// Whatever its owner dies of, the next start on the same folder takes over: what was acknowledged is there.
package actor EmbeddedServer {
    /// Longer than crash recovery of a busy log should take, short enough for whoever waits at the terminal.
    static let readyTime = Duration.seconds(60)
    /// Backends of a killed postmaster need about a second to notice.
    static let orphanTime = Duration.seconds(10)
    /// How long each way of ending a server is given before the next, harsher one.
    static let fastShutdownTime = Duration.seconds(30)
    static let immediateShutdownTime = Duration.seconds(5)

    let folder: ServerFolder
    let binaries: ServerBinaries
    let superuser: String
    let logins: [String]
    let settings: [String: String]
    let logger: Logger
    var child: ChildProcess?
    /// The binary that the child runs.
    var running: FileIdentity?
    /// A binary that came in its place, and since when it is there.
    var replacement: (binary: FileIdentity, since: ContinuousClock.Instant)?
    /// A replacement that cannot run this cluster.
    var unusable: FileIdentity?
    var isLaunching = false
    var isStopping = false
    private var lock: FolderLock?

    private init(
        folder: ServerFolder, binaries: ServerBinaries, lock: FolderLock, superuser: String, logins: [String],
        settings: [String: String], logger: Logger
    ) {
        self.folder = folder
        self.binaries = binaries
        self.lock = lock
        self.superuser = superuser
        self.logins = logins
        self.settings = settings
        self.logger = logger
    }

    /// Starts the server of a folder, making the folder and the cluster first if need be, and returns when it answers.
    ///
    /// - Parameters:
    ///   - folder: Where everything lies: `postgres` (the cluster), `run` (the socket), `lock` and `postgres.log`.
    ///   - superuser: Its name is fixed when the cluster is made.
    ///   - logins: Further database roles that this user, and root, may log in as without a password.
    ///   - settings: Server settings by name, such as `max_connections`.
    ///   - binaries: The PostgreSQL to run; an installed one that suits the cluster if nil.
    /// - Throws: ``EmbeddedServerError``, one line for an operator.
    package static func start(
        folder: String, superuser: String = "subledger", logins: [String] = [], settings: [String: String] = [:],
        binaries: ServerBinaries? = nil, logger: Logger
    ) async throws(EmbeddedServerError) -> EmbeddedServer {
        let folder = try ServerFolder(path: folder, account: try ServerAccount.ifRoot())
        let lock = try FolderLock(folder)
        let version = try folder.clusterVersion()
        let chosen = if let binaries { binaries } else { try ServerBinaries.find(version: version) }
        let server = EmbeddedServer(
            folder: folder, binaries: chosen, lock: lock, superuser: superuser, logins: logins, settings: settings,
            logger: logger
        )
        do {
            try await server.launch()
        } catch {
            await server.stop()
            throw error
        }
        return server
    }

    /// The folder of the socket, for `psql -h`.
    package nonisolated var socketFolder: String {
        folder.run
    }

    /// How to connect to a database as the superuser.
    package nonisolated func configuration(database: String) -> ConnectionConfiguration {
        ConnectionConfiguration(socketFolder: folder.run, user: superuser, database: database)
    }

    /// The server's first process; nothing while it is down.
    package var postmasterPID: Int32? {
        child?.pid
    }

    /// Restarts the server when it dies, and in order when its binaries were replaced on disk, until the task is
    /// cancelled or ``stop()`` is called.
    ///
    /// Failed restarts are repeated after 50 ms, doubling to 5 s.
    package func supervise() async {
        var backOff = BackOff()
        var isRestart = false
        while !Task.isCancelled, !isStopping {
            if isLaunching || isAlive() {
                if !isLaunching, isReplaced(now: .now) {
                    logger.notice("PostgreSQL was replaced on disk, restarting the embedded database")
                    isRestart = true
                    await shutDown()
                } else {
                    await pause(milliseconds: 100)
                }
                continue
            }
            if backOff.isWaiting(now: .now) {
                await pause(milliseconds: 20)
                continue
            }
            if !isRestart { logger.error("embedded database died, starting it again") }
            do {
                try await launch()
                backOff.reset()
                isRestart = false
            } catch {
                logger.error("embedded database did not start", metadata: ["error": "\(error)"])
                backOff.fail(now: .now, jitter: 0)
            }
        }
    }

    /// Stops the server and lets go of the folder. Clients are disconnected, their open transactions rolled back.
    /// Safe to repeat, and not shortened by cancellation.
    package func stop() async {
        isStopping = true
        while isLaunching {
            await pause(milliseconds: 10)
        }
        await shutDown()
        lock = nil
    }

    /// Ends the server in order, and by force if that takes too long.
    private func shutDown() async {
        let steps = [
            (SIGINT, Self.fastShutdownTime), (SIGQUIT, Self.immediateShutdownTime), (SIGKILL, .seconds(5)),
        ]
        for (signal, time) in steps where isAlive() {
            child?.signal(signal)
            if await waitForEnd(until: .now + time) { break }
        }
    }

    /// Collects the child if it has ended.
    func isAlive() -> Bool {
        if let code = child?.collect() {
            child = nil
            if !isStopping { logger.debug("embedded database ended", metadata: ["exit.code": "\(code)"]) }
        }
        return child != nil
    }

    func waitForEnd(until deadline: ContinuousClock.Instant) async -> Bool {
        while isAlive() {
            if deadline.hasPassed { return false }
            await pause(milliseconds: 5)
        }
        return true
    }
}
