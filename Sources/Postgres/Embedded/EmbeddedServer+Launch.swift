import Foundation
import Logging

extension EmbeddedServer {
    /// Creates the cluster if necessary, ends processes of an earlier server, starts the server and waits until it is
    /// ready.
    func launch() async throws(EmbeddedServerError) {
        isLaunching = true
        defer { isLaunching = false }
        try folder.prepare(superuser: superuser, logins: logins)
        if try !folder.hasCluster {
            try await makeCluster()
        }
        try await endOrphans()
        let started = ContinuousClock.now
        while true {
            let log = ServerLog(path: folder.log)
            running = FileIdentity(binaries.postgres)
            child = try ChildProcess.start(folder.command(serverCommand()), output: folder.log)
            switch await waitUntilReady(deadline: started + Self.readyTime) {
            case .ready:
                return
            case .late:
                child?.signal(SIGQUIT)
                _ = await waitForEnd(until: .now + Self.immediateShutdownTime)
                throw EmbeddedServerError(
                    "PostgreSQL was not ready after \(Self.readyTime.components.seconds) s: \(log.lastLine()) "
                        + "(see \(folder.log))"
                )
            case .ended:
                let line = log.lastLine()
                let isBlocked = line.contains("shared memory") || line.contains("lock file")
                guard isBlocked, started + Self.orphanTime > .now, !isStopping else {
                    throw EmbeddedServerError("PostgreSQL did not start: \(line) (see \(folder.log))")
                }
                await pause(milliseconds: 100)
            case .unwanted:
                throw EmbeddedServerError("PostgreSQL was stopped while it started")
            }
        }
    }

    private enum Readiness {
        case ready
        case ended
        case late
        /// ``EmbeddedServer/stop()`` was called.
        case unwanted
    }

    private func waitUntilReady(deadline: ContinuousClock.Instant) async -> Readiness {
        while true {
            guard isAlive() else { return .ended }
            if isStopping { return .unwanted }
            if deadline.hasPassed { return .late }
            if access(folder.socket, F_OK) == 0 {
                let attempt = min(deadline, .now + .seconds(2))
                let connection = try? await PostgresConnection.connect(
                    configuration(database: "postgres"), deadline: attempt
                )
                if let connection {
                    await connection.close()
                    return .ready
                }
            }
            await pause(milliseconds: 10)
        }
    }

    private func serverCommand() -> [String] {
        var all = [
            // Details of errors may quote personal data; the message itself is logged.
            "log_error_verbosity": "terse",
            "logging_collector": "off",
        ]
        all.merge(settings) { $1 }
        // The rest of this file relies on these settings.
        all["listen_addresses"] = ""
        all["port"] = "5432"
        all["unix_socket_directories"] = quotedIdentifier(folder.run)
        all["unix_socket_permissions"] = "0700"
        all["hba_file"] = folder.hostAccess
        all["ident_file"] = folder.userMap
        // Without this, a backend started after a package upgrade would load the library of a newer release.
        all["shared_preload_libraries"] = "plpgsql"
        let options = all.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
        return [binaries.postgres, "-D", folder.cluster] + options
    }

    /// Creates the cluster in a temporary folder and renames it when it is complete, so that a crash leaves no partial
    /// cluster.
    private func makeCluster() async throws(EmbeddedServerError) {
        try folder.makeNewCluster()
        let log = ServerLog(path: folder.initLog)
        let command = [
            binaries.initdb, "-D", folder.newCluster, "-U", superuser, "-E", "UTF8", "--locale=C", "--auth-local=peer",
            "--auth-host=reject", "--data-checksums", "--no-instructions",
        ]
        let process = try ChildProcess.start(folder.command(command), output: folder.initLog)
        guard await process.wait() == 0 else {
            throw EmbeddedServerError("initdb failed in \(folder.path): \(log.lastLine())")
        }
        unlink(folder.initLog)
        try folder.adoptNewCluster()
    }

    /// Ends a server whose parent was killed, and waits for backends whose postmaster was killed.
    private func endOrphans() async throws(EmbeddedServerError) {
        let processes = ClusterProcesses(folder: folder)
        if let orphan = processes.postmaster() {
            logger.notice("ending a database server left by an earlier run", metadata: ["process.id": "\(orphan)"])
            for signal in [SIGINT, SIGQUIT] where processes.postmaster() == orphan {
                kill(orphan, signal)
                let deadline = ContinuousClock.now + Self.immediateShutdownTime
                while processes.postmaster() == orphan, !deadline.hasPassed {
                    await pause(milliseconds: 10)
                }
            }
        }
        let deadline = ContinuousClock.now + Self.orphanTime
        while let process = processes.all().first {
            guard !deadline.hasPassed else {
                throw EmbeddedServerError(
                    "process \(process) of an earlier server still runs in \(folder.cluster); end it and start again"
                )
            }
            await pause(milliseconds: 20)
        }
        processes.removeMisleadingPIDFile()
    }
}
