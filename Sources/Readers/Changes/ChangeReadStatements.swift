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

    /// The customer of each of some subscriptions: a row with nulls. And for each of these customers, its first ids of
    /// each kind, in the order of ``CustomerKey``, and whether it has more of that kind. A customer's ids are not
    /// repeated for each of its subscriptions, which may be many.
    static let keysOfSubscriptions = Statement(
        "change_keys_of_subscriptions",
        """
        with named as (
          select id, customer_group_id
          from subledger.customer_identity
          where stream_id = $1
            and kind = 'subscription'
            and id = any ($2::text[])
        )
        select customer_group_id, null::text, id, null::boolean
        from named
        union all
        select customer_group_id, kind, id, has_more
        from (
          select member.customer_group_id, member.kind, member.id,
            row_number() over (
              partition by member.customer_group_id, member.kind
              order by member.id collate "C"
            ) as place,
            count(*) over (partition by member.customer_group_id, member.kind) > $3 as has_more
          from (
            select distinct customer_group_id
            from named
          ) as customer
          join subledger.customer_identity as member
            on member.stream_id = $1
            and member.customer_group_id = customer.customer_group_id
        ) as numbered
        where place <= $3
        """)

    /// The customer of each of some subscriptions: a row with nulls. And for each of these customers, a row for each
    /// period and each of its entitlements. The caller computes the entitlements, see ``CustomerReadStatements/customerGrants``.
    static let grantsOfSubscriptions = Statement(
        "change_grants_of_subscriptions",
        """
        with named as (
          select id, customer_group_id
          from subledger.customer_identity
          where stream_id = $1
            and kind = 'subscription'
            and id = any ($2::text[])
        )
        select customer_group_id, id, null::timestamptz, null::timestamptz, null::bigint, null::text, null::text
        from named
        union all
        select customer.customer_group_id, subscription.id, access_period.starts_at, access_period.ends_at,
          access_period.position, access_period.product_id, product_entitlement.entitlement
        from (
          select distinct customer_group_id
          from named
        ) as customer
        join subledger.customer_identity as subscription
          on subscription.stream_id = $1
          and subscription.customer_group_id = customer.customer_group_id
          and subscription.kind = 'subscription'
        join subledger.access_period
          on access_period.stream_id = $1
          and access_period.original_transaction_id = subscription.id
          and access_period.product_id is not null
        left join subledger.product_entitlement
          on product_entitlement.app = $3
          and product_entitlement.product_id = access_period.product_id
        """)
}
