import Foundation
import TestSupport

/// The time from the start of the process to the first 200, on an existing database.
struct StartTime {
    let workload: Workload
    let settings: RunSettings

    func measure(_ samples: inout Samples) async throws {
        try await measureExternal(&samples)
        try await measureEmbedded(&samples)
    }

    /// With an external PostgreSQL that is already running.
    private func measureExternal(_ samples: inout Samples) async throws {
        let database = try await SharedDatabase.make()
        let environment = try MeasuredServer.environment(settings.folder)
        for isTimed in [false, true] {
            let port = try FreePort.find()
            let start = ContinuousClock.now
            let server = try database.server(
                "receiver", more: environment, publicPort: port, logFile: settings.folder.file("server.log"))
            let time = try await firstAccepted(port, server, isTimed ? 1 : 0, since: start)
            if isTimed { samples.add("start.external", time) }
            server.signal(SIGTERM)
            try await server.hasEnded()
        }
        try await database.drop()
    }

    /// With a private PostgreSQL, after a clean stop and after a kill.
    private func measureEmbedded(_ samples: inout Samples) async throws {
        let folder = settings.folder.file("data")
        var environment = try MeasuredServer.environment(settings.folder)
        environment["SUBLEDGER_ROLES"] = "receiver"
        let starts: [(name: String?, end: Int32)] = [
            (nil, SIGTERM), ("start.embedded", SIGKILL), ("start.killed", SIGTERM),
        ]
        for (number, (name, end)) in starts.enumerated() {
            let port = try FreePort.find()
            let start = ContinuousClock.now
            let server = try ServerProcess(
                dataFolder: folder, environment: environment, publicPort: port,
                logFile: settings.folder.file("server.log"))
            let time = try await firstAccepted(port, server, number, since: start)
            if let name { samples.add(name, time) }
            server.signal(end)
            try await server.hasEnded()
        }
        try FileManager.default.removeItem(atPath: folder)
    }

    /// Milliseconds until a notification is accepted, polling every two milliseconds.
    private func firstAccepted(
        _ port: Int, _ server: ServerProcess, _ number: Int, since start: ContinuousClock.Instant
    ) async throws -> Double {
        let request = RequestFile.request(workload.sample[number])
        while LoopbackSocket.post(request, port: port) != 200 {
            guard server.exitStatus == nil, ContinuousClock.now - start < .seconds(60) else {
                server.signal(SIGKILL)
                throw BenchError("the server did not start: \(server.log.suffix(300))")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
        return (ContinuousClock.now - start).inSeconds * 1e3
    }
}
