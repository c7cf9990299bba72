import Postgres

/// SQL for writing changes. Only the live tables have a feed, and every statement is limited to one stream.
enum ChangeStatements {
    /// The customers to which ids lead at instants, each with the subscription that is named, or with the first one of the
    /// store account that is.
    static let noticedCustomers = Statement(
        "change_noticed_customers",
        """
        select input.ordinal, named.original_transaction_id, identity.customer_kind, identity.customer_id
        from unnest($2::text[], $3::text[], $4::timestamptz[]) with ordinality as input (kind, id, at, ordinal)
        join subledger.customer_identity as identity
          on identity.stream_id = $1
          and identity.kind = input.kind
          and identity.id = input.id
          and identity.starts_at <= input.at
          and identity.ends_at > input.at
        cross join lateral (
          select case
              when input.kind = 'subscription' then input.id
              else (
                select min(edge.original_transaction_id collate "C")
                from subledger.customer_edge as edge
                where edge.stream_id = $1
                  and edge.kind = input.kind
                  and edge.id = input.id
              )
            end as original_transaction_id
        ) as named
        where named.original_transaction_id is not null
        order by input.ordinal
        """)

    /// Up to which instant changes were published, up to which instant boundaries can be published at once, and whether
    /// any boundary lies between: the start or end of a period of access, or the start of an interval of ownership. The
    /// second instant is now, or earlier if more than a number of them begin or end by now. No row if nothing was ever
    /// published for the stream.
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
          ) or exists (
            select
            from subledger.ownership
            where stream_id = $1
              and starts_at > published_until
              and starts_at <= horizon
              and starts_at > '-infinity'
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
              ),
              (
                select starts_at
                from subledger.ownership
                where stream_id = $1
                  and starts_at > published_until
                  and starts_at <= $2
                  and starts_at > '-infinity'
                order by starts_at
                offset $3
                limit 1
              )
            ) as horizon
          from subledger.change_head
          where stream_id = $1
        ) as head
        """)

    /// All periods of the subscriptions that have a period that begins or ends, or another owner, after an instant and
    /// up to another, inclusive.
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
            union
            \(newlyOwned)
          ))
        """)

    /// All owners of the subscriptions that have another owner after an instant and up to another, inclusive.
    static let dueOwners = Statement(
        "change_due_owners",
        """
        select original_transaction_id, customer_kind, customer_id, starts_at, ends_at, reason, position
        from subledger.ownership
        where stream_id = $1
          and original_transaction_id = any (array(
            \(newlyOwned)
          ))
        """)

    /// The condition that an interval has a start lets the statement use the index of the few that have one. Of seats, the end
    /// counts as well: nobody else's interval need begin there.
    private static let newlyOwned: SQL = """
        select original_transaction_id
        from subledger.ownership
        where stream_id = $1
          and starts_at > $2
          and starts_at <= $3
          and starts_at > '-infinity'
        union
        select original_transaction_id
        from subledger.ownership
        where stream_id = $1
          and reason = 'seat'
          and ends_at > $2
          and ends_at <= $3
        """

    static let next = Statement(
        "change_next",
        """
        select next_at, clock_timestamp()
        from subledger.change_head
        where stream_id = $1
        """)

    /// Assigns the next numbers to changes and writes them. Looks up when the next boundary is due.
    static let write = Statement(
        "change_write",
        """
        with head as (
          insert into subledger.change_head (stream_id, number, published_until, next_at)
          select
            $1::integer, $3::bigint, $2::timestamptz,
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
              ),
              (
                select starts_at
                from subledger.ownership
                where stream_id = $1
                  and starts_at > $2
                  and starts_at > '-infinity'
                order by starts_at
                limit 1
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
          auto_renew, next_product_id, customer_kind, customer_id, seats_before, seats, reason
        )
        select $1, last_number + ordinal, $4, kind, original_transaction_id, at, cause, position, product_id, until,
          auto_renew, next_product_id, customer_kind, customer_id, seats_before, seats, reason
        from head
        cross join unnest(
          $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::bigint[], $10::text[], $11::timestamptz[],
          $12::boolean[], $13::text[], $14::text[], $15::text[], $16::integer[], $17::integer[],
          $18::text[]
        ) with ordinality as input (
          kind, original_transaction_id, at, cause, position, product_id, until, auto_renew, next_product_id,
          customer_kind, customer_id, seats_before, seats, reason, ordinal
        )
        """)
}
