import Encoding
import Logging
import Metrics
import Postgres
import Synchronization

/// Makes the partitions of table `event_body` ahead of their months.
///
/// Every process that appends does it: to find that they are there takes less than a millisecond, and two that make one at
/// the same time wait for each other. An append that finds no partition makes it itself, so a missing one delays, and
/// loses nothing.
package final class BodyPartitions: Sendable {
    private let pool: PostgresPool
    private let logger: Logger
    private let now: @Sendable () -> Instant
    private let ahead = Mutex<Int?>(nil)
    private let gauge = Gauge(label: "subledger_body_partitions_ahead")

    /// - Parameter pool: Of the receiver's role.
    package init(pool: PostgresPool, now: @escaping @Sendable () -> Instant, logger: Logger) {
        self.pool = pool
        self.now = now
        self.logger = logger
    }

    /// How many months after this one have a partition; nil before the database has answered for the first time.
    package var monthsAhead: Int? { ahead.withLock { $0 } }

    /// Makes them every ``Limits/partitionsLookTime`` until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await make()
            try? await Task.sleep(for: Limits.partitionsLookTime)
        }
    }

    /// Makes what is missing, and logs a line if less than one month is left, or enough again.
    package func make() async {
        let parameters = [Parameter(now()), Parameter(Int32(Limits.partitionsAhead))]
        var problem: PostgresError?
        var found: Int32?
        do throws(PostgresError) {
            let rows = try await pool.query(Self.make, parameters, deadline: .now + Limits.readWaitMax)
            found = try rows[0].value(at: 0)
        } catch {
            problem = error
            let rows = try? await pool.query(Self.count, parameters, deadline: .now + Limits.readWaitMax)
            found = try? rows?[0].value(at: 0)
        }
        guard let new = found.map({ Int($0) }) else { return }
        gauge.record(new)
        let old = ahead.withLock { ahead in
            defer { ahead = new }
            return ahead
        }
        if new < 1, old ?? 1 >= 1 {
            logger.error(
                "no partition for the bodies of next month",
                metadata: [
                    "db.error": "\(problem?.label ?? "none")", "db.sqlstate": "\(problem?.sqlstate ?? "none")",
                ])
        } else if new >= 1, let old, old < 1 {
            logger.notice("partitions for bodies are made ahead again")
        }
    }

    /// The body of each `event` of a query, as `stored`. `offset 0` keeps PostgreSQL from joining whole tables: it looks each
    /// body up, in the one partition that can have it.
    package static let bodyOfEvent: SQL = """
        lateral (
          select event_body.body
          from subledger.event_body
          where event_body.stream_id = event.stream_id
            and event_body.position = event.position
            and event_body.received_at = event.received_at
          offset 0
        ) as stored
        """

    /// `$1` is the time, `$2` the months after it.
    static let make = Statement(
        "body_partitions_make",
        """
        select subledger.make_body_partitions($1::timestamptz, $2::integer)
        """)

    /// Makes the partition of a month like `2026-03`.
    static let makeOf = Statement(
        "body_partitions_make_of",
        """
        select subledger.make_body_partitions(($1 || '-01')::timestamp at time zone 'UTC', 0)
        """)

    private static let count = Statement(
        "body_partitions_count",
        """
        select subledger.body_months_ahead($1::timestamptz, $2::integer)
        """)
}

extension PostgresError {
    /// Whether the row belongs to no partition: PostgreSQL has the same code for a check that fails, and names that check.
    var isMissingPartition: Bool { sqlstate == "23514" && constraint == nil }
}
