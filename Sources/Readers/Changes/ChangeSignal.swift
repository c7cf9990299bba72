import Logging
import Postgres

/// Wakes waiting readers when there may be new changes.
///
/// One connection listens for all readers. While it cannot listen (a hot standby rejects `listen`), readers poll.
package actor ChangeSignal {
    private let channel: ChannelListener
    private let logger: Logger
    /// The number of notifications for each stream.
    private var heard: [Int32: UInt64] = [:]
    /// The number of all notifications, and how often all readers were woken.
    private var heardOfAny: UInt64 = 0
    /// How often all readers were woken.
    private var heardOfAll: UInt64 = 0
    private var waiting: [Int32: [UInt64: CheckedContinuation<Void, Never>]] = [:]
    private var lastWaiter: UInt64 = 0
    private var isListening = false
    /// True once the server shuts down: no reader should wait any longer.
    package private(set) var hasEnded = false

    /// - Parameter channel: `subledger_change`, or `subledger_event` for what is appended to the log.
    package init(
        listener configuration: ConnectionConfiguration, channel: StaticString = "subledger_change", logger: Logger
    ) {
        self.channel = ChannelListener(configuration, channel: channel)
        self.logger = logger
    }

    /// What was heard of a stream so far. A reader that takes a mark before it reads changes, and finds none, can wait
    /// for more.
    package struct Mark: Sendable, Hashable {
        fileprivate let ofStream: UInt64
        fileprivate let ofAll: UInt64
    }

    package func mark(of stream: Int32) -> Mark {
        Mark(ofStream: heard[stream] ?? 0, ofAll: heardOfAll)
    }

    /// The number of notifications so far, whichever streams they are about.
    package func markOfAny() -> UInt64 { heardOfAny }

    /// Waits until something is heard of any stream after the mark, the deadline passes, or the server shuts down.
    package func waitForAny(since mark: UInt64, until deadline: ContinuousClock.Instant) async {
        guard mark == heardOfAny else { return }
        await wait(for: Self.anyStream, since: self.mark(of: Self.anyStream), until: deadline)
    }

    /// No stream has this id.
    private static let anyStream: Int32 = 0

    /// Waits until something is heard of the stream after the mark, the deadline passes, or the server shuts down.
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

    /// Listens until its task is cancelled, then releases all waiting readers.
    package func run() async {
        while !Task.isCancelled {
            if let connection = await listen() {
                await pass(on: connection)
                await connection.close()
            } else {
                try? await Task.sleep(for: Limits.failurePause)
            }
            // Notifications sent while the connection did not listen were missed, so wake all readers.
            wakeAll()
        }
        hasEnded = true
        wakeAll()
    }

    private func pass(on connection: PostgresConnection) async {
        var sweep = ContinuousClock.now
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
            // A connection can be lost without an error, and a notification can be lost while others arrive, so wake
            // all readers from time to time.
            guard sweep <= .now else { continue }
            wakeAll()
            do throws(PostgresError) {
                let rows = try await connection.query(
                    NotificationQueue.isNearlyFull, [], deadline: .now + Limits.readWaitMax)
                let isNearlyFull: Bool = try rows[0].value(at: 0)
                sweep = .now + (isNearlyFull ? NotificationQueue.lookPause : Limits.sweepInterval)
            } catch {
                return
            }
        }
    }

    private func listen() async -> PostgresConnection? {
        switch await channel.session() {
        case .listening(let connection):
            isListening = true
            return connection
        case .pending: return nil
        case .failed(let error):
            // Logged once, since a standby always rejects `listen`.
            if isListening || heardOfAll == 0 {
                logger.warning(
                    "LISTEN failed; falling back to polling once per second",
                    metadata: ["db.error": "\(error.label)"])
            }
            isListening = false
            return nil
        }
    }

    private func wake(_ stream: Int32) {
        heard[stream, default: 0] += 1
        heardOfAny += 1
        release(allOf: stream)
        release(allOf: Self.anyStream)
    }

    private func wakeAll() {
        heardOfAll += 1
        heardOfAny += 1
        for stream in waiting.keys { release(allOf: stream) }
    }

    private func release(allOf stream: Int32) {
        for continuation in waiting.removeValue(forKey: stream)?.values ?? [:].values { continuation.resume() }
    }

    private func release(_ waiter: UInt64, of stream: Int32) {
        waiting[stream]?.removeValue(forKey: waiter)?.resume()
    }
}
