import Postgres

/// The SQL of the change feed. Only live tables have one, and every statement stays inside one stream.
enum ChangeStatements {
    /// Up to where changes were published, and how far period boundaries can be published at once: until now, or until
    /// so many periods begin or end. No row for a stream of which nothing was ever published.
    static let head = Statement(
        "change_head",
        """
        select published_until, horizon, exists (
            select
            from subledger.access_period
            where stream_id = $1
              and ends_at > published_until
              and ends_at <= horizon
          ) or exists (
            select
            from subledger.access_period
            where stream_id = $1
              and starts_at > published_until
              and starts_at <= horizon
          )
        from (
          select
            published_until,
            least(
              $2,
              (
                select ends_at
                from subledger.access_period
                where stream_id = $1
                  and ends_at > published_until
                  and ends_at <= $2
                order by ends_at
                offset $3
                limit 1
              ),
              (
                select starts_at
                from subledger.access_period
                where stream_id = $1
                  and starts_at > published_until
                  and starts_at <= $2
                order by starts_at
                offset $3
                limit 1
              )
            ) as horizon
          from subledger.change_head
          where stream_id = $1
        ) as head
        """)

    /// All periods of the subscriptions of which one begins or ends after an instant, up to and with another.
    static let duePeriods = Statement(
        "change_due_periods",
        """
        select original_transaction_id, starts_at, ends_at, cause, cut, transaction_id, product_id, position
        from subledger.access_period
        where stream_id = $1
          and original_transaction_id = any (array(
            select original_transaction_id
            from subledger.access_period
            where stream_id = $1
              and ends_at > $2
              and ends_at <= $3
            union
            select original_transaction_id
            from subledger.access_period
            where stream_id = $1
              and starts_at > $2
              and starts_at <= $3
          ))
        """)

    /// Wakes those that wait for changes of a stream. Outside of the transaction that writes them: a commit that
    /// notifies fails when the queue of notifications is full, and any role can fill that.
    static let notify = Statement(
        "change_notify",
        """
        select pg_notify('subledger_change', $1::integer::text)
        """)

    static let next = Statement(
        "change_next",
        """
        select next_at, clock_timestamp()
        from subledger.change_head
        where stream_id = $1
        """)

    /// Hands out the next numbers and writes changes under them, as many as there are. Looks up when the next
    /// period boundary is due.
    static let write = Statement(
        "change_write",
        """
        with head as (
          insert into subledger.change_head (stream_id, number, published_until, next_at)
          values (
            $1, $3, $2,
            least(
              (
                select ends_at
                from subledger.access_period
                where stream_id = $1
                  and ends_at > $2
                  and ends_at < 'infinity'
                order by ends_at
                limit 1
              ),
              (
                select starts_at
                from subledger.access_period
                where stream_id = $1
                  and starts_at > $2
                order by starts_at
                limit 1
              )
            )
          )
          on conflict (stream_id) do update
          set number = change_head.number + excluded.number,
            published_until = excluded.published_until,
            next_at = excluded.next_at
          returning number - $3 as last_number
        )
        insert into subledger.change (
          stream_id, number, published_at, kind, original_transaction_id, at, cause, position, product_id, until,
          auto_renew, next_product_id
        )
        select $1, last_number + ordinal, $4, kind, original_transaction_id, at, cause, position, product_id, until,
          auto_renew, next_product_id
        from head
        cross join unnest(
          $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::bigint[], $10::text[], $11::timestamptz[],
          $12::boolean[], $13::text[]
        ) with ordinality as input (
          kind, original_transaction_id, at, cause, position, product_id, until, auto_renew, next_product_id, ordinal
        )
        """)

    /// Where the changes of a stream end. No row if there is no such stream.
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
