import Encoding
import Postgres
import Subscriptions

/// What of Apple's notification history is in the log, and the days that were compared with it.
package struct DeliveryLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Where those of the notifications are that are in the log.
    package func places(
        of keys: [DedupeKey], in stream: StreamKey
    ) async throws(ReadError) -> [DedupeKey: DeliveryCount.Place] {
        try await pool.read(
            Statements.places,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(keys.map(\.bytes))],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var places: [DedupeKey: DeliveryCount.Place] = [:]
            for row in rows {
                let receivedAt: Instant = try row.value(at: 2)
                let isFetched = try row.value(String.self, at: 1) == EventSource.appleHistory.rawValue
                places[DedupeKey(bytes: try row.value(at: 0))] =
                    isFetched ? .fetched(receivedAt) : .arrived(receivedAt)
            }
            return places
        }
    }

    /// When the first notification of a stream arrived; nil if none did.
    package func firstArrival(in stream: StreamKey) async throws(ReadError) -> Instant? {
        try await pool.read(
            Statements.firstArrival, [Parameter(stream.app), Parameter(stream.environment.rawValue)],
            within: Limits.auditWaitMax
        ) { rows throws(PostgresError) in
            return rows.count > 0 ? try rows[0].value(at: 0) : nil
        }
    }

    /// The number of events of source `apple-v2` that Apple signed on a day.
    package func arrived(on day: AuditDay, in stream: StreamKey) async throws(ReadError) -> Int64 {
        try await pool.read(
            Statements.arrived,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(day.start),
                Parameter(day.end), Parameter(day.start.advanced(by: .zero - Self.clockAheadMax)),
                Parameter(day.end.advanced(by: Self.deliveryMax)),
            ], within: Limits.auditWaitMax
        ) { rows throws(PostgresError) in
            return try rows[0].value(at: 0)
        }
    }

    /// The days of a stream that were compared, from one on, each with when that was done last.
    package func audits(
        of stream: StreamKey, since day: AuditDay
    ) async throws(ReadError) -> [AuditDay: Instant] {
        try await pool.read(
            Statements.audits,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(day.start)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var audits: [AuditDay: Instant] = [:]
            for row in rows { audits[AuditDay(containing: try row.value(at: 0))] = try row.value(at: 1) }
            return audits
        }
    }

    /// Records a comparison in place of an earlier one of the same day. Does nothing if the log has no event of the
    /// stream.
    package func record(_ audit: DeliveryAudit) async throws(ReadError) {
        var results = JSONWriter()
        audit.count.writeResults(to: &results)
        var lags = JSONWriter()
        audit.count.writeLags(to: &lags)
        let count = audit.count
        try await pool.run(
            Statements.record,
            [
                Parameter(audit.stream.app), Parameter(audit.stream.environment.rawValue),
                Parameter(audit.day.start), Parameter(audit.auditedAt),
                .array([
                    count.made, count.delivered, count.arrived, count.fetched, count.refused, count.lost,
                    count.answeredLate, audit.onlyInLog, count.attempts, count.before,
                ]),
                Parameter(JSONB(utf8: results.bytes)), Parameter(JSONB(utf8: lags.bytes)),
            ], within: Limits.commitWaitMax)
    }

    /// Events with an earlier date of receipt cannot be of a day: the sender's clock would be ahead by more.
    private static let clockAheadMax = Duration.seconds(3600)
    /// Apple makes its last attempt 157 hours after the first.
    private static let deliveryMax = Duration.seconds(8 * 86_400)

    private enum Statements {
        static let places = Statement(
            "delivery_places",
            """
            select event.dedupe_key, event.source, event.received_at
            from subledger.stream
            cross join unnest($3::bytea[]) as input (dedupe_key)
            join subledger.event
              on event.stream_id = stream.stream_id
              and event.dedupe_key = input.dedupe_key
            where stream.app = $1
              and stream.environment = $2
            """)

        static let firstArrival = Statement(
            "delivery_first_arrival",
            """
            select event.received_at
            from subledger.stream
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and event.source in ('apple-v1', 'apple-v2')
            order by event.position
            limit 1
            """)

        static let arrived = Statement(
            "delivery_arrived",
            """
            select count(*)
            from subledger.stream
            join subledger.event using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and event.source = 'apple-v2'
              and event.occurred_at >= $3
              and event.occurred_at < $4
              and event.received_at >= $5
              and event.received_at < $6
            """)

        static let audits = Statement(
            "delivery_audits",
            """
            select delivery_audit.day::timestamp at time zone 'UTC', delivery_audit.audited_at
            from subledger.stream
            join subledger.delivery_audit using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and delivery_audit.day >= ($3::timestamptz at time zone 'UTC')::date
            """)

        static let record = Statement(
            "delivery_record",
            """
            insert into subledger.delivery_audit (
              stream_id, day, audited_at, made, delivered, arrived, fetched, refused, lost, answered_late, only_in_log,
              attempts, results, lags, before
            )
            select stream.stream_id, ($3::timestamptz at time zone 'UTC')::date, $4, counts.made, counts.delivered,
              counts.arrived, counts.fetched, counts.refused, counts.lost, counts.answered_late, counts.only_in_log,
              counts.attempts, $6, $7, counts.before
            from subledger.stream
            cross join lateral (
              select ($5::bigint[])[1] as made, ($5::bigint[])[2] as delivered, ($5::bigint[])[3] as arrived,
                ($5::bigint[])[4] as fetched, ($5::bigint[])[5] as refused, ($5::bigint[])[6] as lost,
                ($5::bigint[])[7] as answered_late, ($5::bigint[])[8] as only_in_log, ($5::bigint[])[9] as attempts,
                ($5::bigint[])[10] as before
            ) as counts
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id, day) do update
            set audited_at = excluded.audited_at,
              made = excluded.made,
              delivered = excluded.delivered,
              arrived = excluded.arrived,
              fetched = excluded.fetched,
              refused = excluded.refused,
              lost = excluded.lost,
              answered_late = excluded.answered_late,
              only_in_log = excluded.only_in_log,
              attempts = excluded.attempts,
              results = excluded.results,
              lags = excluded.lags,
              before = excluded.before
            """)
    }
}
