import Logging
import Postgres

/// Wakes who waits for changes, when there may be some.
///
/// One connection listens for all of them. While it cannot (a hot standby takes no `listen`), everybody looks from time
/// to time.
package actor ChangeSignal {
    private let configuration: ConnectionConfiguration
    private let logger: Logger
    /// How often each stream was heard of, and all of them together.
    private var heard: [Int32: UInt64] = [:]
    private var heardOfAll: UInt64 = 0
    private var waiting: [Int32: [UInt64: CheckedContinuation<Void, Never>]] = [:]
    private var lastWaiter: UInt64 = 0
    private var isListening = false
    /// The server ends: nobody should wait for anything.
    package private(set) var hasEnded = false

    package init(listener configuration: ConnectionConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    /// What was heard of a stream so far. Whoever takes it before looking, and finds nothing, can wait for more.
    package struct Mark: Sendable, Hashable {
        fileprivate let ofStream: UInt64
        fileprivate let ofAll: UInt64
    }

    package func mark(of stream: Int32) -> Mark {
        Mark(ofStream: heard[stream] ?? 0, ofAll: heardOfAll)
    }

    /// Waits until something is heard of the stream since the mark, the time is up, or the server ends.
    package func wait(for stream: Int32, since mark: Mark, until deadline: ContinuousClock.Instant) async {
        guard mark == self.mark(of: stream), !hasEnded, !Task.isCancelled, deadline > .now else { return }
        lastWaiter += 1
        let waiter = lastWaiter
        let timer = Task {
            try? await Task.sleep(until: deadline)
            release(waiter, of: stream)
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiting[stream, default: [:]][waiter] = continuation
                if Task.isCancelled { release(waiter, of: stream) }
            }
        } onCancel: {
            Task { await release(waiter, of: stream) }
        }
        timer.cancel()
    }

    /// Listens until its task is cancelled, and then lets go who waits.
    package func run() async {
        while !Task.isCancelled {
            if let connection = await listen() {
                await pass(on: connection)
                await connection.close()
            } else {
                try? await Task.sleep(for: Limits.failurePause)
            }
            // Only looking shows what was said while nobody listened.
            wakeAll()
        }
        hasEnded = true
        wakeAll()
    }

    private func pass(on connection: PostgresConnection) async {
        var sweep = ContinuousClock.now + Limits.sweepInterval
        while !Task.isCancelled {
            let until = sweep
            let arrived = await withTaskCancellationHandler { () -> [ServerNotification]? in
                do throws(PostgresError) {
                    return try await connection.notifications(until: until)
                } catch {
                    return nil
                }
            } onCancel: {
                connection.interrupt()
            }
            guard let arrived else { return }
            Set(arrived.compactMap { Int32($0.payload) }).forEach(wake)
            // A connection can be gone without a word, and a notification be lost while others arrive: so everybody
            // looks from time to time.
            guard sweep <= .now else { continue }
            wakeAll()
            sweep = .now + Limits.sweepInterval
        }
    }

    private func listen() async -> PostgresConnection? {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(configuration, deadline: .now + Limits.readWaitMax)
            try await connection.listen(to: "subledger_change", deadline: .now + Limits.readWaitMax)
            isListening = true
            return connection
        } catch {
            // Said once: on a standby it stays so.
            if isListening || heardOfAll == 0 {
                logger.warning(
                    "cannot listen for changes: readers of the feed look once a second",
                    metadata: ["db.error": "\(error.label)"])
            }
            isListening = false
            return nil
        }
    }

    private func wake(_ stream: Int32) {
        heard[stream, default: 0] += 1
        release(allOf: stream)
    }

    private func wakeAll() {
        heardOfAll += 1
        for stream in waiting.keys { release(allOf: stream) }
    }

    private func release(allOf stream: Int32) {
        for continuation in waiting.removeValue(forKey: stream)?.values ?? [:].values { continuation.resume() }
    }

    private func release(_ waiter: UInt64, of stream: Int32) {
        waiting[stream]?.removeValue(forKey: waiter)?.resume()
    }
}
