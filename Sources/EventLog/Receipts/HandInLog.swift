import Encoding
import Postgres
import Subscriptions

/// The receipts that backends handed in.
package struct HandInLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_receiver`; those of `subledger_poller` suffice to read.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    package enum Claim: Sendable {
        /// The receipt is to be asked about, by the caller alone.
        case claimed(ClaimedReceipt)
        /// Another request asks about it, or Apple answered recently.
        case known(HandIn)
    }

    /// Stores a receipt, unless the same one is stored for the app and the customer, and claims it.
    ///
    /// A receipt that was answered or refused is claimed again only if Apple was asked before `askedBefore`. Durable
    /// when this returns. Safe to repeat.
    ///
    /// - Parameters:
    ///   - digest: SHA-256 of the bytes.
    ///   - isSigned: Whether Apple signed it for the app.
    ///   - claimEnd: When other servers may ask, unless the claim is renewed or the outcome recorded before.
    /// - Throws: ``ReadError``.
    package func claim(
        _ bytes: [UInt8], digest: [UInt8], app: String, isSigned: Bool, customerId: String?, accountId: String? = nil,
        at now: Instant, until claimEnd: Instant, askedBefore: Instant
    ) async throws(ReadError) -> Claim {
        let claimed = try await pool.read(
            Statements.claim,
            [
                Parameter(app), Parameter(now), Parameter(digest), Parameter(bytes), Parameter(customerId),
                Parameter(claimEnd), Parameter(askedBefore), Parameter(accountId), Parameter(isSigned),
            ], within: Limits.commitWaitMax
        ) { (rows) throws(PostgresError) -> ClaimedReceipt? in
            guard let row = rows.first else { return nil }
            return ClaimedReceipt(
                id: try row.value(at: 0), app: app, customerId: customerId, accountId: try row.optional(at: 3),
                receivedAt: try row.value(at: 1), bytes: bytes, attempts: try row.value(at: 2), isSigned: isSigned)
        }
        if let claimed { return .claimed(claimed) }
        return try await pool.read(
            Statements.known, [Parameter(app), Parameter(digest), Parameter(customerId)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Claim in
            // Only refused ones are forgotten, long after the last request.
            guard let row = rows.first else { throw PostgresError(.decoding) }
            return .known(try HandIn(row))
        }
    }

    /// Claims receipts about which Apple is to be asked again, longest due first.
    ///
    /// - Parameters:
    ///   - isSigned: Only those that Apple signed for their apps, or only others.
    ///   - claimEnd: When other servers may ask, unless the claim is renewed or the outcome recorded before.
    package func claimDue(
        isSigned: Bool, at now: Instant, until claimEnd: Instant, limit: Int64
    ) async throws(ReadError) -> [ClaimedReceipt] {
        try await pool.read(
            Statements.claimDue, [Parameter(now), Parameter(limit), Parameter(claimEnd), Parameter(isSigned)],
            within: Limits.commitWaitMax
        ) { rows throws(PostgresError) in
            try rows.map { (row) throws(PostgresError) -> ClaimedReceipt in
                ClaimedReceipt(
                    id: try row.value(at: 0), app: try row.value(at: 1), customerId: try row.optional(at: 2),
                    accountId: try row.optional(at: 6), receivedAt: try row.value(at: 3), bytes: try row.value(at: 4),
                    attempts: try row.value(at: 5), isSigned: isSigned)
            }
        }
    }

    /// Makes a claim end later. Does nothing once the outcome is recorded.
    package func renew(_ id: String, until claimEnd: Instant) async throws(ReadError) {
        try await pool.run(Statements.renew, [Parameter(id), Parameter(claimEnd)], within: Limits.commitWaitMax)
    }

    /// Records what came of a question and ends the claim. Of a receipt that is refused, and never was answered, only the
    /// digest is kept.
    ///
    /// - Parameter nextAt: When to ask again; nil unless the state is pending.
    package func record(
        _ state: HandIn.State, _ findings: HandIn.Findings, of id: String, askedAt: Instant, nextAt: Instant?
    ) async throws(ReadError) {
        var stream: Int32?
        if let environment = findings.environment, findings.position != nil {
            stream = try await pool.read(
                Statements.stream, [Parameter(id), Parameter(environment.rawValue)], within: Limits.readWaitMax
            ) { (rows) throws(PostgresError) -> Int32? in try rows.first?.value(at: 0) }
        }
        try await pool.run(
            Statements.record,
            [
                Parameter(id), Parameter(state.rawValue), Parameter(nextAt), Parameter(askedAt),
                Parameter(findings.problem), Parameter(findings.status), Parameter(findings.environment?.rawValue),
                Parameter(findings.registration?.rawValue), Parameter(findings.isLinked),
                .array(findings.subscriptions), Parameter(stream), Parameter(findings.position),
            ], within: Limits.commitWaitMax)
    }

    /// Forgets receipts that were refused, and of which only the digest is kept. Safe to repeat, and for several processes at
    /// once.
    ///
    /// - Parameter before: Only those about which Apple was asked last before this instant.
    /// - Returns: How many; at most `limit`.
    package func forgetRefused(askedBefore before: Instant, limit: Int64) async throws(ReadError) -> Int {
        try await pool.run(
            Statements.forgetRefused, [Parameter(before), Parameter(limit)], within: Limits.commitWaitMax
        ).count
    }

    /// The receipt with this id; nil if there is none.
    package func handIn(id: String) async throws(ReadError) -> HandIn? {
        try await pool.read(Statements.find, [Parameter(id)], within: Limits.readWaitMax) {
            rows throws(PostgresError) in
            guard let row = rows.first else { return nil }
            return try HandIn(row)
        }
    }

    /// The purchases that earlier answers about a receipt named, for all customers that handed it in, sorted by bytes.
    package func subscriptions(ofReceipt digest: [UInt8], app: String) async throws(ReadError) -> [String] {
        try await pool.read(
            Statements.subscriptions, [Parameter(app), Parameter(digest)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            try rows.map { row throws(PostgresError) in try row.value(String.self, at: 0) }
        }
    }

    /// The bytes of the receipt that Apple last confirmed of those that name a subscription, with all purchases that its
    /// answer named; nil if there is none.
    package func newestReceipt(
        naming subscription: String, in stream: StreamKey
    ) async throws(ReadError) -> (bytes: [UInt8], subscriptions: [String])? {
        try await pool.read(
            Statements.newest, [Parameter(stream.app), Parameter(stream.environment.rawValue), .array([subscription])],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> (bytes: [UInt8], subscriptions: [String])? in
            guard let row = rows.first else { return nil }
            return (try row.value(at: 0), try row.array(of: String.self, at: 1).compactMap(\.self))
        }
    }

    private enum Statements {
        static let claim = Statement(
            "receipt_claim",
            """
            insert into subledger.receipt as known (
              receipt_id, app, received_at, receipt_sha256, receipt, customer_id, state, attempts, next_at, asking_until,
              account_id, is_signed
            )
            values (gen_random_uuid(), $1, $2, $3, $4, $5, 'pending', 1, $6, $6, $8, $9)
            on conflict (app, receipt_sha256, customer_id) do update
            set state = 'pending',
              receipt = case when known.receipt = '' then excluded.receipt else known.receipt end,
              attempts = case when known.state = 'pending' then known.attempts else 0 end + 1,
              next_at = excluded.next_at,
              asking_until = excluded.asking_until,
              account_id = coalesce(excluded.account_id, known.account_id),
              is_signed = excluded.is_signed
            where known.state = 'pending' and coalesce(known.asking_until, '-infinity') <= $2
              or known.state <> 'pending' and known.asked_at < $7
            returning receipt_id::text, received_at, attempts, account_id
            """)

        /// `for update skip locked`: servers that claim at the same time get different receipts.
        static let claimDue = Statement(
            "receipt_claim_due",
            """
            with due as (
              select receipt_id
              from subledger.receipt
              where state = 'pending'
                and is_signed = $4
                and next_at <= $1
              order by next_at
              limit $2
              for update skip locked
            )
            update subledger.receipt
            set attempts = attempts + 1,
              next_at = $3,
              asking_until = $3
            from due
            where receipt.receipt_id = due.receipt_id
            returning receipt.receipt_id::text, app, customer_id, received_at, receipt, attempts, account_id
            """)

        static let renew = Statement(
            "receipt_renew",
            """
            update subledger.receipt
            set next_at = $2,
              asking_until = $2
            where receipt_id = $1::uuid
              and asking_until is not null
            """)

        /// Not a part of the update: Citus would lock the table, which the role may not.
        static let stream = Statement(
            "receipt_stream",
            """
            select stream.stream_id
            from subledger.receipt
              join subledger.stream using (app)
            where receipt_id = $1::uuid
              and stream.environment = $2
            """)

        static let record = Statement(
            "receipt_record",
            """
            update subledger.receipt
            set state = $2,
              receipt = case when $2 = 'refused' and cardinality(subscriptions) = 0 then '' else receipt end,
              next_at = $3,
              asking_until = null,
              asked_at = $4,
              problem = $5,
              status = $6,
              environment = $7,
              registered = $8,
              linked = $9,
              subscriptions = $10,
              stream_id = $11,
              position = $12
            where receipt_id = $1::uuid
            """)

        static let forgetRefused = Statement(
            "receipt_forget_refused",
            """
            with refused as (
              select receipt_id
              from subledger.receipt
              where state = 'refused'
                and receipt = ''
                and asked_at < $1
              order by asked_at
              limit $2
            )
            delete from subledger.receipt
            using refused
            where receipt.receipt_id = refused.receipt_id
              and receipt.state = 'refused'
              and receipt.receipt = ''
            returning receipt.app
            """)

        static let find = Statement(
            "receipt_find",
            """
            select receipt_id::text, app, customer_id, received_at, state, asked_at, problem, status, environment,
              registered, linked, subscriptions, position, asking_until
            from subledger.receipt
            where receipt_id = $1::uuid
            """)

        static let known = Statement(
            "receipt_known",
            """
            select receipt_id::text, app, customer_id, received_at, state, asked_at, problem, status, environment,
              registered, linked, subscriptions, position, asking_until
            from subledger.receipt
            where app = $1
              and receipt_sha256 = $2
              and customer_id is not distinct from $3
            """)

        /// `offset 0` makes the planner use the index of subscriptions.
        static let newest = Statement(
            "receipt_newest",
            """
            select receipt, subscriptions
            from (
              select app, receipt, state, asked_at, environment, subscriptions
              from subledger.receipt
              where subscriptions @> $3
              offset 0
            ) as naming
            where app = $1
              and environment = $2
              and state = 'answered'
            order by asked_at desc
            limit 1
            """)

        static let subscriptions = Statement(
            "receipt_subscriptions",
            """
            select distinct subscription collate "C" as subscription
            from subledger.receipt
            cross join unnest(subscriptions) as subscription
            where app = $1
              and receipt_sha256 = $2
            order by subscription
            """)
    }
}

extension HandIn {
    /// Reads a row with the columns of the statement that finds a receipt.
    fileprivate init(_ row: Row) throws(PostgresError) {
        let environment: String? = try row.optional(at: 8)
        let registration: String? = try row.optional(at: 9)
        guard let state = State(rawValue: try row.value(at: 4)) else {
            throw PostgresError(.decoding)
        }
        self.init(
            id: try row.value(at: 0), app: try row.value(at: 1), customerId: try row.optional(at: 2),
            receivedAt: try row.value(at: 3), state: state, askedAt: try row.optional(at: 5),
            askingUntil: try row.optional(at: 13),
            findings: Findings(
                problem: try row.optional(at: 6), status: try row.optional(at: 7),
                environment: environment.flatMap { Environment(rawValue: $0) },
                registration: registration.flatMap { Registration(rawValue: $0) }, isLinked: try row.optional(at: 10),
                subscriptions: try row.array(of: String.self, at: 11).compactMap(\.self),
                position: try row.optional(at: 12)))
    }
}
