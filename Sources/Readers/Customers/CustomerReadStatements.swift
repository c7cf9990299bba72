import EventLog
import Postgres

/// SQL for reading customers.
enum CustomerReadStatements {
    /// For each question, the customers with the id, one for each app and kind that matches: a row for each period and
    /// each of its entitlements, with nulls if there are none. The caller computes the entitlements: the database would take several times as long, and all
    /// readers share it. `customer_entitlement` gives the same result in SQL.
    static let customerGrants = Statement(
        "customer_grants",
        """
        select input.ordinal, stream.app, known.kind, known.customer_group_id, subscription.id, access_period.starts_at,
          access_period.ends_at, access_period.position, access_period.product_id, product_entitlement.entitlement
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
          with ordinality as input (app, environment, id, lower_id, kind, ordinal)
        join subledger.customer_identity as known
          on known.id = any (array[input.id, input.lower_id])
          and known.id = case when known.kind = 'account' then input.lower_id else input.id end
          and known.kind = coalesce(input.kind, known.kind)
        join subledger.stream
          on stream.stream_id = known.stream_id
          and stream.environment = input.environment
          and stream.app = coalesce(input.app, stream.app)
        left join subledger.customer_identity as subscription
          on subscription.stream_id = known.stream_id
          and subscription.customer_group_id = known.customer_group_id
          and subscription.kind = 'subscription'
        left join subledger.access_period
          on access_period.stream_id = subscription.stream_id
          and access_period.original_transaction_id = subscription.id
          and access_period.product_id is not null
        left join subledger.product_entitlement
          on product_entitlement.app = stream.app
          and product_entitlement.product_id = access_period.product_id
        """)

    /// The customers with an id, one for each app and kind that matches.
    static let groups = Statement(
        "customer_groups",
        """
        select known.stream_id, stream.app, known.kind, known.customer_group_id, product_catalog.products
        from subledger.customer_identity as known
        join subledger.stream using (stream_id)
        left join subledger.product_catalog using (app)
        where known.id in ($3, $4)
          and known.id = case when known.kind = 'account' then $4 else $3 end
          and known.kind = coalesce($5, known.kind)
          and stream.environment = $1
          and stream.app = coalesce($2, stream.app)
        """)

    /// The ids of a customer after one of them, in the order of ``CustomerKey``.
    static let ids = Statement(
        "customer_ids",
        """
        select kind, id
        from subledger.customer_identity
        where stream_id = $1
          and customer_group_id = $2
          and (kind collate "C", id collate "C") > ($3, $4)
        order by kind collate "C", id collate "C"
        limit $5
        """)

    /// The subscriptions of a customer.
    static let subscriptions = Statement(
        "customer_subscriptions",
        """
        select subscription.original_transaction_id, subscription.facts
        from subledger.customer_identity
        join subledger.subscription
          on subscription.stream_id = customer_identity.stream_id
          and subscription.original_transaction_id = customer_identity.id
        where customer_identity.stream_id = $1
          and customer_identity.customer_group_id = $2
          and customer_identity.kind = 'subscription'
        order by subscription.original_transaction_id collate "C"
        """)

    /// The streams in which an id is or was known.
    static let streams = Statement(
        "customer_streams",
        """
        select stream.stream_id, stream.app, product_catalog.products
        from subledger.stream
        left join subledger.product_catalog using (app)
        where stream.environment = $1
          and stream.app = coalesce($2, stream.app)
          and (
            exists (
              select
              from subledger.customer_identity
              where customer_identity.stream_id = stream.stream_id
                and customer_identity.id in ($3, $4)
            )
            or exists (
              select
              from subledger.customer_link
              where customer_link.stream_id = stream.stream_id
                and customer_link.backend_customer_id = $3
            )
          )
        order by stream.app
        """)

    /// All keys that were ever tied to one of the given keys, directly or through other keys, with the facts of those
    /// that are subscriptions.
    static let everTied = Statement(
        "customer_ever_tied",
        """
        with recursive reached (kind, id) as (
          select kind, id
          from unnest($2::text[], $3::text[]) as input (kind, id)
          union
          select tied.kind, tied.id
          from reached
          cross join lateral (
            select member.kind, member.id
            from subledger.customer_identity as own
            join subledger.customer_identity as member
              on member.stream_id = own.stream_id
              and member.customer_group_id = own.customer_group_id
            where own.stream_id = $1
              and own.kind = reached.kind
              and own.id = reached.id
            union all
            select customer_link.kind, customer_link.id
            from subledger.customer_link
            where customer_link.stream_id = $1
              and customer_link.backend_customer_id = reached.id
              and reached.kind = 'link'
            union all
            select 'link', customer_link.backend_customer_id
            from subledger.customer_link
            where customer_link.stream_id = $1
              and customer_link.kind = reached.kind
              and customer_link.id = reached.id
          ) as tied
        )
        select reached.kind, reached.id, subscription.facts
        from reached
        left join subledger.subscription
          on reached.kind = 'subscription'
          and subscription.stream_id = $1
          and subscription.original_transaction_id = reached.id
        """)

    /// The links of some customers that were in force by the events received up to an instant.
    static let linksKnownAt = Statement(
        "customer_links_known_at",
        """
        select customer_link.backend_customer_id, customer_link.kind, customer_link.id
        from subledger.customer_link
        join subledger.event using (stream_id, position)
        left join subledger.event as replacing
          on replacing.stream_id = customer_link.stream_id
          and replacing.position = customer_link.replaced_position
        where customer_link.stream_id = $1
          and customer_link.backend_customer_id = any ($2::text[])
          and event.received_at <= $3
          and (replacing.position is null or replacing.received_at > $3)
        """)

    /// Some events, if they were received up to an instant.
    static let eventsKnownAt = Statement(
        "customer_events_known_at",
        """
        \(FoldableEvent.query)
          and event.position = any ($2::bigint[])
          and event.received_at <= $3
        order by event.position
        """)

    static let mapping = Statement(
        "customer_mapping",
        """
        select product_id, entitlement
        from subledger.product_entitlement
        where app = $1
        """)
}
