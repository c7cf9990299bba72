import CLibpq
import Foundation

extension Session {
    /// Connects and authenticates.
    ///
    /// The C library resolves host names without a deadline; every later step obeys it.
    ///
    /// - Throws: ``PostgresError/Kind/unavailable`` with libpq's reason, or ``PostgresError/Kind/deadlineExceeded``.
    static func open(
        _ configuration: ConnectionConfiguration, deadline: ContinuousClock.Instant
    ) throws(PostgresError) -> Session {
        guard let parameters = configuration.parameters() else {
            throw PostgresError(.unavailable, message: "invalid connection string: expected a URL or key=value pairs")
        }
        guard !deadline.hasPassed else { throw .deadlineExceeded }
        guard let connection = start(parameters) else {
            throw PostgresError(.unavailable, message: "out of memory")
        }
        let session = Session(connection)
        try session.finishConnecting(deadline: deadline)
        guard PQsetnonblocking(connection, 1) == 0 else { throw session.lost() }
        return session
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

    private func finishConnecting(deadline: ContinuousClock.Instant) throws(PostgresError) {
        // libpq requires waiting until the socket is writable before the first step.
        var step = PGRES_POLLING_WRITING
        guard PQstatus(connection) != CONNECTION_BAD else { throw lost() }
        while step != PGRES_POLLING_OK {
            guard step != PGRES_POLLING_FAILED else { throw lost() }
            if deadline.hasPassed { throw .deadlineExceeded }
            let events = step == PGRES_POLLING_READING ? POLLIN : POLLOUT
            // Read each time, since libpq opens a new socket for the next address.
            var entry = pollfd(fd: PQsocket(connection), events: Int16(events), revents: 0)
            let ready = poll(&entry, 1, deadline.pollMilliseconds)
            if ready < 0, errno != EINTR { throw lost() }
            if ready > 0 { step = PQconnectPoll(connection) }
        }
    }
}
