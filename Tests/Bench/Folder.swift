import Foundation

/// A folder for the files of one run of the bench. As root its database is run by user postgres, who must get through.
struct Folder {
    let path = "/tmp/subledger-bench-\(getpid())"

    init() throws {
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
    }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}

/// Why there is no table, in a line.
struct BenchError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
