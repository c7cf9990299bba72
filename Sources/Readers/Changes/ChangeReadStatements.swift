import Postgres

/// SQL for reading changes. Every statement is limited to one stream.
enum ChangeReadStatements {
    /// The end of the changes of a stream. No row if there is no such stream.
    static let end = Statement(
        "change_end",
        """
        select stream.stream_id, coalesce(change_head.number, 0), change_head.published_until, clock_timestamp()
        from subledger.stream
        left join subledger.change_head using (stream_id)
        where stream.app = $1
          and stream.environment = $2
        """)

    static let page = Statement(
        "change_page",
        """
        select number, published_at, kind, original_transaction_id, at, cause, position, product_id, until, auto_renew,
          next_product_id
        from subledger.change
        where stream_id = $1
          and number > $2
          and number <= $3
        order by number
        limit $4
        """)

    /// All ids of the customers of some subscriptions.
    static let keysOfSubscriptions = Statement(
        "change_keys_of_subscriptions",
        """
        select subscription.id, member.kind, member.id
        from subledger.customer_identity as subscription
        join subledger.customer_identity as member
          on member.stream_id = subscription.stream_id
          and member.customer_group_id = subscription.customer_group_id
        where subscription.stream_id = $1
          and subscription.kind = 'subscription'
          and subscription.id = any ($2::text[])
        """)

    static let entitlementsOfSubscriptions = Statement(
        "change_entitlements_of_subscriptions",
        """
        select subscription.id, given.entitlement, given.until, given.product_ids, given.original_transaction_ids,
          given.positions
        from subledger.customer_identity as subscription
        cross join lateral subledger.customer_entitlement($1, $3, subscription.customer_group_id, $4) as given
        where subscription.stream_id = $1
          and subscription.kind = 'subscription'
          and subscription.id = any ($2::text[])
        order by subscription.id, given.entitlement collate "C"
        """)
}
