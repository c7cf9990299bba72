import Foundation

/// A folder for the files of one run. As root, the database runs as user postgres, who must be able to
/// traverse the folder.
struct Folder {
    let path = "/tmp/subledger-bench-\(getpid())"

    init() throws {
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}

/// The reason why the run failed, as one line.
struct BenchError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
