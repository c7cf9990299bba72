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

    /// The latest requests of a stream, the newest first.
    package func latest(in stream: StreamKey, limit: Int) async throws(ReadError) -> [RefundRequest] {
        try await pool.read(
            Statements.latest, key(stream) + [Parameter(Int64(limit))], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.requests(rows, in: stream)
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
        try await pool.read(
            Statements.find, key(stream) + [Parameter(transactionId)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return try Self.requests(rows, in: stream)
        }.located(by: self).first
    }

    /// The orders of an app that are known, each with its subscription and its product. Google does not say which of them
    /// are tests, so those of both environments.
    fileprivate func orders(
        _ ids: [String], of app: String
    ) async throws(ReadError) -> [String: (subscription: String, productId: String?)] {
        var orders: [String: (subscription: String, productId: String?)] = [:]
        for environment in [Environment.sandbox, .production] {
            let found = try await pool.read(
                Statements.orders, [Parameter(app), Parameter(environment.rawValue), .array(ids)],
                within: Limits.readWaitMax
            ) { rows throws(PostgresError) in
                var found: [(id: String, subscription: String, productId: String?)] = []
                for row in rows {
                    found.append((try row.value(at: 0), try row.value(at: 1), try row.optional(at: 2)))
                }
                return found
            }
            for order in found { orders[order.id] = (order.subscription, order.productId) }
        }
        return orders
    }

    // MARK: Stating

    /// Sets the answer to the latest request about a purchase, in place of an earlier answer. Durable
    /// when this returns; safe to repeat.
    ///
    /// - Parameter content: Nil if the customer has not consented.
    /// - Returns: False if Apple does not wait for an answer: there is no request, it was decided, the deadline has
    ///   passed, or Apple accepted an answer.
    package func state(
        _ content: ConsumptionAnswer?, about transactionId: String, in stream: StreamKey, at now: Instant
    ) async throws(ReadError) -> Bool {
        let columns =
            content?.parameters
            ?? [
                Parameter(nil as Bool?), Parameter(nil as String?), Parameter(nil as Int32?), Parameter(nil as String?),
            ]
        return try await change(
            Statements.state, key(stream) + [Parameter(now), Parameter(transactionId)] + columns) > 0
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
        try await pool.read(
            Statements.due, key(stream) + [Parameter(now), Parameter(Int64(limit))], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            let requests = rows.compactMap { try? RefundRequest($0, stream) }
            return (requests, rows.count - requests.count)
        }
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

    private enum Statements {
        /// What ``RefundRequest/init(_:_:)`` reads.
        private static let columns: SQL = """
            request.position, request.transaction_id, request.original_transaction_id, request.product_id,
              request.product_type, request.app_account_token, request.is_advanced_commerce, request.reason,
              request.requests, request.received_at, request.decision, request.decided_at, request.reversed_at,
              answer.state, answer.stated_by, answer.stated_at, answer.attempts, answer.asked_at, answer.problem,
              answer.sample_content_provided, answer.delivery_status, answer.consumption_percentage,
              answer.refund_preference, request.store, request.deadline_at, request.pending_refund_token
            """

        /// The longest time that a store gives, to find what it asked.
        private static let answerTimeMax: SQL = "interval '24 hours'"

        static let list = Statement(
            "refund_list",
            """
            select \(columns)
            from subledger.stream
            join subledger.refund_request as request using (stream_id)
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            where stream.app = $1
              and stream.environment = $2
              and request.position > $3
              and (
                $4::text is null
                or $4 = coalesce(
                  answer.state,
                  case
                    when request.decided_at is null and request.deadline_at > $5::timestamptz then 'waiting'
                    else 'unanswered'
                  end
                )
              )
            order by request.position
            limit $6
            """)

        static let find = Statement(
            "refund_find",
            """
            select \(columns)
            from subledger.stream
            join subledger.refund_request as request using (stream_id)
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            where stream.app = $1
              and stream.environment = $2
              and request.transaction_id = $3
            order by request.position desc
            limit 1
            """)

        /// Each was asked lately, so old ones are not read.
        static let latest = Statement(
            "refund_latest",
            """
            select distinct on (request.position) \(columns)
            from (
              select event.stream_id,
                coalesce(
                  event.facts #>> '{transactions,0,transactionId}',
                  event.facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}'
                ) as transaction_id
              from subledger.stream
              join subledger.event using (stream_id)
              where stream.app = $1
                and stream.environment = $2
                and event.kind = 'consumption_request'
              order by event.received_at desc
              limit $3
            ) as asked
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = asked.stream_id
                and refund_request.transaction_id = asked.transaction_id
              order by refund_request.position desc
              limit 3
            ) as request
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            order by request.position desc
            """)

        static let findAll = Statement(
            "refund_find_all",
            """
            select \(columns)
            from subledger.stream
            cross join unnest($3::text[]) as asked (transaction_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id = asked.transaction_id
              order by refund_request.position desc
              limit 1
            ) as request
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            where stream.app = $1
              and stream.environment = $2
            order by request.position desc
            """)

        static let orders = Statement(
            "refund_orders",
            """
            select transaction.transaction_id, transaction.original_transaction_id, transaction.product_id
            from subledger.stream
            join subledger.transaction using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and transaction.transaction_id = any ($3::text[])
            """)

        /// Google's requests without an answer.
        static let open = Statement(
            "refund_open",
            """
            select distinct on (request.position) \(columns)
            from subledger.stream
            join subledger.event as asked using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id
                  = asked.facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}'
              order by refund_request.position desc
              limit 1
            ) as request
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            where stream.app = $1
              and stream.environment = $2
              and asked.kind = 'consumption_request'
              and asked.received_at > $3::timestamptz - \(answerTimeMax)
              and request.store = 'google'
              and request.deadline_at > $3::timestamptz
              and request.decided_at is null
              and answer.position is null
            order by request.position
            """)

        static let applyPolicy = Statement(
            "consumption_apply_policy",
            """
            insert into subledger.consumption_answer (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at
            )
            select stream.stream_id, $3, $4, $5, 'policy', $6::timestamptz, policy.sample_content_provided,
              policy.delivery_status, policy.consumption_percentage, policy.refund_preference, 'pending',
              $6::timestamptz
            from subledger.stream
            join subledger.consumption_policy as policy
              on policy.app = stream.app
              and policy.product_id = $7
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id, position) do nothing
            """)

        static let state = Statement(
            "consumption_state",
            """
            insert into subledger.consumption_answer as known (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at
            )
            select request.stream_id, request.position, request.transaction_id, request.deadline_at,
              'backend', $3, $5::boolean, $6, $7::integer, $8,
              case when $6::text is null then 'no_consent' else 'pending' end,
              case when $6::text is not null then $3::timestamptz end
            from subledger.stream
            join subledger.refund_request as request using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and request.transaction_id = $4
              and request.decided_at is null
              and request.deadline_at > $3::timestamptz
            order by request.position desc
            limit 1
            on conflict (stream_id, position) do update
            set stated_by = excluded.stated_by,
              stated_at = excluded.stated_at,
              sample_content_provided = excluded.sample_content_provided,
              delivery_status = excluded.delivery_status,
              consumption_percentage = excluded.consumption_percentage,
              refund_preference = excluded.refund_preference,
              state = excluded.state,
              next_at = excluded.next_at,
              problem = null
            where known.state not in ('accepted', 'late')
            """)

        /// `limit 1` keeps the planner from computing the view for all purchases.
        static let applyPolicies = Statement(
            "consumption_apply_policies",
            """
            insert into subledger.consumption_answer (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at
            )
            select request.stream_id, request.position, request.transaction_id, request.deadline_at,
              'policy', $3, policy.sample_content_provided, policy.delivery_status, policy.consumption_percentage,
              policy.refund_preference, 'pending', $3
            from subledger.stream
            join subledger.event as asked using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id = asked.facts #>> '{transactions,0,transactionId}'
              order by refund_request.position desc
              limit 1
            ) as request
            join subledger.consumption_policy as policy
              on policy.app = stream.app
              and policy.product_id = request.product_id
            where stream.app = $1
              and stream.environment = $2
              and asked.kind = 'consumption_request'
              and asked.received_at > $3::timestamptz - \(answerTimeMax)
              and request.deadline_at > $3::timestamptz
              and request.decided_at is null
            on conflict (stream_id, position) do nothing
            """)

        static let giveUpLate = Statement(
            "consumption_give_up_late",
            """
            update subledger.consumption_answer as answer
            set state = 'late',
              next_at = null
            from subledger.stream
            where stream.app = $1
              and stream.environment = $2
              and answer.stream_id = stream.stream_id
              and answer.state = 'pending'
              and (
                answer.deadline_at <= $3
                or (
                  select refund_request.decided_at
                  from subledger.refund_request
                  where refund_request.stream_id = answer.stream_id
                    and refund_request.transaction_id = answer.transaction_id
                    and refund_request.position = answer.position
                ) is not null
              )
            """)

        static let due = Statement(
            "consumption_due",
            """
            select \(columns)
            from subledger.stream
            join subledger.consumption_answer as answer using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = answer.stream_id
                and refund_request.transaction_id = answer.transaction_id
                and refund_request.position = answer.position
              limit 1
            ) as request
            where stream.app = $1
              and stream.environment = $2
              and answer.state = 'pending'
              and answer.next_at <= $3
            order by answer.deadline_at
            limit $4
            """)

        static let record = Statement(
            "consumption_record",
            """
            update subledger.consumption_answer as answer
            set state = $5,
              asked_at = $6,
              next_at = $7,
              problem = $8,
              attempts = attempts + 1
            from subledger.stream
            where stream.app = $1
              and stream.environment = $2
              and answer.stream_id = stream.stream_id
              and answer.position = $3
              and answer.stated_at = $4
              and answer.state = 'pending'
            """)
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
                content: try ConsumptionAnswer.read(row, from: 19), author: author, statedAt: try row.value(at: 15),
                state: state, attempts: try row.value(at: 16), askedAt: try row.optional(at: 17),
                problem: try row.optional(at: 18))
        }
        guard let store = Store(rawValue: try row.value(at: 23)) else { throw PostgresError(.decoding) }
        self.init(
            stream: stream, store: store, position: try row.value(at: 0),
            purchase: Purchase(
                transactionId: try row.value(at: 1), originalTransactionId: try row.optional(at: 2),
                productId: try row.optional(at: 3), productType: try row.optional(at: 4),
                appAccountToken: try row.optional(at: 5), isAdvancedCommerce: try row.value(at: 6)),
            reason: try row.optional(at: 7), requests: try row.value(at: 8), receivedAt: try row.value(at: 9),
            deadline: try row.value(at: 24), pendingRefundToken: try row.optional(at: 25), decision: decision,
            answer: answer)
    }
}

extension [RefundRequest] {
    /// The requests, those of Google with what the projections say about their orders.
    fileprivate func located(by log: ConsumptionLog) async throws(ReadError) -> [RefundRequest] {
        let ids = filter { $0.store == .google }.map(\.purchase.transactionId)
        guard !ids.isEmpty, let app = first?.stream.app else { return self }
        let orders = try await log.orders(ids, of: app)
        return map { request in
            guard request.store == .google, let order = orders[request.purchase.transactionId] else { return request }
            return request.located(originalTransactionId: order.subscription, productId: order.productId)
        }
    }
}
