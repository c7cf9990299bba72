import Foundation
import Synchronization
import TestSupport

/// A `subledger serve` that is started again whenever it ends, as an operating system would.
final class StormServer: Sendable {
    let name: String
    let proxy: FaultyProxy
    private let environment: [String: String]
    private let folder: String
    private let state = Mutex(State())

    private struct State {
        var process: ServerProcess?
        var earlierLogs: [String] = []
        /// The process was told to end, or killed.
        var endIsExpected = false
        var isWanted = true
        var starts = 0
    }

    init(name: String, database: StormDatabase, folder: String, rootFile: String, logLevel: String) throws {
        self.name = name
        self.folder = folder
        proxy = try FaultyProxy(target: database.socket)
        environment = [
            "SUBLEDGER_DATABASE_URL":
                "postgres://storm:\(Canary.password)@127.0.0.1:\(proxy.port)/\(StormDatabase.name)",
            "SUBLEDGER_APP_BUNDLE_ID": StormLoad.app,
            "SUBLEDGER_APP_APPLE_ID": String(StormLoad.appleId),
            "SUBLEDGER_APP_SHARED_SECRET": Canary.secret,
            "SUBLEDGER_ROOT_FILES": rootFile,
            "SUBLEDGER_OCSP": "off",
            "SUBLEDGER_LOG_LEVEL": logLevel,
        ]
    }

    /// Keeps it running until ``stop()``.
    func supervise(_ report: StormReport) async {
        while state.withLock({ $0.isWanted }) {
            if let status = process.map(\.exitStatus) ?? 0 {
                noteEnd(status, report)
                do {
                    let started = try ServerProcess(dataFolder: folder, environment: environment)
                    Started.add(started.pid)
                    state.withLock { state in
                        state.process = started
                        state.endIsExpected = false
                        state.starts += 1
                    }
                } catch {
                    report.problem("\(name) cannot be started: \(error)")
                    return
                }
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    private func noteEnd(_ status: Int32, _ report: StormReport) {
        let (ended, isExpected) = state.withLock { state in
            defer { state.process = nil }
            if let log = state.process?.log { state.earlierLogs.append(log) }
            return (state.process, state.endIsExpected)
        }
        guard let ended else { return }
        Started.remove(ended.pid)
        // 69 is its word for a database that is away when it starts.
        if !isExpected, status != 69 {
            report.problem("\(name) ended by itself with status \(status): \(ended.log.suffix(2000))")
        }
    }

    var process: ServerProcess? { state.withLock { $0.process } }
    var starts: Int { state.withLock { $0.starts } }
    var ports: (public: Int, private: Int)? { process?.portsIfUp }

    /// All that it ever logged.
    var logs: [String] { state.withLock { $0.earlierLogs + [$0.process?.log].compactMap(\.self) } }

    func signal(_ signal: Int32) {
        let pid = state.withLock { state in
            if signal == SIGKILL || signal == SIGTERM { state.endIsExpected = true }
            return state.process.flatMap { $0.exitStatus == nil ? $0.pid : nil }
        }
        if let pid { kill(pid, signal) }
    }

    /// Ends it in the ordinary way and returns its exit status.
    func stop() async throws -> Int32? {
        state.withLock { state in
            state.isWanted = false
            state.endIsExpected = true
        }
        guard let process else { return nil }
        process.signal(SIGCONT)
        process.signal(SIGTERM)
        try await process.hasEnded()
        Started.remove(process.pid)
        return process.exitStatus
    }
}

/// The processes that were started and have not ended, so that none outlives us.
enum Started {
    private static let pids = Mutex<Set<Int32>>([])

    static func add(_ pid: Int32) { pids.withLock { _ = $0.insert(pid) } }

    static func remove(_ pid: Int32) { pids.withLock { _ = $0.remove(pid) } }

    static func killAll() { for pid in pids.withLock({ $0 }) { kill(pid, SIGKILL) } }
}
