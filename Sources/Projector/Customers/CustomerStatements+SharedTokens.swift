import Postgres

/// SQL for the account tokens that more people share than the app's rules allow.
extension CustomerStatements {
    /// Whether more than a number of people buy with a token, as a condition.
    ///
    /// People are the store accounts that the store states. Where it states none for some purchases, subscriptions to one
    /// product that are active at one instant belong to as many people, those of a stated store account included, since
    /// a store account cannot have a product twice at once; those in one receipt are of one person. Most tokens have no
    /// more purchases than the number. Store accounts are counted by jumping from one to the next in the index, up to one
    /// above the number; of subscriptions, those are looked at that come first in the index.
    ///
    /// - Parameters:
    ///   - token: A column.
    ///   - schema: Of the tables, with a dot; empty to take them from the search path.
    static func isShared(_ token: SQL, in schema: SQL = "", max: SQL) -> SQL {
        """
        exists (
          select
          from \(schema)customer_edge
          where customer_edge.stream_id = $1
            and customer_edge.kind = 'account'
            and customer_edge.id = \(token)
          offset \(max)
        )
        and (
          (
            with recursive account (number, store_account) as (
              select 0::bigint, ''
              union all
              select account.number + 1, (
                select customer_edge.store_account
                from \(schema)customer_edge
                where customer_edge.stream_id = $1
                  and customer_edge.kind = 'account'
                  and customer_edge.id = \(token)
                  and customer_edge.store_account > account.store_account
                order by customer_edge.store_account
                limit 1
              )
              from account
              where account.store_account is not null
                and account.number <= \(max)
            )
            select count(store_account) - 1 > \(max)
            from account
          )
          or exists (
            select
            from \(schema)customer_edge
            where customer_edge.stream_id = $1
              and customer_edge.kind = 'account'
              and customer_edge.id = \(token)
              and customer_edge.store_account = ''
          )
          and coalesce((
            with bought as materialized (
              select customer_edge.original_transaction_id, customer_edge.store_account
              from \(schema)customer_edge
              where customer_edge.stream_id = $1
                and customer_edge.kind = 'account'
                and customer_edge.id = \(token)
                and exists (
                  select
                  from \(schema)access_period
                  where access_period.stream_id = $1
                    and access_period.original_transaction_id = customer_edge.original_transaction_id
                    and access_period.payer_state in ('paying', 'trial')
                )
              order by customer_edge.store_account, customer_edge.original_transaction_id
              limit 20 * \(max)
            ),
            held as (
              select access_period.product_id,
                unnest(range_agg(tstzrange(access_period.starts_at, access_period.ends_at))) as span
              from bought
              left join lateral (
                select min(tie.id) as subscription
                from \(schema)customer_edge as tie
                where tie.stream_id = $1
                  and tie.original_transaction_id = bought.original_transaction_id
                  and tie.kind = 'subscription'
              ) as receipt
                on bought.store_account = ''
              join \(schema)access_period
                on access_period.stream_id = $1
                and access_period.original_transaction_id = bought.original_transaction_id
              where access_period.payer_state in ('paying', 'trial')
              group by
                bought.store_account,
                case
                  when bought.store_account = '' then least(bought.original_transaction_id, receipt.subscription)
                end,
                access_period.product_id
            ),
            step as (
              select product_id, lower(span) as at, 1 as change from held
              union all
              select product_id, upper(span), -1 from held
            ),
            active as (
              select sum(change) over (partition by product_id order by at, change) as number
              from step
            )
            select max(number) > \(max)
            from active
          ), false)
        )
        """
    }

    /// For some tokens, whether each is recorded as shared and whether it is.
    static let countPeople = Statement(
        "customer_count_people",
        """
        select input.token, shared_account_token.account_token is not null, \(isShared("input.token", max: "$3"))
        from unnest($2::text[]) as input (token)
        left join shared_account_token
          on shared_account_token.stream_id = $1
          and shared_account_token.account_token = input.token
        """)

    /// The same for all tokens with enough purchases, and for those that are recorded as shared.
    static let countPeopleOfAll = Statement(
        "customer_count_people_of_all",
        """
        with input as materialized (
          select id as token
          from customer_edge
          where stream_id = $1
            and kind = 'account'
          group by id
          having count(*) > $2
          union
          select account_token
          from shared_account_token
          where stream_id = $1
        )
        select input.token, shared_account_token.account_token is not null, \(isShared("input.token", max: "$2"))
        from input
        left join shared_account_token
          on shared_account_token.stream_id = $1
          and shared_account_token.account_token = input.token
        """)

    /// Those of some tokens that are shared.
    static let sharedTokens = Statement(
        "customer_shared_tokens",
        """
        select account_token
        from shared_account_token
        where stream_id = $1
          and account_token = any ($2::text[])
        """)

    static let writeSharedTokens = Statement(
        "customer_write_shared_tokens",
        """
        insert into shared_account_token (stream_id, account_token)
        select $1, unnest($2::text[])
        """)

    static let deleteSharedTokens = Statement(
        "customer_delete_shared_tokens",
        """
        delete from shared_account_token
        where stream_id = $1
          and account_token = any ($2::text[])
        """)

    /// The first subscriptions that have a purchase with each of some tokens, in order of store account and id.
    static let firstSubscriptionsOfTokens = Statement(
        "customer_first_subscriptions_of_tokens",
        """
        select distinct found.original_transaction_id
        from unnest($2::text[]) as input (token)
        cross join lateral (
          select customer_edge.original_transaction_id
          from customer_edge
          where customer_edge.stream_id = $1
            and customer_edge.kind = 'account'
            and customer_edge.id = input.token
          order by customer_edge.store_account, customer_edge.original_transaction_id
          limit $3
        ) as found
        """)

    /// The subscriptions that continue others with some tokens, see `OwnershipEvidence.continuedAccount`.
    static let subscriptionsOutsideApp = Statement(
        "customer_subscriptions_outside_app",
        """
        select distinct found.original_transaction_id
        from unnest($2::text[]) as input (token)
        cross join lateral (
          select customer_edge.original_transaction_id
          from customer_edge
          where customer_edge.stream_id = $1
            and customer_edge.kind = 'account'
            and customer_edge.id = input.token
            and customer_edge.store_account = $3
          offset 0
        ) as found
        """)

    /// A page of the subscriptions that have a purchase with a token, after a store account and subscription.
    static let pageTokenSubscriptions = Statement(
        "customer_page_token_subscriptions",
        """
        select store_account, original_transaction_id
        from customer_edge
        where stream_id = $1
          and kind = 'account'
          and id = $2
          and (store_account, original_transaction_id) > ($3, $4)
        order by store_account, original_transaction_id
        limit $5
        """)
}
