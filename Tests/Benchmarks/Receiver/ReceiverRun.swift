import Foundation
import TestSupport

/// Measures the server with distinct bodies, with the same bodies again, and at half the measured rate.
struct ReceiverRun {
    let workload: Workload
    let settings: RunSettings

    func measure(_ samples: inout Samples) async throws {
        var found = samples
        try await MeasuredServer.with(settings) { try await measure($0, &found) }
        samples = found
    }

    private func measure(_ server: MeasuredServer, _ samples: inout Samples) async throws {
        let name = workload.format.rawValue
        let first = try await send(to: server, "\(name)", &samples)
        samples.add("\(name).memory", Double(try ProcessMemory.residentMax(server.process.pid)))
        samples.add("\(name).body", workload.bodyBytes)
        if !CitusCluster.isWanted {
            samples.add(
                "\(name).disk",
                Double(try await LogSize.measure(server.database.configuration).total) / Double(first.events))
        }
        _ = try await send(to: server, "\(name).again", limit: first.events - settings.connections, &samples)
        let half = OpenLoop(requests: workload.requests, connections: settings.connections)
        let answers = try half.run(
            port: server.port, rate: first.perSecond / 2, seconds: Double(settings.seconds), from: first.events + 1)
        guard answers.allSatisfy({ $0.status == 200 }) else {
            throw BenchError("not all requests at half the rate were answered 200")
        }
        samples.add("\(name).half.p50", answers.map(\.milliseconds).percentile(0.5))
        samples.add("\(name).half.p99", answers.map(\.milliseconds).percentile(0.99))
    }

    /// - Parameter limit: See ``Wrk/run(port:limit:from:)``.
    private func send(
        to server: MeasuredServer, _ name: String, limit: Int = 0, _ samples: inout Samples
    ) async throws -> (events: Int, perSecond: Double) {
        let instructions = try await Instructions.count(server)
        let positionBefore = try await server.headPosition()
        let before = try await ProcessorTime.now(of: server.process.pid)
        let outcome = try Wrk(settings: settings, requests: workload.requests).run(port: server.port, limit: limit)
        let events = try await server.settledPosition() - positionBefore
        let used = try await ProcessorTime.now(of: server.process.pid) - before
        guard limit > 0 ? events == 0 : events > 0 else {
            throw BenchError("\(events) events of \(name) were stored")
        }
        let count = Double(limit > 0 ? Int(outcome.perSecond * Double(settings.seconds)) : events)
        samples.add("\(name).rate", outcome.perSecond)
        samples.add("\(name).p50", outcome.p50)
        samples.add("\(name).p99", outcome.p99)
        samples.add("\(name).client", outcome.clientMicroseconds)
        samples.add("\(name).server", used.own * 1e6 / count)
        samples.add("\(name).database", used.database * 1e6 / count)
        for (node, seconds) in used.nodes.enumerated() where used.nodes.count > 1 {
            samples.add("\(name).node\(node)", seconds * 1e6 / count)
        }
        if let counted = try instructions?.end() {
            samples.add("\(name).server.instructions", counted.server / count)
            samples.add("\(name).database.instructions", counted.database / count)
        }
        return (events, outcome.perSecond)
    }
}
