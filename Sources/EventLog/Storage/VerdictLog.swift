import Encoding
import Postgres

/// Stores the results of revocation checks, and the signed responses that they come from.
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

    /// Stores a signed response. Safe to repeat: it is not stored if a stored one with the same status is valid from now
    /// to the next check, so that checks every hour do not fill the table.
    package func write(_ response: OCSPResponseRow, nextCheckAt: Instant) async throws(PostgresError) {
        _ = try await pool.query(
            Statements.writeResponse,
            [
                Parameter(response.certificateSHA256), Parameter(response.bytes), Parameter(response.status),
                Parameter(response.thisUpdate), Parameter(response.nextUpdate), Parameter(response.answeredAt),
                Parameter(nextCheckAt),
            ],
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

        static let writeResponse = Statement(
            "ocsp_response_write",
            """
            insert into subledger.ocsp_response (
              certificate_sha256, response_sha256, status, this_update, next_update, answered_at, response
            )
            select $1::bytea, sha256($2::bytea), $3::text, $4::timestamptz, $5::timestamptz, $6::timestamptz, $2::bytea
            where not exists (
              select
              from subledger.ocsp_response as stored
              where stored.certificate_sha256 = $1::bytea
                and stored.status = $3::text
                and stored.this_update <= $6::timestamptz
                and stored.next_update >= $7::timestamptz
            )
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

/// A row of `ocsp_response`.
package struct OCSPResponseRow: Sendable {
    /// Of the certificate in DER.
    package let certificateSHA256: [UInt8]
    /// `good` or `revoked`.
    package let status: String
    package let thisUpdate: Instant
    package let nextUpdate: Instant
    package let answeredAt: Instant
    /// The response in DER.
    package let bytes: [UInt8]

    package init(
        certificateSHA256: [UInt8], status: String, thisUpdate: Instant, nextUpdate: Instant, answeredAt: Instant,
        bytes: [UInt8]
    ) {
        self.certificateSHA256 = certificateSHA256
        self.status = status
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
        self.answeredAt = answeredAt
        self.bytes = bytes
    }
}
