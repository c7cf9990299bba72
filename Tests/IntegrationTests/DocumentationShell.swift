import Foundation
import Glibc
import TestSupport
import Testing

/// A shell that runs the commands of one article in order, as a reader would type them.
///
/// Files below `/tmp/subledger-` and the ports 8080 and 8081 of the articles are mapped to a folder and ports of this
/// shell. `mktemp` creates its files in that folder too.
final class DocumentationShell {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    private let folder: String
    private let publicPort: Int
    private let privatePort: Int

    /// The longest time for one command. The slowest commands are those of the simulator.
    private static let stepSeconds = 180.0
    /// Ends the output of a command, before its exit status.
    private static let mark: Character = "\u{1E}"

    init(article: String) throws {
        folder = "\(TestFolder.root)/docs-\(getpid())-\(article)"
        publicPort = try FreePort.find()
        privatePort = try FreePort.find()
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
        let programs = ServerProcess.executable.deletingLastPathComponent().path
        let inherited = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SUBLEDGER_") }
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["--noprofile", "--norc"]
        process.currentDirectoryURL = DocumentationArticle.repository
        process.environment = inherited.merging([
            "PATH": "\(programs):\(inherited["PATH"] ?? "/usr/bin:/bin")", "TZ": "UTC", "PGTZ": "UTC", "PGPORT": "5432",
            "LC_ALL": "C.UTF-8", "PAGER": "cat", "TMPDIR": folder, "SUBLEDGER_PUBLIC_HOST": "127.0.0.1",
            "SUBLEDGER_PUBLIC_PORT": "\(publicPort)", "SUBLEDGER_PRIVATE_PORT": "\(privatePort)",
        ]) { $1 }
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    /// Ends processes that still run in the shell, and removes its files.
    func end() throws {
        _ = try type("jobs -p | xargs --no-run-if-empty kill; wait")
        try input.fileHandleForWriting.close()
        try process.end(within: 60)
        try FileManager.default.removeItem(atPath: folder)
    }

    /// Runs a command and returns its output of both streams with its exit status.
    func run(_ command: String) throws -> (output: String, status: String) {
        let real = command.replacing("/tmp/subledger-", with: "\(folder)/subledger-")
            .replacing("127.0.0.1:8080", with: "127.0.0.1:\(publicPort)")
            .replacing("127.0.0.1:8081", with: "127.0.0.1:\(privatePort)")
        let result = try type(real)
        let printed = result.output.replacing("\(folder)/subledger-", with: "/tmp/subledger-")
            .replacing("127.0.0.1:\(publicPort)", with: "127.0.0.1:8080")
            .replacing("127.0.0.1:\(privatePort)", with: "127.0.0.1:8081")
        return (printed, result.status)
    }

    private func type(_ command: String) throws -> (output: String, status: String) {
        let shell = process.processIdentifier
        // Ends the children of this shell by its id; the shell itself then continues to the mark.
        let limit = DispatchWorkItem {
            _ = try? Process.run(URL(fileURLWithPath: "/usr/bin/env"), arguments: ["pkill", "-P", "\(shell)"])
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.stepSeconds, execute: limit)
        defer { limit.cancel() }
        try input.fileHandleForWriting.write(contentsOf: Data("\(command)\nprintf '\\036%s\\n' $?\n".utf8))
        var printed = Data()
        while true {
            let part = output.fileHandleForReading.availableData
            printed.append(part)
            let parts = String(decoding: printed, as: UTF8.self).split(
                separator: Self.mark, omittingEmptySubsequences: false)
            if parts.count > 1, let end = parts.last, end.hasSuffix("\n") {
                return (parts.dropLast().joined(), end.trimmingCharacters(in: .whitespacesAndNewlines))
            }
            try #require(!part.isEmpty, "the shell ended: \(String(decoding: printed, as: UTF8.self))")
        }
    }
}
