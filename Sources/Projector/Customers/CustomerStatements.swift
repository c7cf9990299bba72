import Postgres

/// SQL for folding customers. As in ``ProjectionStatements``, tables are named without a schema.
enum CustomerStatements {
    static let findIdentities = Statement(
        "customer_find_identities",
        """
        select customer_identity.kind, customer_identity.id, customer_identity.customer_group_id
        from unnest($2::text[], $3::text[]) as input (kind, id)
        cross join lateral (
          select kind, id, customer_group_id
          from customer_identity
          where customer_identity.stream_id = $1
            and customer_identity.kind = input.kind
            and customer_identity.id = input.id
          limit 1
        ) as customer_identity
        """)

    static let writeIdentities = Statement(
        "customer_write_identities",
        """
        insert into customer_identity (stream_id, kind, id, customer_group_id)
        select $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[])
        on conflict (stream_id, kind, id) do update
        set customer_group_id = excluded.customer_group_id
        """)

    static let deleteIdentities = Statement(
        "customer_delete_identities",
        """
        delete from customer_identity
        where ctid = any (array(
          select found.ctid
          from unnest($2::text[], $3::text[]) as old (kind, id)
          cross join lateral (
            select customer_identity.ctid
            from customer_identity
            where customer_identity.stream_id = $1
              and customer_identity.kind = old.kind
              and customer_identity.id = old.id
            limit 1
          ) as found
        ))
        """)

    static let rename = Statement(
        "customer_rename",
        """
        update customer_identity
        set customer_group_id = renamed.new[array_position(renamed.old, customer_identity.customer_group_id)]
        from (
          select array_agg(old) as old, array_agg(new) as new
          from unnest($2::text[], $3::text[]) as input (old, new)
        ) as renamed
        where customer_identity.stream_id = $1
          and customer_identity.customer_group_id = any ($2::text[])
        """)

    static let findSubscriptions = Statement(
        "customer_find_subscriptions",
        """
        select id, customer_group_id
        from customer_identity
        where stream_id = $1
          and customer_group_id = any ($2::text[])
          and kind = 'subscription'
        """)

    static let writeEdges = Statement(
        "customer_write_edges",
        """
        insert into customer_edge (stream_id, original_transaction_id, kind, id, position)
        select $1, unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::bigint[])
        on conflict (stream_id, original_transaction_id, kind, id) do update
        set position = excluded.position
        """)

    static let deleteEdges = Statement(
        "customer_delete_edges",
        """
        delete from customer_edge
        where ctid = any (array(
          select found.ctid
          from unnest($2::text[], $3::text[], $4::text[]) as old (original_transaction_id, kind, id)
          cross join lateral (
            select customer_edge.ctid
            from customer_edge
            where customer_edge.stream_id = $1
              and customer_edge.original_transaction_id = old.original_transaction_id
              and customer_edge.kind = old.kind
              and customer_edge.id = old.id
            limit 1
          ) as found
        ))
        """)

    /// Ends the links of some customers, each at the position of its new statement, and returns the links that it
    /// ended.
    static let replaceLinks = Statement(
        "customer_replace_links",
        """
        update customer_link
        set replaced_position = input.position
        from unnest($2::text[], $3::bigint[]) as input (backend_customer_id, position)
        where customer_link.stream_id = $1
          and customer_link.backend_customer_id = input.backend_customer_id
          and customer_link.replaced_position is null
        returning customer_link.backend_customer_id, customer_link.kind, customer_link.id
        """)

    static let writeLinks = Statement(
        "customer_write_links",
        """
        insert into customer_link (stream_id, backend_customer_id, position, kind, id, replaced_position)
        select $1, unnest($2::text[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[]),
          unnest($6::bigint[])
        """)

    /// All keys of some groups, and whether each is a subscription with rows.
    static let loadGroups = Statement(
        "customer_load_groups",
        """
        select kind, id, customer_group_id,
          kind = 'subscription' and exists (
            select
            from subscription
            where subscription.stream_id = $1
              and subscription.original_transaction_id = customer_identity.id
          )
        from customer_identity
        where stream_id = $1
          and customer_group_id = any ($2::text[])
        """)

    /// The edges of some subscriptions and the current links of some customers.
    static let loadTies = Statement(
        "customer_load_ties",
        """
        select 'subscription', original_transaction_id, kind, id
        from customer_edge
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        union all
        select 'link', backend_customer_id, kind, id
        from customer_link
        where stream_id = $1
          and backend_customer_id = any ($3::text[])
          and replaced_position is null
        """)
}
