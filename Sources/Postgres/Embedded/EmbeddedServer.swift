import Foundation
import Logging

/// A private PostgreSQL in a folder, reachable only over a unix socket.
///
/// If its owner is killed, the next start in the same folder takes over; no acknowledged data is lost.
package actor EmbeddedServer {
    /// Longer than crash recovery of a busy log usually takes, but short enough for an operator who waits.
    static let readyTime = Duration.seconds(60)
    /// Backends of a killed postmaster need about a second to notice.
    static let orphanTime = Duration.seconds(10)
    /// The time for each way to stop a server before the next, more forceful one.
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
    /// The binary that replaced it, and when it was first seen.
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

    /// Starts the server of a folder, creating the folder and the cluster if necessary, and returns when it is ready.
    ///
    /// - Parameters:
    ///   - folder: The data folder, with `postgres` (the cluster), `run` (the socket), `lock` and `postgres.log`.
    ///   - superuser: The name of the superuser, which is fixed when the cluster is created.
    ///   - logins: Further database roles that this user, and root, may log in as without a password.
    ///   - settings: Server settings by name, such as `max_connections`.
    ///   - binaries: The PostgreSQL to run; if nil, an installed one that fits the cluster.
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

    /// The configuration to connect to a database as the superuser.
    package nonisolated func configuration(database: String) -> ConnectionConfiguration {
        ConnectionConfiguration(socketFolder: folder.run, user: superuser, database: database)
    }

    /// The process id of the postmaster; nil while it is down.
    package var postmasterPID: Int32? {
        child?.pid
    }

    /// Restarts the server when it dies, and gracefully when its binaries are replaced on disk, until the task is
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
            if !isRestart { logger.error("embedded database died, restarting it") }
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

    /// Stops the server and releases the folder. Clients are disconnected and their open transactions rolled back. Safe
    /// to repeat; cancellation does not interrupt it.
    package func stop() async {
        isStopping = true
        while isLaunching {
            await pause(milliseconds: 10)
        }
        await shutDown()
        lock = nil
    }

    /// Stops the server gracefully, or forcefully if that takes too long.
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
