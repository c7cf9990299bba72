import Postgres
import Subscriptions

/// How far the log was read for purchases whose past is to be read from the App Store Server API: those that version 1
/// notifications and receipts name, which say little of it, and those that a backend linked unless their first purchase
/// is known and was not refunded: it tells when to ask again, and a refund of it tells nothing of what came later.
package struct BackfillLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The next events of a stream.
    package struct Batch: Sendable, Hashable {
        /// The position of the last one.
        package let last: Int64
        /// The number of folded events from the first one on, at least one.
        package let waiting: Int64
        /// `originalTransactionId`s whose history was not read to its end, in order of the events that name them. Those
        /// that one event names are of one Apple Account.
        package let accounts: [[String]]
        /// True if more events follow.
        package let hasMore: Bool
    }

    /// The next events of a stream that are folded; nil if there are none.
    ///
    /// They remain the next ones until they are recorded.
    package func next(in stream: StreamKey) async throws(ReadError) -> Batch? {
        try await pool.read(
            Statements.next,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(Limits.backfillEventsMax)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard let first = rows.first else { return nil }
            let (last, waiting): (Int64, Int64) = (try first.value(at: 0), try first.value(at: 1))
            var named: [(position: Int64, id: String)] = []
            for row in rows {
                guard let id: String = try row.optional(at: 3) else { continue }
                named.append((try row.value(at: 2), id))
            }
            return Batch(
                last: last, waiting: waiting, accounts: Self.accounts(named),
                hasMore: waiting > Limits.backfillEventsMax)
        }
    }

    /// Records that the purchases of all events up to a position were asked about.
    package func record(_ last: Int64, in stream: StreamKey) async throws(ReadError) {
        try await pool.run(
            Statements.record,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(last)],
            within: Limits.commitWaitMax)
    }

    /// Joins what events name that have an id in common.
    ///
    /// - Parameter named: In order of the positions.
    static func accounts(_ named: [(position: Int64, id: String)]) -> [[String]] {
        var groups: [[String]] = []
        var places: [String: Int] = [:]
        var rest = named[...]
        while let position = rest.first?.position {
            let ids = rest.prefix { $0.position == position }.map(\.id)
            rest = rest.dropFirst(ids.count)
            let known = Set(ids.compactMap { places[$0] }).sorted()
            let place = known.first ?? groups.count
            if known.isEmpty { groups.append([]) }
            for other in known.dropFirst() {
                groups[place] += groups[other]
                groups[other] = []
            }
            groups[place] += ids.filter { places[$0] == nil }
            for id in groups[place] { places[id] = place }
        }
        return groups.filter { !$0.isEmpty }
    }

    private enum Statements {
        /// `offset 0` makes the planner look each id up.
        static let next = Statement(
            "backfill_next",
            """
            select next.last_position, next.waiting, named.position, named.id
            from (
              select checkpoint.stream_id, coalesce(history_backfill.position, 0) as done,
                least(coalesce(history_backfill.position, 0) + $3, checkpoint.position) as last_position,
                checkpoint.position - coalesce(history_backfill.position, 0) as waiting
              from subledger.checkpoint
              join subledger.stream using (stream_id)
              left join subledger.history_backfill using (stream_id)
              where stream.app = $1
                and stream.environment = $2
            ) as next
            left join lateral (
              select distinct event.position, stated.id
              from subledger.event
              cross join lateral (
                select fact ->> 'originalTransactionId' as id
                from jsonb_array_elements(event.facts -> 'transactions') as fact
                where event.source in ('apple-v1', 'apple-receipt')
                union all
                select link ->> 'originalTransactionId'
                from jsonb_array_elements(event.facts #> '{link,links}') as link
                where event.kind = 'link'
                  and link ->> 'originalTransactionId' ~ '^[0-9]+$'
                  and not exists (
                    select
                    from subledger.transaction
                    where transaction.stream_id = event.stream_id
                      and transaction.original_transaction_id = link ->> 'originalTransactionId'
                      and transaction.transaction_id = link ->> 'originalTransactionId'
                      and transaction.revocation_date is null
                    offset 0
                  )
              ) as stated
              where event.stream_id = next.stream_id
                and event.position > next.done
                and event.position <= next.last_position
                and (event.source in ('apple-v1', 'apple-receipt') or event.kind = 'link')
                -- Not the names that an erasure gave.
                and stated.id not like 'erased-%'
                and not exists (
                  select
                  from subledger.store_history
                  where store_history.stream_id = event.stream_id
                    and store_history.original_transaction_id = stated.id
                    and store_history.covered_since is not null
                  offset 0
                )
            ) as named on true
            where next.waiting > 0
            order by named.position, named.id
            """)

        /// A process that has lost its lead does not set it back.
        static let record = Statement(
            "backfill_record",
            """
            insert into subledger.history_backfill (stream_id, position)
            select stream.stream_id, $3
            from subledger.stream
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id) do update set position = greatest(history_backfill.position, excluded.position)
            """)
    }
}
