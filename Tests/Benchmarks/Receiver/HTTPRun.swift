import Foundation
import TestSupport

/// The floor of HTTP: the same requests to a server that only reads their bodies.
struct HTTPRun {
    let workload: Workload
    let settings: RunSettings

    func measure(_ samples: inout Samples) async throws {
        let name = "\(workload.format.rawValue).http"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
        process.arguments = ["serve-floor"]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(line.dropFirst("port ".count).prefix { $0.isNumber }) else {
            throw BenchError("the HTTP floor did not start")
        }
        let before = try await ProcessorTime.now(of: process.processIdentifier)
        // The bodies may be sent more than once, because the server ignores them.
        let outcome = try Wrk(settings: settings, requests: workload.requests)
            .run(port: port, limit: workload.requests.ranges.count)
        let used = try await ProcessorTime.now(of: process.processIdentifier) - before
        samples.add("\(name).rate", outcome.perSecond)
        samples.add("\(name).p50", outcome.p50)
        samples.add("\(name).p99", outcome.p99)
        samples.add("\(name).client", outcome.clientMicroseconds)
        samples.add("\(name).server", used.own * 1e6 / (outcome.perSecond * Double(settings.seconds)))
    }
}
