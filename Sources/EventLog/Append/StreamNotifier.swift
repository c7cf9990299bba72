import Logging
import Postgres

/// Wakes the sessions that listen to a channel, outside of the transactions that they wait for.
///
/// Best effort: PostgreSQL refuses to notify while its queue is full, and the queue is full as long as any session of
/// the server listens in an open transaction. Listeners look for work from time to time as well, so a lost
/// notification costs latency and nothing else.
package actor StreamNotifier {
    /// Sends the ids of streams to a channel.
    package static let statement = Statement(
        "stream_notify",
        """
        select pg_notify($1, stream_id::text)
        from unnest($2::integer[]) as input (stream_id)
        """)

    private let pool: PostgresPool
    private let channel: String
    private let logger: Logger
    private var pending: Set<Int32> = []
    private var isSending = false
    private var hasFailed = false

    package init(pool: PostgresPool, channel: String, logger: Logger) {
        self.pool = pool
        self.channel = channel
        self.logger = logger
    }

    /// Sends the ids as payloads, each once, and returns before they are sent. What comes while a notification is on its
    /// way is sent together after it.
    package func notify(_ streamIds: some Sequence<Int32> & Sendable) {
        pending.formUnion(streamIds)
        guard !isSending, !pending.isEmpty else { return }
        isSending = true
        Task { await send() }
    }

    private func send() async {
        while !pending.isEmpty {
            let ids = pending.sorted()
            pending = []
            do throws(PostgresError) {
                _ = try await pool.query(
                    Self.statement, [Parameter(channel), .array(ids)], deadline: .now + Limits.notifyWaitMax)
                hasFailed = false
            } catch {
                note(error)
            }
        }
        isSending = false
    }

    /// Once for each time that it begins to fail.
    private func note(_ error: PostgresError) {
        guard error.kind != .closed, !hasFailed else { return }
        hasFailed = true
        logger.warning(
            "listeners could not be notified",
            metadata: [
                "db.channel": "\(channel)", "db.error": "\(error.label)",
                "db.sqlstate": "\(error.sqlstate ?? "none")",
            ])
    }
}
