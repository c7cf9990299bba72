import Postgres

/// SQL for the account tokens that more store accounts share than the app's rules allow.
extension CustomerStatements {
    /// For some tokens, whether each is recorded as shared and whether more than a number of store accounts have
    /// purchases with it. Most tokens have fewer purchases than that. The others are counted by jumping from store account
    /// to store account in the index, up to one above the number.
    static let countStoreAccounts = Statement(
        "customer_count_store_accounts",
        """
        select input.token, shared_account_token.account_token is not null,
          exists (
            select
            from customer_edge
            where customer_edge.stream_id = $1
              and customer_edge.kind = 'account'
              and customer_edge.id = input.token
            offset $3
          )
          and (
            with recursive account (number, store_account) as (
              select 1::bigint, (
                select customer_edge.store_account
                from customer_edge
                where customer_edge.stream_id = $1
                  and customer_edge.kind = 'account'
                  and customer_edge.id = input.token
                order by customer_edge.store_account
                limit 1
              )
              union all
              select account.number + 1, (
                select customer_edge.store_account
                from customer_edge
                where customer_edge.stream_id = $1
                  and customer_edge.kind = 'account'
                  and customer_edge.id = input.token
                  and customer_edge.store_account > account.store_account
                order by customer_edge.store_account
                limit 1
              )
              from account
              where account.store_account is not null
                and account.number <= $3
            )
            select count(store_account) > $3
            from account
          )
        from unnest($2::text[]) as input (token)
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

    /// Records the shared tokens of a stream by another limit, and returns those that were not shared before.
    static let replaceSharedTokens = Statement(
        "customer_replace_shared_tokens",
        """
        with fresh as (
          select id
          from customer_edge
          where stream_id = $1
            and kind = 'account'
          group by id
          having count(distinct store_account) > $2
        ),
        gone as (
          delete from shared_account_token
          where stream_id = $1
            and not exists (
              select
              from fresh
              where fresh.id = shared_account_token.account_token
            )
        )
        insert into shared_account_token (stream_id, account_token)
        select $1, id
        from fresh
        on conflict (stream_id, account_token) do nothing
        returning account_token
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
