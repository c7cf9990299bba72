/// Opens a session that listens to a channel, in the background.
///
/// A session that begins to listen first reads the whole backlog of the notification queue, which all databases of the server
/// share and any session can fill. A long backlog takes minutes, and longer if several sessions read it. PostgreSQL does not
/// end such a session, even if its client is gone. So an attempt has ten minutes, callers wait five seconds for it, and no
/// attempt begins while another session of the same login is about to listen.
package actor ChannelListener {
    package enum Outcome: Sendable {
        case listening(PostgresConnection)
        /// An attempt is under way, or due later.
        case pending
        /// The attempt has failed; the next one is due after a pause.
        case failed(PostgresError)
    }

    /// For how long a caller waits for an attempt.
    static let callerWaitMax = Duration.seconds(5)
    static let connectWaitMax = Duration.seconds(5)
    static let listenWaitMax = Duration.seconds(600)
    /// After a failure at which the server answered.
    static let pauseFirst = Duration.seconds(1)
    /// After several at which a session was, or could be, still reading the backlog.
    static let pauseMax = Duration.seconds(600)
    /// Every role sees the names of all applications.
    static let mark: StaticString = "subledger about to listen"

    private let configuration: ConnectionConfiguration
    private let channel: StaticString
    private var begun: ContinuousClock.Instant?
    private var finished: Result<PostgresConnection, Failure>?
    private var due = ContinuousClock.now
    private var pause = ChannelListener.pauseFirst

    package init(_ configuration: ConnectionConfiguration, channel: StaticString) {
        self.configuration = configuration
        self.channel = channel
    }

    /// The session of an attempt that has ended, once; it belongs to the caller. Begins an attempt if one is due, and waits
    /// for it at most five seconds from its begin.
    package func session() async -> Outcome {
        if begun == nil, due <= .now { begin() }
        while let begun, finished == nil, !(begun + Self.callerWaitMax).hasPassed, !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(5))
        }
        guard let outcome = finished else { return .pending }
        begun = nil
        finished = nil
        switch outcome {
        case .success(let connection):
            pause = Self.pauseFirst
            due = .now
            return .listening(connection)
        case .failure(let error):
            due = .now + pause
            pause = error.isBacklog ? min(pause * 2, Self.pauseMax) : Self.pauseFirst
            return .failed(error.error)
        }
    }

    private func begin() {
        begun = .now
        Task {
            do throws(Failure) {
                finished = .success(try await Self.listen(configuration, channel))
            } catch {
                finished = .failure(error)
            }
        }
    }

    private struct Failure: Error {
        let error: PostgresError
        /// Whether a session is, or may be, reading the backlog.
        var isBacklog = false
    }

    private static func listen(
        _ configuration: ConnectionConfiguration, _ channel: StaticString
    ) async throws(Failure) -> PostgresConnection {
        let connection: PostgresConnection
        do throws(PostgresError) {
            connection = try await PostgresConnection.connect(configuration, deadline: .now + connectWaitMax)
        } catch {
            throw Failure(error: error)
        }
        do throws(PostgresError) {
            // Before the question, so that of two sessions at most one finds no older one.
            try await connection.script("set application_name = '\(mark)'", deadline: .now + connectWaitMax)
            let others = try await connection.query(
                Statements.others, [Parameter(mark.description)], deadline: .now + connectWaitMax)
            // As if this session had tried, too.
            guard others.isEmpty else { throw PostgresError(.deadlineExceeded) }
            try await connection.listen(to: channel, deadline: .now + listenWaitMax)
            try await connection.script("reset application_name", deadline: .now + connectWaitMax)
            return connection
        } catch {
            await connection.close()
            throw Failure(error: error, isBacklog: error.kind == .deadlineExceeded)
        }
    }

    private enum Statements {
        /// Of sessions of this login alone: others can have any name.
        static let others = Statement(
            "channel_others",
            """
            select other.pid
            from pg_stat_activity as own
            join pg_stat_activity as other
              on other.usename = own.usename
                and (other.backend_start, other.pid) < (own.backend_start, own.pid)
            where own.pid = pg_backend_pid()
              and other.application_name = $1
            limit 1
            """)
    }
}
