import Foundation
import Synchronization
import TestSupport

/// A `subledger serve` that is restarted whenever it ends, as a service manager does.
final class StormServer: Sendable {
    let name: String
    let proxy: FaultyProxy
    private let environment: [String: String]
    private let folder: String
    private let state = Mutex(State())

    private struct State {
        var process: ServerProcess?
        var earlierLogs: [String] = []
        /// The process was sent SIGTERM or SIGKILL.
        var isEndExpected = false
        var isWanted = true
        var starts = 0
    }

    init(
        name: String, database: StormDatabase, folder: String, rootFile: String, appsFile: String, store: String,
        logLevel: String, more: [String: String]
    ) throws {
        self.name = name
        self.folder = folder
        proxy = try FaultyProxy(target: database.socket)
        environment = [
            "SUBLEDGER_DATABASE_URL":
                "postgres://storm:\(Canary.password)@127.0.0.1:\(proxy.port)/\(StormDatabase.name)",
            "SUBLEDGER_APP_BUNDLE_ID": "",
            "SUBLEDGER_APP_SHARED_SECRET": "",
            "SUBLEDGER_APPS_FILE": appsFile,
            "SUBLEDGER_VERIFY_RECEIPT_URL": "\(store)/production/verifyReceipt",
            "SUBLEDGER_VERIFY_RECEIPT_SANDBOX_URL": "\(store)/sandbox/verifyReceipt",
            "SUBLEDGER_ROOT_FILES": rootFile,
            "SUBLEDGER_OCSP": "off",
            "SUBLEDGER_LOG_LEVEL": logLevel,
        ].merging(more) { $1 }
    }

    /// Restarts the process whenever it ends, until ``stop()``.
    func supervise(_ report: StormReport) async {
        while state.withLock({ $0.isWanted }) {
            if let status = process.map(\.exitStatus) ?? 0 {
                recordEnd(status, report)
                do {
                    let started = try ServerProcess(dataFolder: folder, environment: environment)
                    Started.add(started.pid)
                    state.withLock { state in
                        state.process = started
                        state.isEndExpected = false
                        state.starts += 1
                    }
                } catch {
                    report.problem("cannot start \(name): \(error)")
                    return
                }
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    private func recordEnd(_ status: Int32, _ report: StormReport) {
        let (ended, isExpected) = state.withLock { state in
            defer { state.process = nil }
            if let log = state.process?.log { state.earlierLogs.append(log) }
            return (state.process, state.isEndExpected)
        }
        guard let ended else { return }
        Started.remove(ended.pid)
        // Status 69: the database was unavailable at start.
        if !isExpected, status != 69 {
            report.problem("\(name) ended unexpectedly with status \(status): \(ended.log.suffix(2000))")
        }
    }

    var process: ServerProcess? { state.withLock { $0.process } }
    var starts: Int { state.withLock { $0.starts } }
    var ports: (public: Int, private: Int)? { process?.portsIfUp }

    /// The logs of all its processes.
    var logs: [String] { state.withLock { $0.earlierLogs + [$0.process?.log].compactMap(\.self) } }

    func signal(_ signal: Int32) {
        let pid = state.withLock { state in
            if signal == SIGKILL || signal == SIGTERM { state.isEndExpected = true }
            return state.process.flatMap { $0.exitStatus == nil ? $0.pid : nil }
        }
        if let pid { kill(pid, signal) }
    }

    /// Stops the server with SIGTERM and returns its exit status.
    func stop() async throws -> Int32? {
        state.withLock { state in
            state.isWanted = false
            state.isEndExpected = true
        }
        guard let process else { return nil }
        process.signal(SIGCONT)
        process.signal(SIGTERM)
        try await process.hasEnded()
        Started.remove(process.pid)
        return process.exitStatus
    }
}

/// The started processes that have not ended, so that none outlives the storm.
enum Started {
    private static let pids = Mutex<Set<Int32>>([])

    static func add(_ pid: Int32) { pids.withLock { _ = $0.insert(pid) } }

    static func remove(_ pid: Int32) { pids.withLock { _ = $0.remove(pid) } }

    static func killAll() { for pid in pids.withLock({ $0 }) { kill(pid, SIGKILL) } }
}
