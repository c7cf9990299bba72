import Encoding
import Postgres

/// The comparisons of the log with Google Play's list of voided purchases.
package struct VoidLog: Sendable {
    private let pool: PostgresPool

    /// - Parameter pool: Has the rights of `subledger_poller`.
    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// The last comparison of an app.
    package struct Audit: Sendable, Hashable {
        package let app: String
        /// Our clock.
        package let auditedAt: Instant
        /// Voids that Google saw until then have been listed.
        package let seenUntil: Instant
        /// The number of rows in the list.
        package let listed: Int64
        /// The number of rows that were not in the log.
        package let appended: Int64
        /// When a push that proves nothing named a void the last time.
        package let requestedAt: Instant?
        /// When the orders of the app were last compared; nil if they never were.
        package let ordersComparedAt: Instant?

        package init(
            app: String, auditedAt: Instant, seenUntil: Instant, listed: Int64, appended: Int64,
            requestedAt: Instant? = nil, ordersComparedAt: Instant? = nil
        ) {
            self.app = app
            self.auditedAt = auditedAt
            self.seenUntil = seenUntil
            self.listed = listed
            self.appended = appended
            self.requestedAt = requestedAt
            self.ordersComparedAt = ordersComparedAt
        }
    }

    /// Nil if there was none.
    package func lastAudit(of app: String) async throws(ReadError) -> Audit? {
        try await pool.read(Statements.last, [Parameter(app)], within: Limits.readWaitMax) {
            rows throws(PostgresError) in
            guard let row = rows.first else { return nil }
            return Audit(
                app: app, auditedAt: try row.value(at: 0), seenUntil: try row.value(at: 1),
                listed: try row.value(at: 2), appended: try row.value(at: 3), requestedAt: try row.optional(at: 4),
                ordersComparedAt: try row.optional(at: 5))
        }
    }

    /// Records a comparison in place of the last one, without that of the orders.
    package func record(_ audit: Audit) async throws(ReadError) {
        try await pool.run(
            Statements.record,
            [
                Parameter(audit.app), Parameter(audit.auditedAt), Parameter(audit.seenUntil),
                Parameter(audit.listed), Parameter(audit.appended),
            ], within: Limits.commitWaitMax)
    }

    /// Records when the orders of an app were compared. Nothing is recorded before the first comparison with the list.
    package func recordOrders(comparedAt: Instant, of app: String) async throws(ReadError) {
        try await pool.run(
            Statements.recordOrders, [Parameter(app), Parameter(comparedAt)], within: Limits.commitWaitMax)
    }

    /// Whether an event of the row is in the log.
    ///
    /// - Parameter digest: SHA-256 of the body of the event.
    package func isKnown(_ digest: [UInt8], of app: String) async throws(ReadError) -> Bool {
        try await pool.read(
            Statements.find, [Parameter(app), Parameter(digest)], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            return rows.first != nil
        }
    }

    /// Records that an event of the row is in the log. Safe to repeat.
    package func note(_ digest: [UInt8], of app: String, at now: Instant) async throws(ReadError) {
        try await pool.run(
            Statements.note, [Parameter(app), Parameter(digest), Parameter(now)], within: Limits.commitWaitMax)
    }

    private enum Statements {
        static let last = Statement(
            "void_last_audit",
            """
            select audited_at, seen_until, listed, appended, requested_at, orders_compared_at
            from subledger.google_void_audit
            where app = $1
            """)

        static let record = Statement(
            "void_record_audit",
            """
            insert into subledger.google_void_audit (app, audited_at, seen_until, listed, appended)
            values ($1, $2, $3, $4, $5)
            on conflict (app) do update
            set audited_at = excluded.audited_at,
              seen_until = excluded.seen_until,
              listed = excluded.listed,
              appended = excluded.appended
            """)

        static let recordOrders = Statement(
            "void_record_orders",
            """
            update subledger.google_void_audit
            set orders_compared_at = $2
            where app = $1
            """)

        static let find = Statement(
            "void_find",
            """
            select row_sha256
            from subledger.google_void
            where app = $1
              and row_sha256 = $2
            """)

        static let note = Statement(
            "void_note",
            """
            insert into subledger.google_void (app, row_sha256, listed_at)
            values ($1, $2, $3)
            on conflict (app, row_sha256) do nothing
            """)
    }
}
