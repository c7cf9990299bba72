import Encoding
import Postgres

/// Stores the results of revocation checks.
package struct VerdictLog: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Stores a verdict. Safe to repeat: a verdict with the same chain and time is stored once.
    ///
    /// - Parameters:
    ///   - chain: 32 bytes, as in ``SigningChain/id``.
    ///   - verdict: `good`, `revoked` or `unknown`.
    package func write(chain: [UInt8], verdict: String, decidedAt: Instant) async throws(PostgresError) {
        _ = try await pool.query(
            Statements.write, [Parameter(chain), Parameter(decidedAt), Parameter(verdict)],
            deadline: .now + Limits.readWaitMax)
    }

    /// The chains whose last known verdict is `revoked`, with the time of that verdict.
    package func revoked() async throws(PostgresError) -> [(chain: [UInt8], decidedAt: Instant)] {
        let rows = try await pool.query(Statements.revoked, [], deadline: .now + Limits.readWaitMax)
        var result: [(chain: [UInt8], decidedAt: Instant)] = []
        for index in 0..<rows.count {
            result.append((try rows[index].value(at: 0), try rows[index].value(at: 1)))
        }
        return result
    }

    private enum Statements {
        static let write = Statement(
            "verdict_write",
            """
            insert into subledger.certificate_verdict (chain_id, decided_at, verdict)
            values ($1, $2, $3)
            on conflict do nothing
            """)

        /// `unknown` does not replace an earlier verdict.
        static let revoked = Statement(
            "verdict_revoked",
            """
            select chain_id, decided_at
            from (
              select distinct on (chain_id) chain_id, decided_at, verdict
              from subledger.certificate_verdict
              where verdict in ('good', 'revoked')
              order by chain_id, decided_at desc
            ) as last
            where verdict = 'revoked'
            """)
    }
}
