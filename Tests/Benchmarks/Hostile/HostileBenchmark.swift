import ArgumentParser
import Foundation
import TestSupport

/// Holds hostile connections on a server's public listener while a genuine sender posts beside them once a second.
struct HostileBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "hostile",
        abstract: "Measure how long a genuine sender waits beside hostile connections.",
        discussion: """
            Starts a server of its own in a temporary folder. The status is 1 if an answer took too long or failed.
            """)

    @Option(help: "idle, drip-head, drip-body, too-large, keep-alive, or all, one after the other.")
    var mode = "all"

    @Option var connections = 800

    @Option(help: "How many addresses of 127.0.0.0/8 they come from.")
    var addresses = 1

    @Option(help: "How long, for each mode.")
    var seconds = 120

    @Option(help: "Longest time for an answer.")
    var millisecondsMax = 2000

    func validate() throws {
        guard !modes.isEmpty else { throw ValidationError("--mode is unknown.") }
        guard (1...10_000).contains(connections), (1...10_000).contains(addresses), (1...3600).contains(seconds) else {
            throw ValidationError("--connections, --addresses and --seconds must be positive, and not enormous.")
        }
    }

    private var modes: [HostileConnections.Mode] {
        mode == "all" ? HostileConnections.Mode.allCases : [HostileConnections.Mode(rawValue: mode)].compactMap(\.self)
    }

    func run() async throws {
        let folder = "/tmp/subledger-hostile-\(getpid())"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let server = try ServerProcess(
            dataFolder: folder + "/data", environment: ["SUBLEDGER_OCSP": "off"], logFile: folder + "/log")
        let port = try await server.ports().public
        var hasPassed = true
        for (index, mode) in modes.enumerated() {
            var settings = HostileConnections.Settings(mode: mode)
            settings.connections = connections
            settings.addresses = addresses
            let (answers, opened) = try await HostileConnections.hold(settings, port: port) { hostile in
                (try await GenuineSender(port: port).run(seconds, first: 1 + index * seconds), hostile.openedCount)
            }
            let slowest = answers.map(\.took).max() ?? .zero
            let failed = answers.count { $0.status != 200 }
            hasPassed = hasPassed && failed == 0 && slowest <= .milliseconds(millisecondsMax)
            print(
                "\(mode.rawValue): \(answers.count) sent, \(failed) failed, slowest answer \(slowest),",
                "\(opened) hostile connections opened")
        }
        server.signal(SIGTERM)
        try await server.hasEnded()
        if !hasPassed { throw ExitCode.failure }
    }
}
