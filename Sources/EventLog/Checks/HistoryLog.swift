import Encoding
import Postgres
import Subscriptions

/// How far the transaction histories of the App Store Server API have been read.
package struct HistoryLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// What is known of a subscription's history.
    package struct Place: Sendable, Hashable {
        /// Where to continue when asking by this subscription; nil to begin with the first page.
        package let revision: String?
        /// Since when all transactions are in the log; nil if no history was read to its end.
        package let coveredSince: Instant?
    }

    package func place(
        of originalTransactionId: String, in stream: StreamKey
    ) async throws(ReadError) -> Place {
        try await pool.read(
            Statements.place,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(originalTransactionId)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            guard let row = rows.first else { return Place(revision: nil, coveredSince: nil) }
            return Place(revision: try row.optional(at: 0), coveredSince: try row.optional(at: 1))
        }
    }

    /// Records the place to continue from when asking by a subscription; nil to begin with the first page.
    ///
    /// Safe to repeat. Does nothing if the log has no events of the stream yet.
    package func record(
        revision: String?, of originalTransactionId: String, in stream: StreamKey
    ) async throws(ReadError) {
        try await write(Statements.record, stream, [.array([originalTransactionId]), Parameter(revision)])
    }

    /// Records that the log has all transactions of some subscriptions, each since an instant. An earlier instant that is
    /// known remains.
    package func cover(_ subscriptions: [String: Instant], in stream: StreamKey) async throws(ReadError) {
        let covered = subscriptions.sorted { $0.key < $1.key }
        try await write(Statements.cover, stream, [.array(covered.map(\.key)), .array(covered.map(\.value))])
    }

    /// Subscriptions of a stream whose history was not read to its end, in order of their ids.
    ///
    /// - Parameter id: Only later ones; nil to begin.
    package func uncovered(
        in stream: StreamKey, after id: String?, limit: Int64
    ) async throws(ReadError) -> [String] {
        try await pool.read(
            Statements.uncovered,
            [Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(id ?? ""), Parameter(limit)],
            within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            try rows.map { row throws(PostgresError) in try row.value(String.self, at: 0) }
        }
    }

    private func write(
        _ statement: Statement, _ stream: StreamKey, _ parameters: [Parameter]
    ) async throws(ReadError) {
        try await pool.run(
            statement, [Parameter(stream.app), Parameter(stream.environment.rawValue)] + parameters,
            within: Limits.commitWaitMax)
    }

    private enum Statements {
        static let place = Statement(
            "history_place",
            """
            select store_history.revision, store_history.covered_since
            from subledger.stream
            join subledger.store_history using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and store_history.original_transaction_id = $3
            """)

        static let uncovered = Statement(
            "history_uncovered",
            """
            select subscription.original_transaction_id
            from subledger.stream
            join subledger.subscription using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and subscription.original_transaction_id > $3
              and not exists (
                select
                from subledger.store_history
                where store_history.stream_id = subscription.stream_id
                  and store_history.original_transaction_id = subscription.original_transaction_id
                  and store_history.covered_since is not null
                offset 0
              )
            order by subscription.original_transaction_id
            limit $4
            """)

        static let record = Statement(
            "history_record",
            """
            insert into subledger.store_history (stream_id, original_transaction_id, revision)
            select stream.stream_id, input.id, $4
            from subledger.stream
            cross join unnest($3::text[]) as input (id)
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id, original_transaction_id) do update set revision = excluded.revision
            """)

        static let cover = Statement(
            "history_cover",
            """
            insert into subledger.store_history (stream_id, original_transaction_id, covered_since)
            select stream.stream_id, input.id, input.since
            from subledger.stream
            cross join unnest($3::text[], $4::timestamptz[]) as input (id, since)
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id, original_transaction_id)
            do update set covered_since = least(store_history.covered_since, excluded.covered_since)
            """)
    }
}
