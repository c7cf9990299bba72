import Foundation
import Postgres

/// External programs.
enum Tool {
    /// An executable on PATH.
    static func find(_ name: String) throws -> String {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        for folder in folders + ["/usr/bin"] where access("\(folder)/\(name)", X_OK) == 0 { return "\(folder)/\(name)" }
        throw BenchError("\(name) was not found")
    }

    /// An executable in the folder of the PostgreSQL binaries, or on PATH.
    static func findBesidePostgres(_ name: String) throws -> String {
        let path = "\(try ServerBinaries.find(version: nil).folder)/\(name)"
        return access(path, X_OK) == 0 ? path : try find(name)
    }

    /// Runs with an empty signal mask. Dispatch's threads block all signals and children inherit the mask, so pgbench
    /// would not receive its SIGALRM.
    private static func withoutSignalMask(_ run: () throws -> Void) rethrows {
        var none = sigset_t()
        var before = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        try run()
    }

    /// Runs a program to its end and returns its output.
    ///
    /// - Throws: If its exit status is not 0, with the end of its output.
    static func run(_ path: String, _ arguments: [String], input: String? = nil) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = arguments
        let output = Pipe()
        let problems = Pipe()
        process.standardOutput = output
        process.standardError = problems
        process.standardInput =
            try input.map { try FileHandle(forReadingFrom: URL(fileURLWithPath: $0)) } ?? .nullDevice
        try withoutSignalMask { try process.run() }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let problem = String(decoding: problems.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchError("\(path) failed: \(problem.prefix(200)) \(text.suffix(200))")
        }
        return text
    }
}
