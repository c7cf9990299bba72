import Foundation

/// What a program left behind.
package struct ProgramResult: Sendable {
    package let status: Int32
    package let output: Data
    package let error: Data

    package var outputText: String { String(decoding: output, as: UTF8.self) }
    package var errorText: String { String(decoding: error, as: UTF8.self) }
}

package struct NeverEnded: Error, CustomStringConvertible {
    let program: String

    package var description: String { "\(program) did not end, not even after SIGKILL" }
}

extension Process {
    /// Runs a program that is searched in `PATH`; see ``run(_:environment:folder:input:terminal:joined:limit:)``.
    package static func run(
        command: [String], environment: [String: String]? = nil, input: Data? = nil, joined: Bool = false,
        limit seconds: Double = 60
    ) throws -> ProgramResult {
        try run(
            URL(fileURLWithPath: "/usr/bin/env"), command, environment: environment, input: input, joined: joined,
            limit: seconds)
    }

    /// Runs a program to its end.
    ///
    /// What it prints goes to files: a pipe that nobody reads would stop it, and a child of its own that goes on would keep
    /// the pipe open.
    ///
    /// - Parameters:
    ///   - environment: Nil for that of this process.
    ///   - terminal: Stands for its standard input, instead of `input`.
    ///   - joined: Whether both streams go to ``ProgramResult/output``, in the order in which they were written.
    ///   - seconds: After that it is asked to end, and killed ten seconds later.
    /// - Throws: ``NeverEnded``, or why it could not be started.
    package static func run(
        _ program: URL, _ arguments: [String], environment: [String: String]? = nil, folder: URL? = nil,
        input: Data? = nil, terminal: PseudoTerminal? = nil, joined: Bool = false, limit seconds: Double = 60
    ) throws -> ProgramResult {
        let files = URL(fileURLWithPath: TestFolder.path("run"))
        try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: files) }
        func file(_ name: String, _ content: Data = Data()) throws -> URL {
            let file = files.appendingPathComponent(name)
            try content.write(to: file)
            return file
        }
        let (output, error) = (try file("output"), try file("error"))
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        if let environment { process.environment = environment }
        if let folder { process.currentDirectoryURL = folder }
        process.standardInput =
            try terminal?.follower ?? FileHandle(forReadingFrom: file("input", input ?? Data()))
        let written = try FileHandle(forWritingTo: output)
        process.standardOutput = written
        process.standardError = joined ? written : try FileHandle(forWritingTo: error)
        try process.run()
        try process.end(within: seconds)
        return ProgramResult(
            status: process.terminationStatus, output: try Data(contentsOf: output), error: try Data(contentsOf: error))
    }

    /// Waits for the end. Asks the process to end after the limit, and kills it ten seconds later.
    ///
    /// - Throws: ``NeverEnded`` if it is there ten seconds after that.
    package func end(within seconds: Double) throws {
        if hasEnded(within: seconds) { return }
        terminate()
        if hasEnded(within: 10) { return }
        kill(processIdentifier, SIGKILL)
        if hasEnded(within: 10) { return }
        throw NeverEnded(program: executableURL?.lastPathComponent ?? "a program")
    }

    private func hasEnded(within seconds: Double) -> Bool {
        let deadline = ContinuousClock.now + .seconds(seconds)
        while isRunning {
            if ContinuousClock.now >= deadline { return false }
            usleep(5000)
        }
        return true
    }

    /// Kills the process after a time, unless the returned item was cancelled: for whoever reads what it prints.
    package func killed(after seconds: Double) -> DispatchWorkItem {
        let pid = processIdentifier
        let item = DispatchWorkItem { kill(pid, SIGKILL) }
        DispatchQueue.global().asyncAfter(deadline: .now() + seconds, execute: item)
        return item
    }
}
