import Encoding
import Postgres

/// Keeps what was learnt about the revocation of certificates.
package struct VerdictLog: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// - Parameters:
    ///   - chain: 32 bytes, as in ``SigningChain/id``.
    ///   - verdict: `good`, `revoked` or `unknown`.
    package func write(chain: [UInt8], verdict: String, decidedAt: Instant) async throws(PostgresError) {
        _ = try await pool.query(
            Statements.write, [Parameter(chain), Parameter(decidedAt), Parameter(verdict)],
            deadline: .now + Limits.readWaitMax)
    }

    /// The chains that are revoked by the last answer about them, with its time.
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

        /// That nobody answered takes nothing back.
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
