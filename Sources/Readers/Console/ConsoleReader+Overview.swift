import Encoding
import EventLog
import Postgres

/// What happens in a stream now.
package struct StreamActivity: Sendable {
    /// Events received since 00:00 UTC.
    package let today: Int64
    /// Events received until the same time of day, a week ago.
    package let weekAgo: Int64
    /// Events in each five minutes of the last 24 hours, oldest first.
    package let spans: [Int64]
    /// From the store's signature to our receipt, of the last ``Limits/lagEventsCounted`` events; nil without events.
    package let lag: Lag?
    package let changes: [ChangeRow]
    package let changesSQL: ReadableSQL

    package struct Lag: Sendable {
        package let medianSeconds: Double
        package let p99Seconds: Double
    }
}

extension ConsoleReader {
    /// What happens in a stream now. Counts are differences of positions: nothing is scanned.
    package func activity(of stream: StreamState, now: Instant) async throws(ReadError) -> StreamActivity {
        let day = Instant(milliseconds: now.milliseconds - now.milliseconds % 86_400_000) ?? .earliest
        let week: Int64 = 7 * 86_400_000
        let step: Int64 = 5 * 60_000
        let spansBack = 288
        var times = [day, day.advanced(byMilliseconds: -week), now.advanced(byMilliseconds: -week)]
        times += (0...spansBack).map { now.advanced(byMilliseconds: -step * Int64(spansBack - $0)) }
        let counts = try await rows(Self.before, [Parameter(stream.streamId), .array(times)])
        let lag = try await rows(
            Self.lag, [Parameter(stream.streamId), Parameter(stream.head - Limits.lagEventsCounted)])
        let limit = Int64(Limits.latestChanges)
        let changes = try await rows(Self.latestChanges, [Parameter(stream.streamId), Parameter(limit)])
        return try decoding { () throws(PostgresError) in
            let before = try Self.all(counts) { row throws(PostgresError) in
                try row.optional(Int64.self, at: 0) ?? stream.head
            }
            let spans = before.dropFirst(3)
            return StreamActivity(
                today: max(0, stream.head - before[0]), weekAgo: max(0, before[2] - before[1]),
                spans: zip(spans, spans.dropFirst()).map { max(0, $1 - $0) },
                lag: try lag.first.flatMap { row throws(PostgresError) in
                    guard let median: Double = try row.optional(Int64.self, at: 0).map({ Double($0) / 1000 }),
                        let p99: Double = try row.optional(Int64.self, at: 1).map({ Double($0) / 1000 })
                    else { return nil }
                    return StreamActivity.Lag(medianSeconds: median, p99Seconds: p99)
                },
                changes: try ChangeRow.all(changes),
                changesSQL: ReadableSQL(Self.latestChanges, [.number(Int64(stream.streamId)), .number(limit)]))
        }
    }

    /// The position before the first event received at or after each instant; null if there is none.
    private static let before = Statement(
        "console_positions_before",
        """
        select (
          select event.position - 1
          from subledger.event
          where event.stream_id = $1
            and event.received_at >= input.at
          order by event.received_at
          limit 1
        )
        from unnest($2::timestamptz[]) with ordinality as input (at, place)
        order by input.place
        """)

    private static let lag = Statement(
        "console_lag",
        """
        select percentile_disc(0.5) within group (order by lag.milliseconds),
          percentile_disc(0.99) within group (order by lag.milliseconds)
        from (
          select (extract(epoch from received_at - occurred_at) * 1000)::bigint as milliseconds
          from subledger.event
          where stream_id = $1
            and position > $2
            and occurred_at is not null
            and source in ('apple-v1', 'apple-v2')
        ) as lag
        """)

    private static let latestChanges = Statement(
        "console_latest_changes",
        """
        select number, published_at, kind, original_transaction_id, at, cause, position, product_id, until
        from subledger.change
        where stream_id = $1
        order by number desc
        limit $2
        """)
}
