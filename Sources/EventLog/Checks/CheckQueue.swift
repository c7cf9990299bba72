import Encoding
import Postgres
import Subscriptions

/// The checks of a stream that are due, and the records of those that were made.
///
/// The projector owns the schedule. This type stands here because the client of a store may use the log but not the
/// projector, and because the records are kept like the log.
package struct CheckQueue: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// A scheduled check whose time has come.
    package struct DueCheck: Sendable, Hashable {
        package let originalTransactionId: String
        /// To be passed on to the record of the check.
        package let scheduled: StoreCheck
        /// Since when it is due: later than `scheduled.dueAt` if it was made already and is to be repeated.
        package let nextAt: Instant
    }

    /// How much there is to ask.
    package struct Backlog: Sendable, Hashable {
        /// The number of checks that are due, at most ``Limits/dueChecksCountedMax``.
        package let due: Int64
        /// When the earliest check is or was due; nil if none is scheduled.
        package let nextAt: Instant?
    }

    /// The checks that are due and can be made with a receipt, longest due first.
    ///
    /// A check stays due until it is recorded, so a poller must remember what it is asking.
    package func due(
        in streamId: Int32, at now: Instant, limit: Int64
    ) async throws(PostgresError) -> [DueCheck] {
        let rows = try await pool.query(
            Statements.due, [Parameter(streamId), Parameter(now), Parameter(limit)],
            deadline: .now + Limits.readWaitMax)
        var checks: [DueCheck] = []
        for row in rows {
            guard let reason = StoreCheck.Reason(rawValue: try row.value(at: 2)) else { continue }
            checks.append(
                DueCheck(
                    originalTransactionId: try row.value(at: 0),
                    scheduled: StoreCheck(dueAt: try row.value(at: 1), reason: reason), nextAt: try row.value(at: 3)))
        }
        return checks
    }

    package func backlog(of streamId: Int32, at now: Instant) async throws(PostgresError) -> Backlog {
        let rows = try await pool.query(
            Statements.backlog, [Parameter(streamId), Parameter(now), Parameter(Limits.dueChecksCountedMax)],
            deadline: .now + Limits.readWaitMax)
        return Backlog(due: try rows[0].value(at: 0), nextAt: try rows[0].optional(at: 1))
    }

    /// Records a check and sets the time of the next one, both or neither. If the schedule has changed since the check
    /// was read, it stays as it is.
    ///
    /// Safe to repeat: the same check of a subscription is recorded once.
    package func record(_ check: CheckRecord, in streamId: Int32) async throws(PostgresError) {
        _ = try await pool.query(
            Statements.record,
            [
                Parameter(streamId), Parameter(check.originalTransactionId), Parameter(check.askedAt),
                Parameter(check.scheduled?.dueAt), Parameter(check.scheduled?.reason.rawValue),
                Parameter(check.result.label), Parameter(check.status), Parameter(check.result.position),
                Parameter(check.nextAt),
            ],
            deadline: .now + Limits.commitWaitMax)
    }

    private enum Statements {
        static let due = Statement(
            "check_due",
            """
            select original_transaction_id, due_at, reason, next_at
            from subledger.check_schedule
            where stream_id = $1
              and has_receipt
              and next_at <= $2
            order by next_at
            limit $3
            """)

        /// The order makes PostgreSQL count in the index.
        static let backlog = Statement(
            "check_backlog",
            """
            select
              (
                select count(*)
                from (
                  select
                  from subledger.check_schedule
                  where stream_id = $1
                    and has_receipt
                    and next_at <= $2
                  order by next_at
                  limit $3
                ) as due
              ),
              (
                select min(next_at)
                from subledger.check_schedule
                where stream_id = $1
                  and has_receipt
              )
            """)

        /// If a projector or a rebuild writes the row at the same moment, the check may be made once more.
        static let record = Statement(
            "check_record",
            """
            with recorded as (
              insert into subledger.store_check (
                stream_id, original_transaction_id, asked_at, due_at, reason, result, status, position, next_at
              )
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
              on conflict (stream_id, original_transaction_id, asked_at) do nothing
            )
            update subledger.check_schedule
            set next_at = $9
            where stream_id = $1
              and original_transaction_id = $2
              and due_at = $4
            """)
    }
}
