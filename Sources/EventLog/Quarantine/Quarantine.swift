import Encoding
import Postgres
import Subscriptions

/// The signed notifications of apps that are not configured, until they are.
///
/// Any number of servers may use it at the same time: each change begins with a lock of the one row with the size, so
/// that the bound on bytes is exact.
package struct Quarantine: Sendable {
    private let pool: PostgresPool
    private let bounds: QuarantineBounds

    /// - Parameter pool: Has the rights of `subledger_receiver`.
    package init(pool: PostgresPool, bounds: QuarantineBounds) {
        self.pool = pool
        self.bounds = bounds
    }

    /// The rows that were deleted because of the bounds.
    package struct Dropped: Sendable, Hashable {
        /// Deleted to stay within the bytes.
        package var forBytes: Int64 = 0
        /// Deleted because of their age.
        package var forAge: Int64 = 0

        package var count: Int64 { forBytes + forAge }
    }

    /// A notification in quarantine.
    package struct Entry: Sendable {
        package let number: Int64
        package let receivedAt: Instant
        /// As stored. It must be verified again: the database does not prove where it comes from.
        package let body: [UInt8]
    }

    /// Stores an event, and deletes the oldest ones that exceed the bounds.
    ///
    /// Durable when this returns. Safe to repeat: an event with the same body is stored once, with the first
    /// `receivedAt`.
    ///
    /// - Parameter receivedAt: Our clock.
    /// - Returns: Whether the event was new, and what was deleted.
    package func keep(
        _ event: some QuarantinedEvent, receivedAt: Instant
    ) async throws(ReadError) -> (isNew: Bool, dropped: Dropped) {
        let results = try await change([
            Step(
                Statements.keep,
                [
                    Parameter(receivedAt), Parameter(event.app), Parameter(event.environment.rawValue),
                    Parameter(event.bodyDigest), Parameter(event.evidence.bytes),
                ]),
            drop(at: receivedAt),
        ])
        return (results[0].affectedRows > 0, try Self.dropped(results[1]))
    }

    /// Deletes events that exceed the bounds, and computes the size again.
    package func prune(at now: Instant) async throws(ReadError) -> Dropped {
        var all = Dropped()
        while true {
            let dropped = try Self.dropped(try await change([Step(Statements.measure), drop(at: now)])[1])
            guard dropped.count > 0 else { return all }
            all.forBytes += dropped.forBytes
            all.forAge += dropped.forAge
        }
    }

    /// The first event of an app after a number; nil if there is none.
    package func next(of app: String, after number: Int64) async throws(ReadError) -> Entry? {
        try await pool.read(
            Statements.next, [Parameter(app), Parameter(number)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard let row = rows.first else { return nil }
            return Entry(
                number: try row.value(at: 0), receivedAt: try row.value(at: 1), body: try row.value(at: 2))
        }
    }

    /// Deletes an event. Safe to repeat.
    package func remove(_ number: Int64) async throws(ReadError) {
        _ = try await change([Step(Statements.remove, [Parameter(number)])])
    }

    /// Runs the steps in one transaction that no other change of the quarantine runs beside.
    private func change(_ steps: [Step]) async throws(ReadError) -> [RowSet] {
        let deadline = ContinuousClock.now + Limits.commitWaitMax
        let results = try await pool.using(within: Limits.commitWaitMax) {
            (connection) async throws(PostgresError) -> [RowSet] in
            try await connection.transaction([Step(Statements.lock)] + steps, deadline: deadline)
        }
        return Array(results.dropFirst())
    }

    private func drop(at now: Instant) -> Step {
        let oldest = now.advanced(byMilliseconds: -Int64(bounds.daysMax) * 86_400_000)
        return Step(
            Statements.drop,
            [Parameter(oldest), Parameter(bounds.bytesMax), Parameter(Limits.quarantineDroppedMax)])
    }

    private static func dropped(_ rows: RowSet) throws(ReadError) -> Dropped {
        do throws(PostgresError) {
            return Dropped(forBytes: try rows[0].value(at: 0), forAge: try rows[0].value(at: 1))
        } catch {
            throw ReadError(error)
        }
    }

    private enum Statements {
        static let lock = Statement(
            "quarantine_lock",
            """
            select bytes
            from subledger.quarantine_size
            for update
            """)

        static let keep = Statement(
            "quarantine_keep",
            """
            with kept as (
              insert into subledger.quarantine (received_at, app, environment, body_sha256, body)
              values ($1, $2, $3, $4, $5)
              on conflict (body_sha256) do nothing
              returning body_bytes
            )
            update subledger.quarantine_size
            set bytes = quarantine_size.bytes + kept.body_bytes
            from kept
            """)

        static let measure = Statement(
            "quarantine_measure",
            """
            update subledger.quarantine_size
            set bytes = (select coalesce(sum(quarantine.body_bytes), 0) from subledger.quarantine)
            """)

        /// Looks at the oldest rows only. `older_bytes` is what deleting all older rows frees.
        static let drop = Statement(
            "quarantine_drop",
            """
            with oldest as (
              select first.number, first.received_at,
                sum(first.body_bytes) over (order by first.number) - first.body_bytes as older_bytes
              from (
                select number, received_at, body_bytes
                from subledger.quarantine
                order by number
                limit $3
              ) as first
            ),
            dropped as (
              delete from subledger.quarantine
              using oldest, subledger.quarantine_size
              where quarantine.number = oldest.number
                and (oldest.received_at < $1 or oldest.older_bytes < quarantine_size.bytes - $2)
              returning quarantine.body_bytes, quarantine.received_at < $1 as is_expired
            ),
            freed as (
              update subledger.quarantine_size
              set bytes = quarantine_size.bytes - (select coalesce(sum(dropped.body_bytes), 0) from dropped)
              where exists (select from dropped)
            )
            select count(*) filter (where not dropped.is_expired), count(*) filter (where dropped.is_expired)
            from dropped
            """)

        static let next = Statement(
            "quarantine_next",
            """
            select number, received_at, body
            from subledger.quarantine
            where app = $1
              and number > $2
            order by number
            limit 1
            """)

        static let remove = Statement(
            "quarantine_remove",
            """
            with removed as (
              delete from subledger.quarantine
              where number = $1
              returning body_bytes
            )
            update subledger.quarantine_size
            set bytes = quarantine_size.bytes - removed.body_bytes
            from removed
            """)
    }
}
