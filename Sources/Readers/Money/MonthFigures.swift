import Encoding
import Postgres
import Subscriptions

/// The figures of a month in a stream, with the position up to which they contain the log.
package struct MonthFigures: Sendable {
    package let stream: StreamKey
    /// The last event of the log.
    package let position: Int64
    /// The value of the hash chain there.
    package let chain: [UInt8]
    /// The last event that the projections contain; what follows is not in the figures.
    package let projected: Int64
    package let figures: [MonthClosing.Figure]

    /// The figures of all streams of an environment, each with its own position.
    ///
    /// - Parameters:
    ///   - month: As `2026-10`.
    ///   - app: Nil for all.
    ///   - connection: Has the rights of a reader.
    package static func all(
        of month: String, app: String?, in environment: Environment, on connection: PostgresConnection
    ) async throws(PostgresError) -> [MonthFigures] {
        let rows = try await connection.query(
            statement, [Parameter(month), Parameter(app), Parameter(environment.rawValue)],
            deadline: .now + Limits.reportWaitMax)
        return try rows.map { (row) throws(PostgresError) -> MonthFigures in
            let text: String = try row.value(at: 4)
            var figures: [MonthClosing.Figure] = []
            do {
                for element in try JSONDocument(Array(text.utf8)).root.elements {
                    figures.append(try MonthClosing.Figure(json: element))
                }
            } catch {
                throw PostgresError(.decoding)
            }
            return MonthFigures(
                stream: StreamKey(app: try row.value(at: 0), environment: environment), position: try row.value(at: 1),
                chain: try row.value(at: 2), projected: try row.value(at: 3), figures: figures)
        }
    }

    private static let statement = Statement(
        "month_figures",
        """
        select stream.app, stream_head.position, stream_head.chain, coalesce(checkpoint.position, 0), (
          select coalesce(jsonb_agg(
            jsonb_strip_nulls(jsonb_build_object(
              'figure', figure, 'productId', product_id, 'country', country, 'currency', currency, 'count', count,
              'amount', amount::text
            ))
            order by figure, product_id, country, currency
          ), '[]')::text
          from analyst.month_figures
          where month_figures.month = ($1 || '-01')::date
            and month_figures.app = stream.app
            and month_figures.environment = stream.environment
        )
        from subledger.stream
        join subledger.stream_head using (stream_id)
        left join subledger.checkpoint using (stream_id)
        where stream.environment = $3
          and ($2::text is null or stream.app = $2)
        order by stream.app
        """)
}
