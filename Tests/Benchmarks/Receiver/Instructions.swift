import Foundation
import TestSupport

/// The instructions executed by server and database, counted by `perf stat` if the machine supports it.
struct Instructions {
    private let server: Counting
    private let database: Counting

    /// Starts counting; nil if the machine cannot count instructions.
    static func count(_ server: MeasuredServer) async throws -> Instructions? {
        guard isPossible, let postmaster = await (try TestCluster.server()).postmasterPID else { return nil }
        let backends = try Tool.run(try Tool.find("pgrep"), ["-P", String(postmaster)]).split(separator: "\n")
        return Instructions(
            server: try Counting(String(server.process.pid)), database: try Counting(backends.joined(separator: ",")))
    }

    static let isPossible: Bool = {
        guard let perf = try? Tool.find("perf"),
            let output = try? Tool.run("/bin/sh", ["-c", "\(perf) stat -x, -e instructions true 2>&1"])
        else { return false }
        return Counting.value(output) != nil
    }()

    func end() throws -> (server: Double, database: Double)? {
        guard let server = try server.end(), let database = try database.end() else { return nil }
        return (server, database)
    }

    /// One `perf stat` attached to running processes.
    private struct Counting {
        private let process = Process()
        private let output = Pipe()

        init(_ pids: String) throws {
            process.executableURL = URL(fileURLWithPath: try Tool.find("perf"))
            process.arguments = ["stat", "-x,", "-e", "instructions", "-p", pids]
            process.standardError = output
            try process.run()
        }

        func end() throws -> Double? {
            process.interrupt()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            return Self.value(text)
        }

        /// `123456,,instructions,…`
        static func value(_ text: String) -> Double? {
            text.split(separator: "\n").first { $0.contains("instructions") }
                .flatMap { $0.split(separator: ",").first }.flatMap { Double($0) }
        }
    }
}
