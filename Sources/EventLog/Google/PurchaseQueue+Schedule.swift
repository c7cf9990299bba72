import Encoding
import Postgres
import Subscriptions

/// The way of the planned questions from the schedule, which the projector writes, into the queue.
extension PurchaseQueue {
    /// Makes purchases due whose planned time has come, longest due first.
    ///
    /// Safe to repeat, and to run in several processes at once: a purchase that is due already stays due once. One that was
    /// asked about just now follows a little later, since its check may be recorded at this moment.
    ///
    /// - Parameter limit: Of those that are due. At least one of them is not being asked about if that is more than the
    ///   number of questions in flight.
    package func takeInScheduled(of app: String, at now: Instant, limit: Int64) async throws(ReadError) {
        let due = try await pool.read(
            PurchaseStatements.scheduled, [Parameter(app), Parameter(now), Parameter(limit)],
            within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> [(environment: String, token: String, at: Instant)] in
            var due: [(environment: String, token: String, at: Instant)] = []
            for row in rows { due.append((try row.value(at: 0), try row.value(at: 1), try row.value(at: 2))) }
            return due
        }
        guard !due.isEmpty else { return }
        try await pool.run(
            PurchaseStatements.takeInScheduled,
            [
                Parameter(app), .array(due.map(\.environment)), .array(due.map(\.token)), .array(due.map(\.at)),
                Parameter(PurchaseRank.scheduled.rawValue),
                Parameter(now.advanced(by: .zero - Limits.recordedCheckAgeMin)),
            ], within: Limits.commitWaitMax)
    }

    /// The number of planned questions of an app that are due, at most ``Limits/dueChecksCountedMax``, and since when the
    /// first of them is.
    func scheduledBacklog(
        of app: String, at now: Instant
    ) async throws(ReadError) -> (due: Int64, since: Instant?) {
        try await pool.read(
            PurchaseStatements.scheduledBacklog,
            [Parameter(app), Parameter(now), Parameter(Limits.dueChecksCountedMax)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> (Int64, Instant?) in
            (try rows[0].value(at: 0), try rows[0].optional(at: 1))
        }
    }

    /// The earliest time after an instant at which a planned question of the apps becomes due; nil if there is none.
    package func nextScheduled(of apps: [String], after now: Instant) async throws(ReadError) -> Instant? {
        try await pool.read(
            PurchaseStatements.nextScheduled, [.array(apps), Parameter(now)], within: Limits.readWaitMax
        ) { (rows) throws(PostgresError) -> Instant? in try rows.first?.optional(at: 0) }
    }
}

extension PurchaseStatements {
    fileprivate static let scheduled = Statement(
        "purchase_scheduled",
        """
        select stream.environment, due.purchase_token, due.next_at
        from subledger.stream
        cross join lateral (
          select purchase_token, next_at
          from subledger.check_schedule
          where check_schedule.stream_id = stream.stream_id
            and purchase_token is not null
            and next_at <= $2
          order by next_at
          limit $3
        ) as due
        where stream.app = $1
        order by due.next_at
        limit $3
        """)

    fileprivate static let takeInScheduled = Statement(
        "purchase_take_in_scheduled",
        """
        insert into subledger.google_purchase as known (
          app, token_sha256, purchase_token, environment, noticed_at, rank, due_at
        )
        select $1, sha256(convert_to(input.purchase_token, 'UTF8')), input.purchase_token, input.environment, input.due_at,
          $5, input.due_at
        from unnest($2::text[], $3::text[], $4::timestamptz[]) as input (environment, purchase_token, due_at)
        on conflict (app, token_sha256) do update
        set rank = coalesce(known.rank, excluded.rank),
          due_at = excluded.due_at,
          environment = coalesce(known.environment, excluded.environment)
        where coalesce(known.due_at, 'infinity') > excluded.due_at
          and (coalesce(known.asked_at, '-infinity') < excluded.due_at or known.asked_at < $6)
        """)

    fileprivate static let scheduledBacklog = Statement(
        "purchase_scheduled_backlog",
        """
        select count(*), min(due.next_at)
        from (
          select scheduled.next_at
          from subledger.stream
          cross join lateral (
            select next_at
            from subledger.check_schedule
            where check_schedule.stream_id = stream.stream_id
              and purchase_token is not null
              and next_at <= $2
            order by next_at
            limit $3
          ) as scheduled
          where stream.app = $1
          limit $3
        ) as due
        """)

    fileprivate static let nextScheduled = Statement(
        "purchase_next_scheduled",
        """
        select min(earliest.next_at)
        from subledger.stream
        cross join lateral (
          select min(next_at) as next_at
          from subledger.check_schedule
          where check_schedule.stream_id = stream.stream_id
            and purchase_token is not null
            and next_at > $2
        ) as earliest
        where stream.app = any ($1::text[])
        """)
}
