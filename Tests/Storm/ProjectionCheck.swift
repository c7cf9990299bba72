import AppStore
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Subscriptions
import TestSupport

/// Checks that the projections match the log.
struct ProjectionCheck {
    let run: StormRun

    private static let catchUpMax = Duration.seconds(30)

    /// Checks that all checkpoints equal their stream heads within half a minute after the last fault.
    func waitUntilCaughtUp() async throws {
        do {
            _ = try await eventually(within: Self.catchUpMax, "all events are folded") {
                try await checkpointLag() == 0 ? true : nil
            }
        } catch is NeverHappened {
            let lag = try await checkpointLag()
            run.report.addSkipped(Int(lag))
            let seconds = Self.catchUpMax.components.seconds
            run.report.problem("checkpoints differ from stream heads by \(lag) events after \(seconds) s")
        }
    }

    private func checkpointLag() async throws -> Int64 {
        let rows = try await run.database.rows(Statements.checkpointLag)
        return try rows[0].value(at: 0)
    }

    /// Rebuilds the projections from the log, in PostgreSQL and in memory, and compares them by subscription. The
    /// servers must have disconnected, because the database is cloned.
    func rebuild() async throws {
        let copy = "storm_rebuilt"
        try await run.database.server.createDatabase(copy, template: StormDatabase.name)
        let live = try await run.database.rows(Statements.allRows)
        try await rebuildProjections(in: copy)
        let rebuilt = try await run.database.rows(Statements.allRows, in: copy)
        let differing = Set(
            try Self.projectedRows(live).symmetricDifference(try Self.projectedRows(rebuilt)).map(\.subscription))
        let unfolded = try await differencesFromMemory()
        for id in differing.sorted().prefix(10) { run.report.problem("\(id) differs after a rebuild") }
        for id in unfolded.sorted().prefix(10) { run.report.problem("\(id) differs when folded in memory") }
        run.report.addSkipped(differing.union(unfolded).count)
        run.report.log("\(live.count) rows of projections, \(rebuilt.count) rebuilt")
    }

    private func rebuildProjections(in copy: String) async throws {
        let owner = try await run.database.connect(copy)
        try await owner.script(
            """
            truncate subledger.subscription, subledger.transaction, subledger.access_period, subledger.refunded_period,
              subledger.customer_edge, subledger.customer_link, subledger.ownership, subledger.customer_identity,
              subledger.shared_account_token, subledger.checkpoint
            """, deadline: .now + .seconds(30))
        await owner.close()
        let logger = Logger(label: "storm", factory: { _ in SwiftLogNoOpLogHandler() })
        let configuration = run.database.server.configuration(database: copy)
        let pool = PostgresPool(configuration, limit: 2, logger: logger)
        let projector = Projector(pool: pool, listener: configuration, now: { .latest }, logger: logger)
        if await projector.foldAllStreams() == false { run.report.problem("the rebuild failed") }
        await pool.close()
    }

    private struct ProjectedRow: Hashable {
        let subscription: String
        let content: String
    }

    private static func projectedRows(_ rows: RowSet) throws -> Set<ProjectedRow> {
        Set(try rows.map { ProjectedRow(subscription: try $0.value(at: 0), content: try $0.value(at: 1)) })
    }

    /// Compares access periods, positions and last events with those folded in memory from the bodies.
    ///
    /// - Returns: The subscriptions that differ.
    private func differencesFromMemory() async throws -> Set<String> {
        var ledger = MemoryLedger()
        var last: [String: Int64] = [:]
        try await LogPages(run.database).forEach { stored in
            let event = try AppleNotification(decoding: stored.body).event(receivedAt: stored.receivedAt)
            let position = ledger.append(event, receivedAt: stored.receivedAt)
            if position != stored.place.position {
                run.report.problem("\(stored.place) repeats the event at \(position)")
            }
            for id in event.facts.bySubscription.keys { last["\(event.environment.rawValue) \(id)"] = position }
        }
        var expected = Set(last.map { ProjectedRow(subscription: $0.key, content: "last \($0.value)") })
        for (stream, subscription) in ledger.subscriptions(products: [:]) {
            let id = "\(stream.environment.rawValue) \(subscription.originalTransactionId)"
            for period in subscription.access {
                let end = period.end < .latest ? String(period.end.milliseconds) : "for ever"
                expected.insert(
                    ProjectedRow(
                        subscription: id,
                        content: "\(period.start.milliseconds) \(end) \(period.cause.rawValue) "
                            + "\(period.transactionId) \(period.position)"))
            }
            for row in subscription.transactions {
                let positions = row.positions.map { String($0) }.joined(separator: ",")
                expected.insert(
                    ProjectedRow(subscription: id, content: "positions \(row.transaction.transactionId) {\(positions)}")
                )
            }
        }
        let live = try Self.projectedRows(try await run.database.rows(Statements.content, [Parameter(StormLoad.app)]))
        return Set(live.symmetricDifference(expected).map(\.subscription))
    }

    private enum Statements {
        static let checkpointLag = Statement(
            "storm_checkpoint_lag",
            """
            select coalesce(sum(abs(stream_head.position - coalesce(checkpoint.position, 0))), 0)::bigint
            from subledger.stream_head
            left join subledger.checkpoint using (stream_id)
            """)

        /// Every row of the subscription projections, with its subscription.
        static let allRows = Statement(
            "storm_rows",
            """
            select environment || ' ' || original_transaction_id, md5(content)
            from (
              select stream_id, original_transaction_id, subscription::text
              from subledger.subscription
              union all
              select stream_id, original_transaction_id, transaction::text
              from subledger.transaction
              union all
              select stream_id, original_transaction_id, access_period::text
              from subledger.access_period
              union all
              select stream_id, original_transaction_id, refunded_period::text
              from subledger.refunded_period
            ) as row (stream_id, original_transaction_id, content)
            join subledger.stream using (stream_id)
            """)

        static let content = Statement(
            "storm_content",
            """
            select environment || ' ' || original_transaction_id,
              concat_ws(
                ' ', (extract(epoch from starts_at) * 1000)::bigint,
                case
                  when ends_at = 'infinity' then 'for ever'
                  else (extract(epoch from ends_at) * 1000)::bigint::text
                end,
                cause, transaction_id, position)
            from subledger.access_period
            join subledger.stream using (stream_id)
            where app = $1
            union all
            select environment || ' ' || original_transaction_id, concat_ws(' ', 'positions', transaction_id, positions)
            from subledger.transaction
            join subledger.stream using (stream_id)
            where app = $1
            union all
            select environment || ' ' || original_transaction_id, concat_ws(' ', 'last', position)
            from subledger.subscription
            join subledger.stream using (stream_id)
            where app = $1
            """)
    }
}
