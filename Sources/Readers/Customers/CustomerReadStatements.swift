import EventLog
import Postgres

/// SQL for reading customers.
enum CustomerReadStatements {
    /// For each question, the customers to which the id leads at the instant, one for each app and kind that matches: a
    /// row for each period, cut to the interval in which the customer owns the subscription, and each of its
    /// entitlements, with nulls if there are none. Of a customer in joined apps, the periods in both. If several ids lead
    /// to one customer of a stream, one of them has its periods and the others a row with nulls: only that one has an
    /// `owner_id`, with which nothing is read for the others, however the planner joins. The caller computes the
    /// entitlements: the database would take several times as long, and all readers share it.
    ///
    /// Periods and intervals are compared as ranges, since no index fits those: by their ends, a planner without
    /// statistics reads all periods of the stream once for each subscription.
    /// `customer_entitlement` gives the same result in SQL.
    static let customerGrants = grants("customer_grants", parts: parts(at: "input.at"))

    /// ``customerGrants`` in a distributed database, in which no apps are joined.
    static let customerGrantsOnNodes = grants("customer_grants_on_nodes", parts: wholeCustomer)

    private static func grants(_ name: SQL, parts: SQL) -> Statement {
        Statement(
            name,
            """
            select part.ordinal, part.known_by, part.kind, part.joined_kind, part.joined_id,
              ownership.original_transaction_id, greatest(access_period.starts_at, ownership.starts_at),
              least(access_period.ends_at, ownership.ends_at), access_period.position, access_period.product_id,
              product_entitlement.entitlement, part.joined_app, part.app, part.stream_id, part.customer_kind,
              part.customer_id
            from (
              select input.ordinal, stream.app as known_by, known.kind, stream.joined_app, part.*,
                case row_number() over (partition by part.stream_id, part.customer_kind, part.customer_id)
                  when 1 then part.customer_id
                end as owner_id
              from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
                with ordinality as input (app, environment, id, lower_id, kind, at, ordinal)
              join subledger.customer_identity as known
                on known.id = any (array[input.id, input.lower_id])
                and known.id = case when known.kind = 'account' then input.lower_id else input.id end
                and known.kind = coalesce(input.kind, known.kind)
                and known.starts_at <= input.at
                and known.ends_at > input.at
              cross join lateral (
                \(stream)
              ) as stream
              cross join lateral (
                \(parts)
              ) as part
              where stream.environment = input.environment
                and (input.app is null or input.app in (stream.app, stream.joined_app))
            ) as part
            left join subledger.ownership
              on ownership.stream_id = part.stream_id
              and ownership.customer_kind = part.customer_kind
              and ownership.customer_id = part.owner_id
            left join subledger.access_period
              on access_period.stream_id = ownership.stream_id
              and access_period.original_transaction_id = ownership.original_transaction_id
              and tstzrange(access_period.starts_at, access_period.ends_at)
                && tstzrange(ownership.starts_at, ownership.ends_at)
              and access_period.product_id is not null
            left join subledger.product_entitlement
              on product_entitlement.app = part.app
              and product_entitlement.product_id = access_period.product_id
            """)
    }

    /// The stream of the customer `known`, read by its key: the planner would rather compare all streams of an
    /// environment with each question.
    private static let stream: SQL = """
        select stream.app, stream.environment, app_join.joined_app
        from subledger.stream
        left join subledger.app_join using (app)
        where stream.stream_id = known.stream_id
        offset 0
        """

    /// The customer `known` of `stream` as its only part.
    private static let wholeCustomer: SQL = """
        select known.stream_id, stream.app, known.customer_kind, known.customer_id, known.customer_kind as joined_kind,
          known.customer_id as joined_id
        """

    /// The parts of the customer `known` of `stream`: itself, unless its app is joined with another.
    private static func parts(at instant: SQL) -> SQL {
        """
        \(wholeCustomer)
        where stream.joined_app is null
        union all
        select joined.stream_id, joined.app, joined.customer_kind, joined.customer_id, joined.joined_kind,
          joined.joined_id
        from subledger.joined_customer(known.stream_id, known.customer_kind, known.customer_id, \(instant)) as joined
        where stream.joined_app is not null
        """
    }

    /// The parts of the customers to which an id leads at an instant, one customer for each app and kind that matches.
    static let matches = matching("customer_matches", parts: parts(at: "$6"))

    /// ``matches`` in a distributed database, in which no apps are joined.
    static let matchesOnNodes = matching("customer_matches_on_nodes", parts: wholeCustomer)

    private static func matching(_ name: SQL, parts: SQL) -> Statement {
        Statement(
            name,
            """
            select stream.app, known.kind, part.joined_kind, part.joined_id, stream.joined_app, part.stream_id, part.app,
              part.customer_kind, part.customer_id, product_catalog.products
            from subledger.customer_identity as known
            cross join lateral (
              \(stream)
            ) as stream
            cross join lateral (
              \(parts)
            ) as part
            left join subledger.product_catalog
              on product_catalog.app = part.app
            where known.id in ($3, $4)
              and known.id = case when known.kind = 'account' then $4 else $3 end
              and known.kind = coalesce($5, known.kind)
              and known.starts_at <= $6
              and known.ends_at > $6
              and stream.environment = $1
              and ($2::text is null or $2 in (stream.app, stream.joined_app))
            order by part.app collate "C", part.customer_kind collate "C", part.customer_id collate "C"
            """)
    }

    /// The ids of a customer after one of them, in the order of ``CustomerKey``: those that lead or led to it, and the
    /// subscriptions that it owns or owned.
    static let ids = Statement(
        "customer_ids",
        """
        select kind, id
        from (
          select kind, id
          from subledger.customer_identity
          where stream_id = $1
            and customer_kind = $2
            and customer_id = $3
          union
          select 'subscription', original_transaction_id
          from subledger.ownership
          where stream_id = $1
            and customer_kind = $2
            and customer_id = $3
            and reason <> 'seat'
        ) as own
        where (kind collate "C", id collate "C") > ($4, $5)
        order by kind collate "C", id collate "C"
        limit $6
        """)

    /// The subscriptions of a customer: a row for each interval in which it owns one, with the event that reported why,
    /// and the one that reported why the next owner does.
    static let subscriptions = Statement(
        "customer_subscriptions",
        """
        select subscription.original_transaction_id, subscription.facts, ownership.starts_at, ownership.ends_at,
          ownership.position, next.position
        from subledger.ownership
        join subledger.subscription using (stream_id, original_transaction_id)
        left join subledger.ownership as next
          on next.stream_id = ownership.stream_id
          and next.original_transaction_id = ownership.original_transaction_id
          and next.starts_at = ownership.ends_at
          and 'seat' not in (ownership.reason, next.reason)
        where ownership.stream_id = $1
          and ownership.customer_kind = $2
          and ownership.customer_id = $3
        order by subscription.original_transaction_id collate "C", ownership.starts_at
        """)

    /// The streams in which an id is or was known, and those of the apps that are joined with theirs, with the
    /// configuration of their rows and the entitlements of their products: pairs of a product and an entitlement.
    static let streams = Statement(
        "customer_streams",
        """
        with knowing as materialized (
          select stream.app
          from subledger.stream_head
          join subledger.stream using (stream_id)
          where stream.environment = $1
            and (
              exists (
                select
                from subledger.customer_identity
                where customer_identity.stream_id = stream_head.stream_id
                  and customer_identity.id in ($3, $4)
              )
              or exists (
                select
                from subledger.customer_link
                where customer_link.stream_id = stream_head.stream_id
                  and customer_link.backend_customer_id = $3
              )
            )
        )
        select stream.stream_id, stream.app, product_catalog.products, checkpoint.ownership, app_join.joined_app,
          (
            select json_agg(json_build_array(product_id, entitlement))::text
            from subledger.product_entitlement
            where product_entitlement.app = stream.app
          )
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.app_join using (app)
        left join subledger.product_catalog using (app)
        where stream.environment = $1
          and ($2::text is null or $2 in (stream.app, app_join.joined_app))
          and exists (
            select
            from knowing
            where knowing.app in (stream.app, app_join.joined_app)
          )
        order by stream.app collate "C"
        """)

    /// All that is known around some keys in a stream, in rows whose first column says what they are:
    /// - `key`: a key that was ever tied to one of the given keys, directly or through other keys; with the facts of a
    ///   subscription. Account tokens that are shared today tie nothing, and a subscription leads to none of those who have
    ///   its seats.
    /// - `token`: one of those keys, an account token that too many store accounts share today.
    /// - `link`: a link of one of those customers, by the events received until `$4`.
    /// - `skip`: a skipped event about one of those subscriptions that was received until then.
    /// - `notice`: what an event that was received until then says about one of those keys besides its facts, at most `$5`
    ///   of a key.
    ///
    /// One statement: each part needs the keys, and a page or an explanation needs all of them.
    static let around = Statement(
        "customer_around",
        """
        with recursive reached (kind, id) as (
          select kind, id
          from unnest($2::text[], $3::text[]) as input (kind, id)
          union
          select tied.kind, tied.id
          from reached
          cross join lateral (
            \(CustomerTies.step(in: "subledger.", where: "true"))
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
              and customer_link.basis <> 'seat'
          ) as tied
        )
        select 'key' as part, reached.kind, reached.id, subscription.facts, null::bigint as position,
          null::bigint as replaced_position, null::text as word, null::text as basis, null::timestamptz as at
        from reached
        left join subledger.subscription
          on reached.kind = 'subscription'
          and subscription.stream_id = $1
          and subscription.original_transaction_id = reached.id
        union all
        select 'token', reached.kind, reached.id, null, null, null, null, null, null
        from reached
        where reached.kind = 'account'
          and exists (
            select
            from subledger.shared_account_token
            where shared_account_token.stream_id = $1
              and shared_account_token.account_token = reached.id
            offset 0
          )
        union all
        select 'link', link.kind, link.id, null, link.position, link.replaced_position, reached.id, link.basis, null
        from reached
        cross join lateral (
          select customer_link.kind, customer_link.id, customer_link.position, replacing.position as replaced_position,
            customer_link.basis
          from subledger.customer_link
          join subledger.event
            on event.stream_id = $1
            and event.position = customer_link.position
          left join subledger.event as replacing
            on replacing.stream_id = $1
            and replacing.position = customer_link.replaced_position
            and replacing.received_at <= $4
          where customer_link.stream_id = $1
            and customer_link.backend_customer_id = reached.id
            and event.received_at <= $4
          offset 0
        ) as link
        where reached.kind = 'link'
        union all
        select 'skip', 'subscription', mentioned.id, null, projector_skip.position, null, null, null,
          projector_skip.skipped_at
        from subledger.projector_skip
        join subledger.event using (stream_id, position)
        cross join lateral (
          select distinct fact ->> 'originalTransactionId' as id
          from jsonb_path_query(event.facts, '$.keyvalue().value[*]') as fact
          where jsonb_typeof(fact) = 'object'
        ) as mentioned
        where projector_skip.stream_id = $1
          and event.received_at <= $4
          and mentioned.id in (
            select reached.id
            from reached
            where reached.kind = 'subscription'
          )
        union all
        select 'notice', reached.kind, reached.id, null, notice.position, null, notice.notice, null, notice.at
        from reached
        cross join lateral (
          \(NoticeStatements.ofReached)
            and event.received_at <= $4
          order by event.position
          limit $5
        ) as notice
        where reached.kind in ('app_transaction', 'subscription')
        """)

    /// Those of some account tokens that too many store accounts share today.
    static let sharedTokens = Statement(
        "customer_known_shared_tokens",
        """
        select account_token
        from subledger.shared_account_token
        where stream_id = $1
          and account_token = any ($2::text[])
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

    /// Where some events came from.
    static let sources = Statement(
        "customer_event_sources",
        """
        select position, source, type, subtype, received_at
        from subledger.event
        where stream_id = $1
          and position = any ($2::bigint[])
        """)

    static let mapping = Statement(
        "customer_mapping",
        """
        select product_id, entitlement
        from subledger.product_entitlement
        where app = $1
        """)
}
