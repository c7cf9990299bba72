import Foundation

/// An installed PostgreSQL.
package struct ServerBinaries: Sendable {
    /// Older servers lack `client_connection_check_interval`, among others.
    static let oldestVersion = 15

    package let folder: String
    let version: Int

    var initdb: String { folder + "/initdb" }
    var postgres: String { folder + "/postgres" }

    /// Finds the newest installed version, or the one that an existing cluster needs.
    ///
    /// - Parameter version: The major version that created the cluster, or `nil` for a new one.
    /// - Throws: ``EmbeddedServerError`` if there is none.
    package static func find(version: Int?) throws(EmbeddedServerError) -> ServerBinaries {
        let installed = all().sorted { $0.version > $1.version }
        if let version {
            if let match = installed.first(where: { $0.version == version }) { return match }
            throw EmbeddedServerError(
                "the data folder was created by PostgreSQL \(version), whose binaries were not found; "
                    + "install postgresql \(version), or set a database URL"
            )
        }
        guard let newest = installed.first, newest.version >= oldestVersion else {
            throw EmbeddedServerError(
                "no PostgreSQL binaries (initdb, postgres) were found on PATH or in /usr/lib/postgresql; "
                    + "install postgresql \(oldestVersion) or newer, or set a database URL"
            )
        }
        return newest
    }

    /// The first executable of that name on PATH or in the system's folders.
    static func onPath(_ name: String) -> String? {
        (pathFolders() + ["/usr/bin", "/bin"]).map { $0 + "/" + name }.first { access($0, X_OK) == 0 }
    }

    private static func all() -> [ServerBinaries] {
        // Debian's paths contain the version, so no binary needs to run.
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        var found = versions.compactMap { name in
            Int(name).map { ServerBinaries(folder: "\(root)/\(name)/bin", version: $0) }
        }
        for folder in pathFolders() where !found.contains(where: { $0.folder == folder }) {
            if access(folder + "/postgres", X_OK) == 0, let version = version(of: folder + "/postgres") {
                found.append(ServerBinaries(folder: folder, version: version))
            }
        }
        return found.filter { access($0.initdb, X_OK) == 0 && access($0.postgres, X_OK) == 0 }
    }

    private static func pathFolders() -> [String] {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
    }

    /// Parses the output of `postgres --version`: `postgres (PostgreSQL) 15.18`.
    static func version(of postgres: String) -> Int? {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: postgres)
        process.arguments = ["--version"]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return nil }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let number = text.split(separator: " ").last?.prefix { $0.isNumber }
        return number.flatMap { Int($0) }
    }
}
