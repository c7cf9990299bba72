import Glibc
import ServiceLifecycle

/// Reports the state of this process to the service manager that started it: ready once all listeners accept connections,
/// alive at each watchdog interval, and stopping.
///
/// The watchdog shows that the server's threads still run tasks. It does not depend on the database, which a restart of
/// the server would not repair.
///
/// - Source: sd_notify(3), sd_watchdog_enabled(3).
package struct ServiceManager: Service {
    private let socket: NotifySocket
    /// Half of the time after which the service manager kills a silent process; nil without a watchdog.
    private let watchdogPause: Duration?
    /// The number of listeners that must accept connections before the process is ready.
    private let listenerCount: Int
    private let listening: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    private static let repeatPause = Duration.milliseconds(100)

    /// - Returns: Nil if no service manager waits for reports.
    package init?(environment: [String: String], listenerCount: Int) {
        guard let socket = environment["NOTIFY_SOCKET"].flatMap(NotifySocket.init) else { return nil }
        self.socket = socket
        self.listenerCount = listenerCount
        watchdogPause = Self.watchdogPause(environment)
        (listening, continuation) = AsyncStream.makeStream()
    }

    private static func watchdogPause(_ environment: [String: String]) -> Duration? {
        // The variables are inherited, so they may be meant for a parent of this process.
        if let pid = environment["WATCHDOG_PID"], pid != "\(getpid())" { return nil }
        guard let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init), microseconds > 0 else { return nil }
        return .microseconds(microseconds) / 2
    }

    /// Records that another listener accepts connections.
    package func listenerIsUp() { continuation.yield() }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            for await _ in listening.prefix(listenerCount) {}
            while !Task.isCancelled, !socket.send("READY=1") { try? await Task.sleep(for: Self.repeatPause) }
            guard let watchdogPause else {
                try? await gracefulShutdown()
                return
            }
            while !Task.isCancelled {
                socket.send("WATCHDOG=1")
                try? await Task.sleep(for: watchdogPause)
            }
        }
        // The remaining services stop within their limit, which is shorter than a watchdog interval should be.
        if watchdogPause == nil { socket.send("STOPPING=1") } else { socket.send("STOPPING=1", "WATCHDOG=1") }
    }
}
