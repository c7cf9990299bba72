import Encoding
import Postgres
import Subscriptions

/// The refund requests about which a store asked, and the answers to them.
///
/// Google's are in the stream of the app in environment `unknown`, as all its notifications, which do not say whether a
/// purchase is a test.
package struct ConsumptionLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: To read, has the rights of `subledger_reader`; to state an answer, of `subledger_receiver`; to
    ///   send answers, of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    // MARK: Reading

    /// The requests of a stream in the order of their positions.
    ///
    /// - Parameters:
    ///   - after: The last position that is known; 0 for none.
    ///   - state: Only those in this state at an instant; nil for all.
    package func requests(
        in stream: StreamKey, after: Int64, state: RefundRequest.State?, at now: Instant, limit: Int
    ) async throws(ReadError) -> [RefundRequest] {
        try await pool.read(
            Statements.list,
            key(stream) + [
                Parameter(after), Parameter(state?.rawValue), Parameter(now), Parameter(Int64(limit)),
            ], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.requests(rows, in: stream)
        }.located(by: self)
    }

    /// The latest requests of some streams: of each stream the newest first.
    ///
    /// - Parameter limit: Most of one stream.
    package func latest(in streams: [StreamKey], limit: Int) async throws(ReadError) -> [RefundRequest] {
        try await pool.read(
            Statements.latest,
            [.array(streams.map(\.app)), .array(streams.map(\.environment.rawValue)), Parameter(Int64(limit))],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var requests: [RefundRequest] = []
            for row in rows {
                guard let environment = Environment(rawValue: try row.value(at: 29)) else {
                    throw PostgresError(.decoding)
                }
                let stream = StreamKey(app: try row.value(at: 28), environment: environment)
                requests.append(try RefundRequest(row, stream))
            }
            return requests
        }.located(by: self)
    }

    /// The latest requests about some purchases, at most one for each.
    package func requests(
        about transactionIds: [String], in stream: StreamKey
    ) async throws(ReadError) -> [RefundRequest] {
        try await pool.read(
            Statements.findAll, key(stream) + [.array(transactionIds)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.requests(rows, in: stream)
        }.located(by: self)
    }

    /// The latest request about a purchase; nil if there is none.
    package func request(
        about transactionId: String, in stream: StreamKey
    ) async throws(ReadError) -> RefundRequest? {
        try await requests(about: [transactionId], in: stream).first
    }

    /// An order of Google Play that is known.
    fileprivate struct Order {
        let subscription: String
        let productId: String?
        let environment: Environment
    }

    /// What names an order.
    fileprivate struct OrderKey: Hashable {
        let app: String
        let id: String
    }

    /// The orders that are known. Google does not say which of them are tests, so those of both environments.
    fileprivate func orders(_ keys: Set<OrderKey>) async throws(ReadError) -> [OrderKey: Order] {
        let keys = Array(keys)
        return try await pool.read(
            Statements.orders, [.array(keys.map(\.app)), .array(keys.map(\.id))], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var orders: [OrderKey: Order] = [:]
            for row in rows {
                guard let environment = Environment(rawValue: try row.value(at: 4)) else {
                    throw PostgresError(.decoding)
                }
                // Production comes last, and counts.
                orders[OrderKey(app: try row.value(at: 0), id: try row.value(at: 1))] = Order(
                    subscription: try row.value(at: 2), productId: try row.optional(at: 3), environment: environment)
            }
            return orders
        }
    }

    // MARK: Stating

    /// Sets the answer to the latest request about a purchase, in place of an earlier answer. Durable
    /// when this returns; safe to repeat.
    ///
    /// - Parameters:
    ///   - content: Nil if the customer has not consented.
    ///   - operatorName: Who states it in the console; nil for a backend.
    /// - Returns: False if Apple does not wait for an answer: there is no request, it was decided, the deadline has
    ///   passed, or Apple accepted an answer.
    package func state(
        _ content: ConsumptionAnswer?, about transactionId: String, in stream: StreamKey,
        by operatorName: String? = nil,
        at now: Instant
    ) async throws(ReadError) -> Bool {
        let columns =
            content?.parameters
            ?? [
                Parameter(nil as Bool?), Parameter(nil as String?), Parameter(nil as Int32?), Parameter(nil as String?),
            ]
        return try await change(
            Statements.state,
            key(stream) + [Parameter(now), Parameter(transactionId)] + columns + [Parameter(operatorName)]) > 0
    }

    // MARK: Sending

    /// Answers the requests that wait with the policies of their products.
    ///
    /// - Returns: How many were answered.
    package func applyPolicies(in stream: StreamKey, at now: Instant) async throws(ReadError) -> Int {
        var answered = try await change(Statements.applyPolicies, key(stream) + [Parameter(now)])
        guard stream.environment == .unknown else { return answered }
        // Google names an order, and the purchases are in other streams.
        let open = try await pool.read(
            Statements.open, key(stream) + [Parameter(now)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.requests(rows, in: stream)
        }.located(by: self)
        for request in open {
            guard let productId = request.purchase.productId else { continue }
            answered += try await change(
                Statements.applyPolicy,
                key(stream) + [
                    Parameter(request.position), Parameter(request.purchase.transactionId), Parameter(request.deadline),
                    Parameter(now), Parameter(productId),
                ])
        }
        return answered
    }

    /// Gives up the answers that Apple no longer waits for.
    ///
    /// - Returns: How many there were.
    package func giveUpLate(in stream: StreamKey, at now: Instant) async throws(ReadError) -> Int {
        try await change(Statements.giveUpLate, key(stream) + [Parameter(now)])
    }

    /// The requests whose answers are to be sent now, those with the nearest deadline first, and how many others cannot be
    /// read: these keep none from being answered.
    package func due(
        in stream: StreamKey, at now: Instant, limit: Int
    ) async throws(ReadError) -> (requests: [RefundRequest], unreadable: Int) {
        let due = try await pool.read(
            Statements.due, key(stream) + [Parameter(now), Parameter(Int64(limit))], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            let requests = rows.compactMap { try? RefundRequest($0, stream) }
            return (requests: requests, unreadable: rows.count - requests.count)
        }
        return (try await due.requests.located(by: self), due.unreadable)
    }

    /// Records what came of sending an answer. Does nothing if another one was stated meanwhile, which is sent then.
    ///
    /// - Parameter nextAt: When to send it again; nil unless the state is pending.
    package func record(
        _ state: RefundRequest.Answer.State, problem: String?, of request: RefundRequest, statedAt: Instant,
        askedAt: Instant, nextAt: Instant?
    ) async throws(ReadError) {
        _ = try await change(
            Statements.record,
            key(request.stream) + [
                Parameter(request.position), Parameter(statedAt), Parameter(state.rawValue), Parameter(askedAt),
                Parameter(nextAt), Parameter(problem),
            ])
    }

    private func key(_ stream: StreamKey) -> [Parameter] {
        [Parameter(stream.app), Parameter(stream.environment.rawValue)]
    }

    private func change(_ statement: Statement, _ parameters: [Parameter]) async throws(ReadError) -> Int {
        try await pool.run(statement, parameters, within: Limits.commitWaitMax).affectedRows
    }

    private static func requests(_ rows: RowSet, in stream: StreamKey) throws(PostgresError) -> [RefundRequest] {
        var requests: [RefundRequest] = []
        for row in rows { requests.append(try RefundRequest(row, stream)) }
        return requests
    }
}

extension RefundRequest {
    /// Reads a row with the columns of the statements above.
    fileprivate init(_ row: Row, _ stream: StreamKey) throws(PostgresError) {
        var decision: Decision?
        if let text: String = try row.optional(at: 10) {
            decision = Decision(
                isGranted: text == "granted", decidedAt: try row.value(at: 11), reversedAt: try row.optional(at: 12))
        }
        var answer: Answer?
        if let state: String = try row.optional(at: 13) {
            guard let state = Answer.State(rawValue: state), let author = Answer.Author(rawValue: try row.value(at: 14))
            else { throw PostgresError(.decoding) }
            answer = Answer(
                content: try ConsumptionAnswer.read(row, from: 19), author: author,
                operatorName: try row.optional(at: 26), statedAt: try row.value(at: 15), state: state,
                attempts: try row.value(at: 16), askedAt: try row.optional(at: 17),
                problem: try row.optional(at: 18))
        }
        guard let store = Store(rawValue: try row.value(at: 23)) else { throw PostgresError(.decoding) }
        self.init(
            stream: stream, store: store, position: try row.value(at: 0),
            purchase: Purchase(
                transactionId: try row.value(at: 1), originalTransactionId: try row.optional(at: 2),
                productId: try row.optional(at: 3), productType: try row.optional(at: 4),
                appAccountToken: try row.optional(at: 5), isAdvancedCommerce: try row.value(at: 6)),
            reason: try row.optional(at: 7), requests: try row.value(at: 8), requestedAt: try row.optional(at: 27),
            receivedAt: try row.value(at: 9), deadline: try row.value(at: 24),
            pendingRefundToken: try row.optional(at: 25), decision: decision, answer: answer)
    }
}

extension [RefundRequest] {
    /// The requests, those of Google with what the projections say about their orders.
    fileprivate func located(by log: ConsumptionLog) async throws(ReadError) -> [RefundRequest] {
        func key(_ request: RefundRequest) -> ConsumptionLog.OrderKey {
            ConsumptionLog.OrderKey(app: request.stream.app, id: request.purchase.transactionId)
        }
        let asked = Set(filter { $0.store == .google }.map(key))
        guard !asked.isEmpty else { return self }
        let orders = try await log.orders(asked)
        return map { request in
            guard request.store == .google, let order = orders[key(request)] else { return request }
            return request.located(
                originalTransactionId: order.subscription, productId: order.productId, in: order.environment)
        }
    }
}
