import Encoding
import Postgres
import Subscriptions

/// The links of a customer that are in force by all statements of the log, folded or not.
package struct PlacedLinks: Sendable {
    /// In no particular order. Links that another customer has taken since are among them.
    package let keys: Set<CustomerKey>
    /// The position of the last statement about one of them; 0 if there is none.
    package let position: Int64
}

extension LogReader {
    /// The links of a customer.
    ///
    /// - Parameters:
    ///   - keys: Only these are looked for.
    ///   - isComplete: Whether all links are looked for. Then up to one more than a statement can have is returned, and
    ///     ``PlacedLinks/position`` is that of the last statement about the customer.
    static func links(
        ofCustomer backendCustomerId: String, among keys: [CustomerKey], isComplete: Bool, in stream: StreamKey,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> PlacedLinks {
        let rows = try await connection.query(
            Step(
                LinkStatements.links,
                [
                    Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(backendCustomerId),
                    .array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text)), Parameter(isComplete),
                    Parameter(Int64(LinkStatement.linksMax + 1)),
                ]),
            deadline: .now + Limits.readWaitMax)
        let wanted = Set(keys)
        var positions: [CustomerKey: Int64] = [:]
        var last: Int64 = 0
        for row in rows {
            let position: Int64 = try row.value(at: 0)
            guard let facts = try row.optional(JSONB.self, at: 3) else {
                if let key = try row.customerKey(at: 1) { positions[key] = max(positions[key] ?? 0, position) }
                continue
            }
            guard let document = try? JSONDocument(facts.utf8), let stated = try? Facts(json: document.root).link else {
                throw PostgresError(.decoding)
            }
            if stated.isComplete { positions = positions.filter { $0.key.isGrant } }
            for key in stated.links where isComplete ? !key.isGrant : wanted.contains(key) { positions[key] = position }
            last = position
        }
        return PlacedLinks(
            keys: Set(positions.keys), position: max(positions.values.max() ?? 0, isComplete ? last : 0))
    }

    private enum LinkStatements {
        /// The links that are folded, a row for each, and then the statements that are not.
        static let links = Statement(
            "log_links_of_customer",
            """
            with folded as materialized (
              select stream_head.stream_id, coalesce(checkpoint.position, 0) as position
              from subledger.stream
              join subledger.stream_head using (stream_id)
              left join subledger.checkpoint using (stream_id)
              where stream.app = $1
                and stream.environment = $2
            )
            select position, kind, id, facts
            from (
              select position, kind, id, null::jsonb as facts, false as is_statement
              from (
                select customer_link.position, customer_link.kind, customer_link.id
                from folded
                join subledger.customer_link using (stream_id)
                where customer_link.backend_customer_id = $3
                  and customer_link.replaced_position is null
                  and customer_link.id not like 'grant:%'
                  and $6
                limit $7
              ) as complete
              union all
              select found.position, input.kind, input.id, null, false
              from folded
              cross join unnest($4::text[], $5::text[]) as input (kind, id)
              cross join lateral (
                select customer_link.position
                from subledger.customer_link
                where customer_link.stream_id = folded.stream_id
                  and customer_link.kind = input.kind
                  and customer_link.id = input.id
                  and customer_link.backend_customer_id = $3
                  and customer_link.replaced_position is null
                offset 0
              ) as found
              where not $6
              union all
              select event.position, null, null, event.facts, true
              from folded
              cross join lateral (
                select event.position, event.facts
                from subledger.event
                where event.stream_id = folded.stream_id
                  and event.facts #>> '{link,backendCustomerId}' = $3
                  and event.kind = 'link'
                  and event.position > folded.position
                order by event.position
              ) as event
            ) as stated
            order by is_statement, position
            """)
    }
}
