import Postgres

/// Decides which process does some work for a stream: the first that takes the stream's lock leads it.
///
/// A leader holds an advisory lock in a session of its own, for as long as the session lasts. If the process dies, the
/// session ends and another process takes the lock when it next asks. A process that is silent for
/// ``Limits/leaderSilenceMax`` loses its session. It may then ask about what another process asks about, too, which
/// costs a call and changes nothing.
package actor StreamLeadership {
    /// Each has locks of its own. The raw values tell them from other locks of the database.
    package enum Work: Int32, Sendable {
        /// The letters "POLL".
        case checks = 0x504F_4C4C
        /// The letters "AUDT".
        case audits = 0x4155_4454
        /// The letters "RFND".
        case refunds = 0x5246_4E44
        /// The letters "BKFL".
        case backfills = 0x424B_464C
        /// The letters "GOOG".
        case google = 0x474F_4F47
        /// The letters "VOID".
        case voids = 0x564F_4944
    }

    private let work: Work
    private let configuration: ConnectionConfiguration
    private var connection: PostgresConnection?
    private var held: Set<Int32> = []
    /// The last request that was begun; each waits for the one before, since they share the session.
    private var last: Task<Result<Set<Int32>, PostgresError>, Never>?

    /// - Parameter configuration: Any role will do.
    package init(_ configuration: ConnectionConfiguration, for work: Work = .checks) {
        self.work = work
        var configuration = configuration
        configuration.sessionSettings["idle_session_timeout"] =
            "\(Limits.leaderSilenceMax.components.seconds)s"
        self.configuration = configuration
    }

    /// Takes the lead of those of the streams that no other process leads.
    ///
    /// - Returns: Those of the streams that this process leads now.
    package func lead(_ streams: [Int32]) async throws(ReadError) -> Set<Int32> {
        let previous = last
        let next = Task {
            _ = await previous?.value
            return await take(streams)
        }
        last = next
        switch await next.value {
        case .success(let led): return led
        case .failure(let error): throw ReadError(error)
        }
    }

    /// Reports that this process is alive. Does nothing if it leads no stream.
    package func keep() async throws(ReadError) {
        guard connection != nil else { return }
        _ = try await lead([])
    }

    /// Leaves all streams to others. When this returns, they can be led.
    package func release() async {
        _ = await last?.value
        // PostgreSQL ends a closed session some time later. Another process must not find its locks until then.
        _ = try? await connection?.query(Statements.release, [], deadline: .now + Limits.readWaitMax)
        await drop()
    }

    private func take(_ streams: [Int32]) async -> Result<Set<Int32>, PostgresError> {
        let first = await tryToTake(streams)
        guard case .failure = first else { return first }
        // The session may have ended long ago.
        return await tryToTake(streams)
    }

    private func tryToTake(_ streams: [Int32]) async -> Result<Set<Int32>, PostgresError> {
        do throws(PostgresError) {
            let deadline = ContinuousClock.now + Limits.readWaitMax
            let session = try await session(deadline: deadline)
            let others = streams.filter { !held.contains($0) }
            let rows = try await session.query(
                Statements.lead, [Parameter(work.rawValue), .array(others)], deadline: deadline)
            for row in rows { held.insert(try row.value(at: 0)) }
            return .success(held.intersection(streams))
        } catch {
            await drop()
            return .failure(error)
        }
    }

    private func session(deadline: ContinuousClock.Instant) async throws(PostgresError) -> PostgresConnection {
        if let connection { return connection }
        let connection = try await PostgresConnection.connect(configuration, deadline: deadline)
        self.connection = connection
        return connection
    }

    private func drop() async {
        held = []
        let ended = connection
        connection = nil
        await ended?.close()
    }

    private enum Statements {
        /// Without streams, it only reports to the server.
        static let lead = Statement(
            "check_lead",
            """
            select input.stream_id
            from unnest($2::integer[]) as input (stream_id)
            where pg_try_advisory_lock($1::integer, input.stream_id)
            """)

        static let release = Statement("check_release", "select pg_advisory_unlock_all()::text")
    }
}
