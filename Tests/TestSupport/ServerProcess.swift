import Foundation
import Synchronization

/// The built `subledger` executable, run as a process of its own.
package final class ServerProcess: Sendable {
    package let pid: Int32
    private let output: Output
    private let logFile: String?

    private final class Output: Sendable {
        /// The text written to standard error.
        let text = Mutex("")
        let status = Mutex<Int32?>(nil)
        /// The ports by listener.
        let ports = Mutex<[String: Int]>([:])
    }

    /// The executable beside the test bundle.
    package static var executable: URL { programs.appendingPathComponent("subledger") }

    /// The program with the simulated stores, beside it.
    package static var simulator: URL { programs.appendingPathComponent("store-simulator") }

    /// The folder of the test bundle.
    private static var programs: URL {
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        return folder.pathExtension == "xctest" ? folder.deletingLastPathComponent() : folder
    }

    /// The environment of this process without settings of Subledger. Instead of Apple, a port is asked on which nothing
    /// listens.
    private static var cleanEnvironment: [String: String] {
        let nobody = "http://127.0.0.1:9"
        return ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SUBLEDGER_") }.merging([
            "SUBLEDGER_VERIFY_RECEIPT_URL": nobody, "SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL": nobody,
            "SUBLEDGER_SERVER_API_URL": nobody, "SUBLEDGER_SERVER_API_SANDBOX_URL": nobody,
        ]) { $1 }
    }

    /// Runs a command to its end, or terminates it after the limit in seconds.
    ///
    /// - Parameter terminal: Stands for the command's standard input, instead of `input`.
    package static func run(
        _ arguments: [String], environment: [String: String] = [:], input: Data? = nil,
        terminal: PseudoTerminal? = nil, limit seconds: Double = 60
    ) throws -> (status: Int32, output: String, error: String) {
        try run(executable, arguments, environment, input, terminal, limit: seconds)
    }

    /// Runs `store-simulator` to its end, or terminates it after the limit in seconds.
    package static func simulate(
        _ arguments: [String], environment: [String: String] = [:], limit seconds: Double = 60
    ) throws -> (status: Int32, output: String, error: String) {
        try run(simulator, arguments, environment, nil, nil, limit: seconds)
    }

    private static func run(
        _ program: URL, _ arguments: [String], _ environment: [String: String], _ input: Data?,
        _ terminal: PseudoTerminal?, limit seconds: Double
    ) throws -> (status: Int32, output: String, error: String) {
        let result = try Process.run(
            program, arguments, environment: cleanEnvironment.merging(environment) { $1 }, input: input,
            terminal: terminal, limit: seconds)
        return (result.status, result.outputText, result.errorText)
    }

    /// Starts `subledger serve`, on free ports unless one is given.
    ///
    /// - Parameter logFile: A file for the log; nil to collect it in this process.
    package init(
        dataFolder: String, environment: [String: String] = [:], publicPort: Int = 0, logFile: String? = nil
    ) throws {
        let process = Process()
        process.executableURL = Self.executable
        process.arguments = [
            "serve", "--data-folder", dataFolder, "--public-host", "127.0.0.1", "--public-port",
            "\(publicPort)", "--private-port", "0",
        ]
        process.environment = Self.cleanEnvironment.merging([
            "SUBLEDGER_APP_BUNDLE_ID": V1Body.app, "SUBLEDGER_APP_SHARED_SECRET": V1Body.secret,
        ]) { $1 }.merging(environment) { $1 }
        process.standardOutput = FileHandle.nullDevice
        let collected = Output()
        if let logFile {
            _ = FileManager.default.createFile(atPath: logFile, contents: nil)
            process.standardError = FileHandle(forWritingAtPath: logFile)
        } else {
            process.standardError = Self.pipe(to: collected)
        }
        output = collected
        self.logFile = logFile
        process.terminationHandler = { ended in collected.status.withLock { $0 = ended.terminationStatus } }
        try process.run()
        pid = process.processIdentifier
    }

    /// Creates a token for the private listener of the server on a data folder.
    package static func token(_ scope: String = "read", dataFolder: String) throws -> String {
        let made = try run(
            ["token", "create", "--scope", scope, "--data-folder", dataFolder, "--log-level", "error"])
        guard made.status == 0 else { throw NoToken(problem: made.error) }
        return made.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private struct NoToken: Error {
        let problem: String
    }

    /// Nil while the process runs.
    package var exitStatus: Int32? { output.status.withLock { $0 } }

    package var log: String {
        if let logFile { return (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }
        return output.text.withLock { $0 }
    }

    private static func pipe(to collected: Output) -> Pipe {
        let pipe = Pipe()
        pipe.fileHandleForReading.readabilityHandler = { handle in
            let part = handle.availableData
            guard !part.isEmpty else {
                handle.readabilityHandler = nil
                return
            }
            collected.text.withLock { $0 += String(decoding: part, as: UTF8.self) }
        }
        return pipe
    }

    /// The ports of both listeners, once they are up.
    package func ports() async throws -> (public: Int, private: Int) {
        try await eventually("both listeners are up") { self.portsIfUp }
    }

    /// The port of the private listener, once it is up. Every process has one.
    package func privatePort() async throws -> Int {
        try await eventually("the private listener is up") { self.port("private") }
    }

    /// The ports of both listeners; nil until both are up.
    package var portsIfUp: (public: Int, private: Int)? {
        guard let open = port("public"), let closed = port("private") else { return nil }
        return (open, closed)
    }

    /// Searches the log for the port and caches it, because logs grow long.
    private func port(_ listener: String) -> Int? {
        if let known = output.ports.withLock({ $0[listener] }) { return known }
        let found = log.split(separator: "\n").first { $0.contains("\(listener) listener is up") }
            .flatMap { $0.firstMatch(of: /http\.address=\S+:(\d+)/) }
            .flatMap { Int($0.output.1) }
        if let found { output.ports.withLock { $0[listener] = found } }
        return found
    }

    package func signal(_ signal: Int32) {
        kill(pid, signal)
    }

    /// Waits for the end of the process.
    package func hasEnded() async throws {
        _ = try await eventually("the server has ended") { self.exitStatus }
    }
}
