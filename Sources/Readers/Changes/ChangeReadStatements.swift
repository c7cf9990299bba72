import Postgres

/// SQL for reading changes. Every statement is limited to one stream, except ``parts``.
enum ChangeReadStatements {
    /// The end of the changes of a stream. No row if there is no such stream.
    static let end = Statement(
        "change_end",
        """
        select stream.stream_id, coalesce(change_head.number, 0), change_head.published_until, clock_timestamp(),
          app_join.joined_app is not null
        from subledger.stream
        left join subledger.app_join using (app)
        left join subledger.change_head using (stream_id)
        where stream.app = $1
          and stream.environment = $2
        """)

    /// The changes from a number on, each with the check value of ``ReadPlace``.
    static let page = Statement(
        "change_page",
        """
        select number, published_at, kind, original_transaction_id, at, cause, position, product_id, until, auto_renew,
          next_product_id, customer_kind, customer_id, seats_before, seats,
          left(
            encode(
              sha256(
                convert_to(
                  concat_ws(
                    ' ', extract(epoch from published_at), kind, original_transaction_id, extract(epoch from at), cause,
                    position, product_id, customer_kind, customer_id
                  ),
                  'UTF8'
                )
              ),
              'hex'
            ),
            16
          ), reason
        from subledger.change
        where stream_id = $1
          and number >= $2
          and number <= $3
        order by number
        limit $4
        """)

    /// The customer to which each of some subscriptions leads at an instant: at most one. Each is looked up by itself, so
    /// that a table without statistics is not compared with the whole array row by row.
    static let customersOfSubscriptions = Statement(
        "change_customers_of_subscriptions",
        """
        select wanted.id, owner.customer_kind, owner.customer_id
        from unnest($2::text[]) as wanted (id)
        cross join lateral (
          select customer_kind, customer_id
          from subledger.customer_identity
          where stream_id = $1
            and kind = 'subscription'
            and id = wanted.id
            and starts_at <= $3
            and ends_at > $3
          limit 1
        ) as owner
        """)

    /// The parts of some customers of an app that is joined with another one.
    static let parts = Statement(
        "change_parts",
        """
        select customer.kind, customer.id, part.stream_id, part.app, part.customer_kind, part.customer_id
        from unnest($2::text[], $3::text[]) as customer (kind, id)
        cross join lateral subledger.joined_customer($1, customer.kind, customer.id, $4) as part
        """)

    /// The first ids of each kind of some customers, in the order of ``CustomerKey``, and whether the customer has more
    /// of that kind. See ``CustomerReadStatements/ids``.
    static let keysOfCustomers = Statement(
        "change_keys_of_customers",
        """
        select customer_kind, customer_id, kind, id, has_more
        from (
          select customer.kind as customer_kind, customer.id as customer_id, own.kind, own.id,
            row_number() over (
              partition by customer.kind, customer.id, own.kind
              order by own.id collate "C"
            ) as place,
            count(*) over (partition by customer.kind, customer.id, own.kind) > $4 as has_more
          from unnest($2::text[], $3::text[]) as customer (kind, id)
          cross join lateral (
            select kind, id
            from subledger.customer_identity
            where stream_id = $1
              and customer_kind = customer.kind
              and customer_id = customer.id
            union
            select 'subscription', original_transaction_id
            from subledger.ownership
            where stream_id = $1
              and customer_kind = customer.kind
              and customer_id = customer.id
              and reason <> 'seat'
          ) as own
        ) as numbered
        where place <= $4
        """)

    /// For each of some customers, a row for each period, cut to the interval in which it owns the subscription, and
    /// each of its entitlements. The caller computes the entitlements, see ``CustomerReadStatements/customerGrants``.
    static let grantsOfCustomers = Statement(
        "change_grants_of_customers",
        """
        select customer.kind, customer.id, ownership.original_transaction_id,
          greatest(access_period.starts_at, ownership.starts_at), least(access_period.ends_at, ownership.ends_at),
          access_period.position, access_period.product_id, product_entitlement.entitlement
        from unnest($2::text[], $3::text[]) as customer (kind, id)
        join subledger.ownership
          on ownership.stream_id = $1
          and ownership.customer_kind = customer.kind
          and ownership.customer_id = customer.id
        join subledger.access_period
          on access_period.stream_id = $1
          and access_period.original_transaction_id = ownership.original_transaction_id
          and tstzrange(access_period.starts_at, access_period.ends_at)
            && tstzrange(ownership.starts_at, ownership.ends_at)
          and access_period.product_id is not null
        left join subledger.product_entitlement
          on product_entitlement.app = $4
          and product_entitlement.product_id = access_period.product_id
        """)
}
