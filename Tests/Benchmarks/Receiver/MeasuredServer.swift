import Foundation
import Postgres
import Simulation
import TestSupport

/// The receiver in a process of its own, on a database of its own.
struct MeasuredServer {
    let database: SharedDatabase
    let process: ServerProcess
    let port: Int

    /// Starts a server for the duration of the work, and ends it even if the work throws.
    ///
    /// - Parameter database: Nil for a new database, which is dropped afterwards.
    static func with<Value>(
        _ settings: RunSettings, database existing: SharedDatabase? = nil,
        _ work: (MeasuredServer) async throws -> Value
    ) async throws -> Value {
        let database = if let existing { existing } else { try await SharedDatabase.make() }
        let process = try database.server(
            "receiver", more: try environment(settings.folder, streams: settings.streams),
            logFile: settings.folder.file("server.log"))
        do {
            let server = MeasuredServer(database: database, process: process, port: try await process.ports().public)
            let value = try await work(server)
            process.signal(SIGTERM)
            try await process.hasEnded()
            if existing == nil { try await database.drop() }
            return value
        } catch {
            process.signal(SIGKILL)
            throw error
        }
    }

    /// Settings for the app and the root certificate of the bodies. The log level is the default.
    static func environment(_ folder: Folder, streams: Int = 1) throws -> [String: String] {
        let root = folder.file("root.pem")
        try Data(TestCertificates.standard.rootPEM.utf8).write(to: URL(fileURLWithPath: root))
        var environment = [
            "SUBLEDGER_ROOT_FILES": root, "SUBLEDGER_OCSP": "off",
            // All load comes from one address, as it does behind a proxy.
            "SUBLEDGER_PUBLIC_CONNECTIONS_PER_ADDRESS": "768",
        ]
        if streams == 1 {
            environment["SUBLEDGER_APP_APPLE_ID"] = "1"
        } else {
            let apps = Workload.appNames(streams).map {
                "{\"bundleId\": \"\($0)\", \"sharedSecrets\": [\"\(V1Body.secret)\"]}"
            }
            let file = folder.file("apps.json")
            try Data("[\(apps.joined(separator: ","))]".utf8).write(to: URL(fileURLWithPath: file))
            environment["SUBLEDGER_APPS_FILE"] = file
        }
        return environment
    }

    func headPosition() async throws -> Int {
        let lines = try await database.lines("select coalesce(sum(position), 0)::text from subledger.stream_head")
        return lines.first.flatMap { Int($0) } ?? 0
    }

    /// The head position once it stays the same for 100 ms.
    func settledPosition() async throws -> Int {
        var last = try await headPosition()
        while true {
            try await Task.sleep(for: .milliseconds(100))
            let now = try await headPosition()
            if now == last { return now }
            last = now
        }
    }
}
