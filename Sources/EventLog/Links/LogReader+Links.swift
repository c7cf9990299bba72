import Encoding
import Postgres
import Subscriptions

/// The links of a customer that are in force by all statements of the log, folded or not. Those of seats are not among them.
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
        let named = isComplete ? [] : keys
        let rows = try await connection.query(
            Step(
                LinkStatements.links,
                [
                    Parameter(stream.app), Parameter(stream.environment.rawValue), Parameter(backendCustomerId),
                    .array(named.map(\.kind.rawValue)), .array(named.map(\.id.text)),
                    Parameter(Int64(isComplete ? LinkStatement.linksMax + 1 : 0)),
                ]),
            deadline: .now + Limits.readWaitMax)
        let wanted = Set(keys)
        var positions: [CustomerKey: Int64] = [:]
        var last: Int64 = 0
        for row in rows {
            let position: Int64 = try row.value(at: 0)
            guard let facts = try row.optional(JSONB.self, at: 3) else {
                if let key = try row.customerKey(at: 1), isComplete || wanted.contains(key) {
                    positions[key] = max(positions[key] ?? 0, position)
                }
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

    /// Which of some links the log may have: those of which it has one with the key and the customer, and those of customers
    /// with a statement that is not folded.
    ///
    /// - Returns: Their places among `links`.
    func seen(
        _ links: [(key: CustomerKey, backendCustomerId: String)], in stream: StreamKey
    ) async throws(ReadError) -> Set<Int> {
        try await pool.read(
            LinkStatements.seen,
            [
                Parameter(stream.app), Parameter(stream.environment.rawValue), .array(links.map(\.backendCustomerId)),
                .array(links.map(\.key.kind.rawValue)), .array(links.map(\.key.id.text)),
            ], within: Limits.readWaitMax
        ) { rows throws(PostgresError) in
            var seen: Set<Int> = []
            for row in rows { seen.insert(Int(try row.value(Int64.self, at: 0)) - 1) }
            return seen
        }
    }

    private enum LinkStatements {
        static let seen = Statement(
            "log_links_seen",
            """
            select input.place
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join unnest($3::text[], $4::text[], $5::text[]) with ordinality as input (customer, kind, id, place)
            where stream.app = $1
              and stream.environment = $2
              and (
                exists (
                  select
                  from subledger.customer_link
                  where customer_link.stream_id = stream_head.stream_id
                    and customer_link.kind = input.kind
                    and customer_link.id = input.id
                    and customer_link.backend_customer_id = input.customer
                )
                or exists (
                  select
                  from subledger.event
                  where event.stream_id = stream_head.stream_id
                    and event.facts #>> '{link,backendCustomerId}' = input.customer
                    and event.kind = 'link'
                    and event.position > coalesce((
                      select checkpoint.position
                      from subledger.checkpoint
                      where checkpoint.stream_id = stream_head.stream_id
                    ), 0)
                )
              )
            """)

        /// The links that are folded, a row for each, and then the statements that are not. Of the folded ones, a number of
        /// all, and those on any of some ids: several nodes plan this statement only if no part of it is constant.
        static let links = Statement(
            "log_links_of_customer",
            """
            select stated.position, stated.kind, stated.id, stated.facts
            from subledger.stream
            join subledger.stream_head using (stream_id)
            cross join lateral (
              (
                select customer_link.position, customer_link.kind, customer_link.id, null::jsonb as facts,
                  false as is_statement
                from subledger.customer_link
                where customer_link.stream_id = stream_head.stream_id
                  and customer_link.backend_customer_id = $3
                  and customer_link.replaced_position is null
                  and customer_link.id not like 'grant:%'
                  and customer_link.basis <> 'seat'
                limit $6
              )
              union all
              select customer_link.position, customer_link.kind, customer_link.id, null, false
              from subledger.customer_link
              where customer_link.stream_id = stream_head.stream_id
                and customer_link.kind = any ($4::text[])
                and customer_link.id = any ($5::text[])
                and customer_link.backend_customer_id = $3
                and customer_link.replaced_position is null
                and customer_link.basis <> 'seat'
              union all
              select event.position, null, null, event.facts, true
              from subledger.event
              where event.stream_id = stream_head.stream_id
                and event.facts #>> '{link,backendCustomerId}' = $3
                and event.facts #>> '{link,basis}' is distinct from 'seat'
                and event.kind = 'link'
                and event.position > coalesce((
                  select checkpoint.position
                  from subledger.checkpoint
                  where checkpoint.stream_id = stream_head.stream_id
                ), 0)
            ) as stated
            where stream.app = $1
              and stream.environment = $2
            order by stated.is_statement, stated.position
            """)
    }
}
