import Foundation

/// The PostgreSQL processes of a cluster, including those of earlier runs.
///
/// Only the processes of a cluster have its folder as their working folder, and they keep it until they end. So this
/// finds a postmaster whose parent was killed, and backends whose postmaster was killed. It needs `/proc`; without it,
/// nothing is found, and only PostgreSQL's own check of its pid file remains.
struct ClusterProcesses {
    let folder: ServerFolder

    /// The process in the pid file, if it is a server of this cluster.
    func postmaster() -> Int32? {
        guard let pid = pidInFile(), isServer(pid) else { return nil }
        return pid
    }

    /// All processes of the cluster.
    func all() -> [Int32] {
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return entries.compactMap { Int32($0) }.filter { isServer($0) }
    }

    /// Removes a pid file that names a running process which is not a server, for example after a restart of the
    /// machine: PostgreSQL would mistake that process for a server and refuse to start.
    ///
    /// Only called if ``all()`` is empty. If the process has ended, the file remains: PostgreSQL checks for shared
    /// memory that is still in use before it removes the file.
    func removeMisleadingPIDFile() {
        guard let pid = pidInFile(), kill(pid, 0) == 0 || errno == EPERM else { return }
        unlink(folder.pidFile)
    }

    private func pidInFile() -> Int32? {
        guard let text = try? String(contentsOfFile: folder.pidFile, encoding: .utf8) else { return nil }
        return text.split(separator: "\n").first.flatMap { Int32($0.trimmingCharacters(in: .whitespaces)) }
            .flatMap { $0 > 0 ? $0 : nil }
    }

    func isServer(_ pid: Int32) -> Bool {
        guard let executable = target(of: "/proc/\(pid)/exe"), let cwd = target(of: "/proc/\(pid)/cwd") else {
            return false
        }
        // After a package upgrade, the link of a running binary ends in " (deleted)".
        let name = executable.split(separator: "/").last ?? ""
        return (name == "postgres" || name.hasPrefix("postgres ")) && cwd == folder.cluster
    }

    private func target(of link: String) -> String? {
        try? FileManager.default.destinationOfSymbolicLink(atPath: link)
    }
}
