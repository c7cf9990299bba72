import CLibpq
import Foundation

extension Session {
    /// Connects and authenticates.
    ///
    /// With several hosts, of which one kind is wanted, it connects to all of them at once: a machine that does not answer
    /// must not delay the connection to another. The first suitable session wins, and the others are closed.
    ///
    /// The C library resolves host names without a deadline; every later step obeys it.
    ///
    /// - Throws: ``PostgresError/Kind/unavailable`` with libpq's reason, or ``PostgresError/Kind/deadlineExceeded``.
    static func open(
        _ configuration: ConnectionConfiguration, deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Session {
        guard configuration.isValid else {
            throw PostgresError(.unavailable, message: "invalid connection string: expected a URL or key=value pairs")
        }
        var failure = PostgresError.deadlineExceeded
        for hosts in configuration.preferences() {
            do throws(PostgresError) {
                let session = try open(
                    anyOf: hosts, deadline: hosts.count > 1 ? min(deadline, .now + configuration.hostWait) : deadline)
                guard PQsetnonblocking(session.connection, 1) == 0 else { throw session.lost() }
                return session
            } catch {
                failure = error
            }
        }
        throw failure
    }

    /// A connection to one of the hosts, in progress.
    private struct Attempt {
        let host: ConnectionConfiguration
        let session: Session
        var step: PostgresPollingStatusType

        /// Read each time, since libpq opens a new socket for the next address.
        var entry: pollfd {
            let events = step == PGRES_POLLING_READING ? POLLIN : POLLOUT
            return pollfd(fd: PQsocket(session.connection), events: Int16(events), revents: 0)
        }
    }

    /// How long a host that was not suitable is left alone while another one has not answered yet. In the meantime it may
    /// become suitable: a standby becomes the primary.
    private static let askAgainPause = Duration.milliseconds(500)

    private static func open(
        anyOf hosts: [ConnectionConfiguration], deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Session {
        guard !deadline.hasPassed else { throw .deadlineExceeded }
        var failure = PostgresError.deadlineExceeded
        var attempts = try hosts.map { host throws(PostgresError) in try attempt(host) }
        var unsuitable: [ConnectionConfiguration] = []
        var askAgain = ContinuousClock.now + askAgainPause
        while true {
            for attempt in attempts where attempt.step == PGRES_POLLING_FAILED {
                failure = attempt.session.lost()
                unsuitable.append(attempt.host)
            }
            attempts.removeAll { $0.step == PGRES_POLLING_FAILED }
            guard !attempts.isEmpty, !deadline.hasPassed else { throw failure }
            if askAgain.hasPassed {
                for host in unsuitable { attempts.append(try attempt(host)) }
                unsuitable = []
                askAgain = .now + askAgainPause
            }
            var entries = attempts.map(\.entry)
            let until = unsuitable.isEmpty ? deadline : min(deadline, askAgain)
            let ready = poll(&entries, nfds_t(entries.count), until.pollMilliseconds)
            if ready < 0, errno != EINTR { throw attempts[0].session.lost() }
            guard ready > 0 else { continue }
            for (index, entry) in entries.enumerated() where entry.revents != 0 {
                attempts[index].step = PQconnectPoll(attempts[index].session.connection)
                if attempts[index].step == PGRES_POLLING_OK { return attempts[index].session }
            }
        }
    }

    private static func attempt(_ host: ConnectionConfiguration) throws(PostgresError) -> Attempt {
        guard let connection = start(host.parameters() ?? []) else {
            throw PostgresError(.unavailable, message: "out of memory")
        }
        return Attempt(
            host: host, session: Session(connection),
            // libpq requires waiting until the socket is writable before the first step.
            step: PQstatus(connection) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING)
    }

    private static func start(_ parameters: [(key: String, value: String)]) -> OpaquePointer? {
        let keys = parameters.map { strdup($0.key) }
        let values = parameters.map { strdup($0.value) }
        defer {
            for text in keys + values { free(text) }
        }
        let keyList = keys.map { UnsafePointer($0) } + [nil]
        let valueList = values.map { UnsafePointer($0) } + [nil]
        return PQconnectStartParams(keyList, valueList, 0)
    }
}
