import Encoding
import EventLog
import Postgres

/// What needs an operator's eye, of all streams.
package struct SystemState: Sendable {
    package let skips: [Skip]
    package let quarantine: [Quarantined]
    package let verdicts: [Verdicts]
    package let audits: [Audit]

    package struct Skip: Sendable {
        package let app: String
        package let environment: String
        package let position: Int64
        package let reason: String
        package let at: Instant
        package let by: String
    }

    /// Notifications of an app that is not configured.
    package struct Quarantined: Sendable {
        package let app: String
        package let environment: String
        package let notifications: Int64
        package let bytes: Int64
        package let oldest: Instant
    }

    /// Certificate chains by their latest verdict.
    package struct Verdicts: Sendable {
        package let verdict: String
        package let chains: Int64
        package let latest: Instant
    }

    /// The latest comparison of a stream with the store's notification history.
    package struct Audit: Sendable {
        package let app: String
        package let environment: String
        package let day: String
        package let made: Int64
        package let arrived: Int64
        package let fetched: Int64
        package let lost: Int64
        package let at: Instant
    }
}

extension ConsoleReader {
    package func system() async throws(ReadError) -> SystemState {
        let skips = try await rows(Self.skips)
        let quarantine = try await rows(Self.quarantine)
        let verdicts = try await rows(Self.latestVerdicts)
        let audits = try await rows(Self.audits)
        return try decoding { () throws(PostgresError) in
            SystemState(
                skips: try Self.all(skips) { row throws(PostgresError) in
                    SystemState.Skip(
                        app: try row.value(at: 0), environment: try row.value(at: 1), position: try row.value(at: 2),
                        reason: try row.value(at: 3), at: try row.value(at: 4), by: try row.value(at: 5))
                },
                quarantine: try Self.all(quarantine) { row throws(PostgresError) in
                    SystemState.Quarantined(
                        app: try row.value(at: 0), environment: try row.value(at: 1),
                        notifications: try row.value(at: 2), bytes: try row.value(at: 3), oldest: try row.value(at: 4))
                },
                verdicts: try Self.all(verdicts) { row throws(PostgresError) in
                    SystemState.Verdicts(
                        verdict: try row.value(at: 0), chains: try row.value(at: 1), latest: try row.value(at: 2))
                },
                audits: try Self.all(audits) { row throws(PostgresError) in
                    SystemState.Audit(
                        app: try row.value(at: 0), environment: try row.value(at: 1), day: try row.value(at: 2),
                        made: try row.value(at: 3), arrived: try row.value(at: 4), fetched: try row.value(at: 5),
                        lost: try row.value(at: 6), at: try row.value(at: 7))
                })
        }
    }

    private static let skips = Statement(
        "console_skips",
        """
        select stream.app, stream.environment, projector_skip.position, projector_skip.reason,
          projector_skip.skipped_at, projector_skip.skipped_by
        from subledger.projector_skip
        join subledger.stream using (stream_id)
        order by projector_skip.skipped_at desc
        limit 100
        """)

    private static let quarantine = Statement(
        "console_quarantine",
        """
        select app, environment, count(*), sum(body_bytes)::bigint, min(received_at)
        from subledger.quarantine
        group by app, environment
        order by app collate "C", environment
        limit 100
        """)

    private static let latestVerdicts = Statement(
        "console_verdicts",
        """
        select verdict, count(*), max(decided_at)
        from (
          select distinct on (chain_id) chain_id, verdict, decided_at
          from subledger.certificate_verdict
          order by chain_id, decided_at desc
        ) as latest
        group by verdict
        order by verdict
        """)

    private static let audits = Statement(
        "console_audits",
        """
        select app, environment, day::text, made, arrived, fetched, lost, audited_at
        from (
          select distinct on (app, environment) app, environment, day, made, arrived, fetched, lost, audited_at
          from analyst.apple_deliveries
          order by app, environment, day desc
        ) as latest
        order by app collate "C", environment
        """)
}

extension ConsoleReader {
    /// The number of subscriptions with access by a product, in all streams of the app; nil if counting takes too long.
    package func linesWithAccess(by product: String, in stream: StreamState) async throws(ReadError) -> Int64? {
        do throws(PostgresError) {
            let rows = try await pool.query(
                Self.lines, [Parameter(stream.app), Parameter(product)], deadline: .now + Limits.figureWaitMax)
            return try rows.first?.value(at: 0)
        } catch {
            if case .deadlineExceeded = error.kind { return nil }
            throw ReadError(error)
        }
    }

    private static let lines = Statement(
        "console_lines_of_product",
        """
        select count(distinct (access_period.stream_id, access_period.original_transaction_id))
        from subledger.stream
        join subledger.access_period using (stream_id)
        where stream.app = $1
          and access_period.product_id = $2
        """)
}
