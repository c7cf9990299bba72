import Encoding
import EventLog
import Postgres
import Subscriptions

/// The endpoints, and what operators change about them. Every change is durable when the call returns, and takes effect in
/// the process that delivers within about ``Limits/roundPause``.
package struct EndpointStore: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_products`; those of `subledger_reader` suffice to read, and those of
    ///   `subledger_poller` to add.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    // MARK: Reading

    /// All endpoints, or one, in the order of their creation.
    package func list(_ id: String? = nil) async throws(ReadError) -> [EndpointStatus] {
        try await pool.read(
            EndpointStatements.list, [Parameter(id)], within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            var found: [EndpointStatus] = []
            for row in rows { found.append(try EndpointStatus(row)) }
            return found
        }
    }

    /// The latest attempts of an endpoint, the latest first.
    package func attempts(of id: String, limit: Int) async throws(ReadError) -> [Attempt] {
        try await pool.read(
            EndpointStatements.attempts, [Parameter(id), Parameter(Int64(limit))], within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            var attempts: [Attempt] = []
            for row in rows {
                attempts.append(
                    Attempt(
                        at: try row.value(at: 0), number: try row.value(at: 1), result: try row.value(at: 2),
                        status: try row.optional(Int32.self, at: 3).map(Int.init),
                        milliseconds: Int(try row.value(Int32.self, at: 4))))
            }
            return attempts
        }
    }

    /// Whether an app has events.
    package func hasStream(of app: String) async throws(ReadError) -> Bool {
        try await pool.read(
            EndpointStatements.hasStream, [Parameter(app)], within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            try rows[0].value(at: 0)
        }
    }

    // MARK: Changing

    package enum Addition: Sendable, Hashable {
        case added
        /// There is an endpoint with the same id; nothing was changed.
        case exists
        /// There are ``Limits/endpointsMax``.
        case full
    }

    /// Adds an endpoint.
    ///
    /// - Parameter after: Where it begins: after this change or position; nil for the present end of the feed.
    package func add(_ endpoint: Endpoint, after: Int64?) async throws(ReadError) -> Addition {
        try await pool.read(
            EndpointStatements.add,
            [
                Parameter(endpoint.id), Parameter(endpoint.purpose.rawValue), Parameter(endpoint.stream.app),
                Parameter(endpoint.stream.environment.rawValue), Parameter(endpoint.url),
                .array(endpoint.kinds ?? []), Parameter(endpoint.signature.rawValue),
                Parameter(endpoint.createdAt), Parameter(after), Parameter(Int64(Limits.endpointsMax)),
            ], within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            if try rows[0].value(Int64.self, at: 0) == 1 { return .added }
            return try rows[0].value(at: 1) ? .full : .exists
        }
    }

    /// Sets which kinds or sources an endpoint gets.
    func setKinds(of endpoint: Endpoint) async throws(ReadError) {
        _ = try await change(EndpointStatements.setKinds, [Parameter(endpoint.id), .array(endpoint.kinds ?? [])])
    }

    /// Stops the deliveries to an endpoint; its cursor stays.
    ///
    /// - Returns: False if there is no such endpoint.
    package func disable(_ id: String, for reason: Endpoint.Reason, at now: Instant) async throws(ReadError) -> Bool {
        try await change(EndpointStatements.disable, [Parameter(id), Parameter(reason.rawValue), Parameter(now)]) > 0
    }

    /// Continues where the endpoint stopped; what waits is due at once.
    ///
    /// - Returns: False if there is no such endpoint.
    package func enable(_ id: String) async throws(ReadError) -> Bool {
        try await change(EndpointStatements.enable, [Parameter(id)]) > 0
    }

    /// Delivers everything after a place again.
    ///
    /// - Parameter number: At most the end of the feed.
    /// - Returns: False if there is no such endpoint.
    package func replay(_ id: String, after number: Int64) async throws(ReadError) -> Bool {
        try await change(EndpointStatements.rewind, [Parameter(id), Parameter(number)]) > 0
    }

    /// Delivers one message again, at once. Its attempts are counted anew.
    ///
    /// - Returns: False if there is no such endpoint, or it has not reached the message yet.
    package func replay(_ id: String, number: Int64) async throws(ReadError) -> Bool {
        try await change(EndpointStatements.replayOne, [Parameter(id), Parameter(number)]) > 0
    }

    /// Delivers the messages again whose attempts were used up at an instant or later.
    ///
    /// - Returns: How many there are; nil if there is no such endpoint.
    package func replayExhausted(_ id: String, since: Instant) async throws(ReadError) -> Int? {
        try await pool.read(
            EndpointStatements.replayExhausted, [Parameter(id), Parameter(since)], within: Limits.databaseWaitMax
        ) { rows throws(PostgresError) in
            guard try rows[0].value(at: 0) else { return nil }
            return Int(try rows[0].value(Int64.self, at: 1))
        }
    }

    private func change(_ statement: Statement, _ parameters: [Parameter]) async throws(ReadError) -> Int64 {
        try await pool.read(statement, parameters, within: Limits.databaseWaitMax) { rows throws(PostgresError) in
            try rows[0].value(at: 0)
        }
    }
}

extension EndpointStatus {
    /// Reads the columns of ``EndpointStatements/list``.
    init(_ row: Row) throws(PostgresError) {
        endpoint = try Endpoint(row)
        number = try row.value(at: 10)
        head = try row.value(at: 11)
        failingSince = try row.optional(at: 12)
        succeededAt = try row.optional(at: 13)
        waiting = try row.value(at: 14)
        exhausted = try row.value(at: 15)
    }
}

extension Endpoint {
    /// Reads the columns of ``EndpointStatements/columns``, ten from the first on.
    init(_ row: Row) throws(PostgresError) {
        guard let purpose = Purpose(rawValue: try row.value(at: 1)),
            let environment = Environment(rawValue: try row.value(at: 3)),
            let signature = Signature(rawValue: try row.value(at: 6))
        else { throw PostgresError(.decoding) }
        var state = State.active
        if let reason: String = try row.optional(at: 7) {
            guard let reason = Reason(rawValue: reason) else { throw PostgresError(.decoding) }
            state = .disabled(reason, at: try row.value(at: 8))
        }
        let kinds = try row.array(of: String.self, at: 5).compactMap(\.self)
        self.init(
            id: try row.value(at: 0), purpose: purpose,
            stream: StreamKey(app: try row.value(at: 2), environment: environment), url: try row.value(at: 4),
            kinds: kinds.isEmpty ? nil : kinds, signature: signature, state: state, createdAt: try row.value(at: 9))
    }
}
