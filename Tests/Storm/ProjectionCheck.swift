import AppStore
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Subscriptions
import TestSupport

/// Whether the projections are what the log amounts to.
struct ProjectionCheck {
    let run: StormRun

    private static let catchUpMax = Duration.seconds(30)

    /// Nothing is left to be folded, and nothing is folded that is not there, half a minute after all is healed.
    func waitUntilCaughtUp() async throws {
        do {
            _ = try await eventually(within: Self.catchUpMax, "all events are folded") {
                try await eventsBehind() == 0 ? true : nil
            }
        } catch is NeverHappened {
            let behind = try await eventsBehind()
            run.report.noteSkipped(Int(behind))
            let seconds = Self.catchUpMax.components.seconds
            run.report.problem("\(behind) events lie between log and checkpoints after \(seconds) s")
        }
    }

    private func eventsBehind() async throws -> Int64 {
        let rows = try await run.database.rows(Statements.eventsBehind)
        return try rows[0].value(at: 0)
    }

    /// Folds the log once more, in two ways, and compares line by line. Nobody may be connected any more.
    func rebuild() async throws {
        let copy = "storm_rebuilt"
        try await run.database.server.createDatabase(copy, template: StormDatabase.name)
        let live = try await run.database.rows(Statements.lines)
        try await rebuildProjections(in: copy)
        let rebuilt = try await run.database.rows(Statements.lines, in: copy)
        let differing = Set(try Self.lines(live).symmetricDifference(try Self.lines(rebuilt)).map(\.line))
        let unfolded = try await linesThatMemoryFoldsOtherwise()
        for line in differing.sorted().prefix(10) { run.report.problem("\(line) is otherwise when folded anew") }
        for line in unfolded.sorted().prefix(10) { run.report.problem("\(line) is otherwise when folded in memory") }
        run.report.noteSkipped(differing.union(unfolded).count)
        run.report.say("\(live.count) rows of projections, \(rebuilt.count) rebuilt")
    }

    private func rebuildProjections(in copy: String) async throws {
        let owner = try await run.database.connect(copy)
        try await owner.script(
            """
            truncate subledger.subscription, subledger.transaction, subledger.access_period, subledger.checkpoint
            """, deadline: .now + .seconds(30))
        await owner.close()
        let logger = Logger(label: "storm", factory: { _ in SwiftLogNoOpLogHandler() })
        let configuration = run.database.server.configuration(database: copy)
        let pool = PostgresPool(configuration, limit: 2, logger: logger)
        let projector = Projector(pool: pool, listener: configuration, now: { .latest }, logger: logger)
        if await projector.foldAllStreams() == false { run.report.problem("the log cannot be folded anew") }
        await pool.close()
    }

    private struct Line: Hashable {
        let line: String
        let content: String
    }

    private static func lines(_ rows: RowSet) throws -> Set<Line> {
        Set(try rows.map { Line(line: try $0.value(at: 0), content: try $0.value(at: 1)) })
    }

    /// Compares periods of access, evidence and last events with those that the bodies give without any database.
    private func linesThatMemoryFoldsOtherwise() async throws -> Set<String> {
        var ledger = MemoryLedger()
        var last: [String: Int64] = [:]
        try await LogPages(run.database).forEach { stored in
            let event = try AppleNotification(decoding: stored.body).event(receivedAt: stored.receivedAt)
            let position = ledger.append(event, receivedAt: stored.receivedAt)
            if position != stored.place.position {
                run.report.problem("\(stored.place) repeats what stands at \(position)")
            }
            for id in event.facts.byLine.keys { last["\(event.environment.rawValue) \(id)"] = position }
        }
        var expected = Set(last.map { Line(line: $0.key, content: "last \($0.value)") })
        for (stream, subscription) in ledger.subscriptions(products: [:]) {
            let line = "\(stream.environment.rawValue) \(subscription.originalTransactionId)"
            for period in subscription.access {
                let end = period.end < .latest ? String(period.end.milliseconds) : "for ever"
                expected.insert(
                    Line(
                        line: line,
                        content: "\(period.start.milliseconds) \(end) \(period.cause.rawValue) "
                            + "\(period.transactionId) \(period.position)"))
            }
            for row in subscription.transactions {
                let positions = row.positions.map { String($0) }.joined(separator: ",")
                expected.insert(
                    Line(line: line, content: "evidence \(row.transaction.transactionId) {\(positions)}"))
            }
        }
        let live = try Self.lines(try await run.database.rows(Statements.content))
        return Set(live.symmetricDifference(expected).map(\.line))
    }

    private enum Statements {
        static let eventsBehind = Statement(
            "storm_events_behind",
            """
            select coalesce(sum(abs(stream_head.position - coalesce(checkpoint.position, 0))), 0)::bigint
            from subledger.stream_head
            left join subledger.checkpoint using (stream_id)
            """)

        /// Every row of every projection, by the line that it is about.
        static let lines = Statement(
            "storm_lines",
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
            union all
            select environment || ' ' || original_transaction_id, concat_ws(' ', 'evidence', transaction_id, positions)
            from subledger.transaction
            join subledger.stream using (stream_id)
            union all
            select environment || ' ' || original_transaction_id, concat_ws(' ', 'last', position)
            from subledger.subscription
            join subledger.stream using (stream_id)
            """)
    }
}
