import Encoding
import EventLog
import Postgres
import Subscriptions

extension CustomerReader {
    /// What ties an id to the customer.
    package struct Tie: Sendable, Hashable {
        package let kind: String
        package let id: String
        /// The subscription, or the other id of a link.
        package let to: String
        package let position: Int64
        /// The app whose event ties them, if it is not the answer's but joined with it.
        package let joinedApp: String?
    }

    /// What ties ids to a customer, with the queries: one for each app that has a part of it.
    package func ties(
        of customer: ExplainedCustomer
    ) async throws(ReadError) -> (ties: [Tie], sql: [ReadableSQL]) {
        try await reading {
            let parts = customer.match.parts
            let customers = Set(parts.map(\.customer)).sorted()
            let (kinds, names) = (customers.map(\.kind.rawValue), customers.map(\.id.text))
            let link = customer.customer.kind == .link ? customer.customer.id.text : ""
            var ties: [Tie] = []
            var sql: [ReadableSQL] = []
            let own = Set(parts.map(\.app)).map { customer.streams[$0] }
            for (joinedApp, streamId) in own.sorted(by: { ($0.joinedApp ?? "") < ($1.joinedApp ?? "") }) {
                let ids = customer.lines.filter { $0.joinedApp == joinedApp }
                    .map(\.subscription.originalTransactionId)
                let rows = try await pool.query(
                    Self.ties,
                    [
                        Parameter(streamId), .array(ids), Parameter(link), .array(kinds), .array(names),
                        Parameter(Limits.tiesShownMax),
                    ],
                    deadline: .now + Limits.readWaitMax)
                for row in rows {
                    ties.append(
                        Tie(
                            kind: try row.value(at: 0), id: try row.value(at: 1), to: try row.value(at: 2),
                            position: try row.value(at: 3), joinedApp: joinedApp))
                }
                sql.append(
                    ReadableSQL(
                        Self.ties,
                        [
                            .number(Int64(streamId)), .texts(ids), .text(link), .texts(kinds), .texts(names),
                            .number(Limits.tiesShownMax),
                        ]))
            }
            return (ties, sql)
        }
    }

    /// Without the account tokens and backend ids of other customers who own or owned the same subscriptions.
    private static let ties = Statement(
        "customer_record_ties",
        """
        select kind, id, tied_to, position
        from (
          select kind, id, original_transaction_id as tied_to, position
          from subledger.customer_edge
          where stream_id = $1
            and original_transaction_id = any ($2::text[])
          union
          select 'link', backend_customer_id, kind || ' ' || id, position
          from subledger.customer_link
          where stream_id = $1
            and backend_customer_id = $3
            and replaced_position is null
          union
          select 'link', backend_customer_id, kind || ' ' || id, position
          from subledger.customer_link
          where stream_id = $1
            and kind = 'subscription'
            and id = any ($2::text[])
            and replaced_position is null
        ) as tie
        where kind not in ('account', 'link')
          or kind = 'link' and id = $3
          or exists (
            select
            from subledger.customer_identity as identity
            join unnest($4::text[], $5::text[]) as customer (kind, id)
              on customer.kind = identity.customer_kind
              and customer.id = identity.customer_id
            where identity.stream_id = $1
              and identity.kind = tie.kind
              and identity.id = tie.id
          )
        order by position, kind, id collate "C", tied_to collate "C"
        limit $6
        """)
}
