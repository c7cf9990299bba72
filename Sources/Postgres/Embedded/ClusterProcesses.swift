import Foundation

/// The processes that work in a cluster's folder, whoever started them.
///
/// A PostgreSQL process has the cluster as its working folder from start to end, and nothing else has; so this finds a
/// postmaster whose parent was killed, and backends whose postmaster was. It needs `/proc`; where that is missing it
/// finds nothing, and PostgreSQL's own check of its pid file remains.
struct ClusterProcesses {
    let folder: ServerFolder

    /// The process named in the pid file, if it truly is a server on this cluster.
    func postmaster() -> Int32? {
        guard let pid = pidInFile(), isServer(pid) else { return nil }
        return pid
    }

    /// All processes of the cluster.
    func all() -> [Int32] {
        let entries = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return entries.compactMap { Int32($0) }.filter { isServer($0) }
    }

    /// Removes a pid file that names a living process which is no server, as after a restart of the machine: PostgreSQL
    /// would take that process for a server and refuse to start.
    ///
    /// Only called when ``all()`` is empty. A file whose process is dead stays for PostgreSQL, which looks for shared
    /// memory that is still in use before it removes it.
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
        // An upgrade of the package adds " (deleted)" to the name of a binary that still runs.
        let name = executable.split(separator: "/").last ?? ""
        return (name == "postgres" || name.hasPrefix("postgres ")) && cwd == folder.cluster
    }

    private func target(of link: String) -> String? {
        try? FileManager.default.destinationOfSymbolicLink(atPath: link)
    }
}
