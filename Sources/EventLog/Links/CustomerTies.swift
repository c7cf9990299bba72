import Postgres

/// SQL that follows the ties between the ids of customers.
package enum CustomerTies {
    /// One step of a recursion over `reached (kind, id)`: the keys of a reached subscription, and the subscriptions of a
    /// reached key. `$1` is the stream. A shared account token leads to no subscription: it may have a million.
    ///
    /// - Parameters:
    ///   - schema: The schema of the tables, with a dot; empty to take the tables from the search path.
    ///   - kinds: A further condition on the keys of a subscription.
    package static func step(in schema: SQL, where kinds: SQL) -> SQL {
        """
        select customer_edge.kind, customer_edge.id
        from \(schema)customer_edge
        where customer_edge.stream_id = $1
          and customer_edge.original_transaction_id = reached.id
          and reached.kind = 'subscription'
          and \(kinds)
        union all
        select 'subscription', customer_edge.original_transaction_id
        from \(schema)customer_edge
        where customer_edge.stream_id = $1
          and customer_edge.kind = reached.kind
          and customer_edge.id = reached.id
          and (
            reached.kind <> 'account'
            or not exists (
              select
              from \(schema)shared_account_token
              where shared_account_token.stream_id = $1
                and shared_account_token.account_token = reached.id
            )
          )
        """
    }
}
