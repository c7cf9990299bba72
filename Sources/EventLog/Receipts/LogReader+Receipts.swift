import Postgres
import Subscriptions

extension LogReader {
    /// Those of the positions whose events contain a receipt, with which Apple can be asked later.
    ///
    /// - Throws: ``ReadError``.
    package func positionsWithReceipt(
        among positions: [Int64], in stream: StreamKey
    ) async throws(ReadError) -> Set<Int64> {
        do throws(PostgresError) {
            let rows = try await pool.query(
                ReceiptStatements.positionsWithReceipt,
                [Parameter(stream.app), Parameter(stream.environment.rawValue), .array(positions)],
                deadline: .now + Limits.readWaitMax)
            var found: Set<Int64> = []
            for row in rows { found.insert(try row.value(at: 0)) }
            return found
        } catch {
            throw ReadError(error)
        }
    }

    private enum ReceiptStatements {
        /// `offset 0` makes the planner look each position up.
        static let positionsWithReceipt = Statement(
            "receipt_positions",
            """
            select input.position
            from subledger.stream
            cross join unnest($3::bigint[]) as input (position)
            cross join lateral (
              select source
              from subledger.event
              where event.stream_id = stream.stream_id
                and event.position = input.position
              offset 0
            ) as found
            where stream.app = $1
              and stream.environment = $2
              and found.source in ('apple-v1', 'apple-receipt')
            """)
    }
}
