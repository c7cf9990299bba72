import EventLog
import Postgres

/// SQL of the projector. Every statement that writes is limited to one stream.
///
/// Statements that name projection tables without a schema use the set of tables that ``selectTables`` has chosen for
/// the transaction.
enum ProjectionStatements {
    /// All streams with unfolded events, outdated rows or a boundary due by an instant. It reads four rows per
    /// stream, so it runs rarely.
    static let streamsToFold = Statement(
        "projector_streams_to_fold",
        """
        select stream.stream_id, stream.app, stream.environment,
          stream_head.position - coalesce(checkpoint.position, 0)
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.change_head using (stream_id)
        left join subledger.product_catalog using (app)
        left join subledger.app_ownership using (app)
        left join subledger.app_checks using (app)
        where stream_head.position > coalesce(checkpoint.position, 0)
          or checkpoint.position > 0
            and (
              checkpoint.products <> coalesce(product_catalog.products, '')
              or checkpoint.ownership <> \(configuredOwnership)
              or checkpoint.check_lead <> coalesce(app_checks.check_lead, '')
              or checkpoint.projection_version <> $2
            )
          or change_head.next_at <= $1
        order by stream.stream_id
        """)

    /// The ownership rules that are configured for an app now, as ``OwnershipRules/text``.
    static let configuredOwnership: SQL = """
        coalesce(app_ownership.policy || ' ' || app_ownership.store_accounts_per_token_max, 'latest-buyer 10')
        """

    /// Records the ownership rules of some apps.
    static let recordOwnership = Statement(
        "projector_record_ownership",
        """
        insert into subledger.app_ownership (app, policy, store_accounts_per_token_max)
        select unnest($1::text[]), unnest($2::text[]), unnest($3::bigint[])
        on conflict (app) do update
        set policy = excluded.policy,
          store_accounts_per_token_max = excluded.store_accounts_per_token_max
        where app_ownership.policy <> excluded.policy
          or app_ownership.store_accounts_per_token_max <> excluded.store_accounts_per_token_max
        """)

    /// Removes the joins of some apps that are not configured.
    static let removeJoins = Statement(
        "projector_remove_joins",
        """
        delete from subledger.app_join
        where (app = any ($1::text[]) or joined_app = any ($1::text[]))
          and not exists (
            select
            from unnest($2::text[], $3::text[]) as configured (app, joined_app)
            where configured.app = app_join.app
              and configured.joined_app = app_join.joined_app
          )
        """)

    /// Records which apps are joined.
    static let recordJoins = Statement(
        "projector_record_joins",
        """
        insert into subledger.app_join (app, joined_app)
        select unnest($1::text[]), unnest($2::text[])
        on conflict (app) do nothing
        """)

    /// Records when the subscriptions of some apps are checked.
    static let recordChecks = Statement(
        "projector_record_checks",
        """
        insert into subledger.app_checks (app, check_lead)
        select unnest($1::text[]), unnest($2::text[])
        on conflict (app) do update
        set check_lead = excluded.check_lead
        where app_checks.check_lead <> excluded.check_lead
        """)

    /// The given streams, each with its number of unfolded events.
    static let namedStreams = Statement(
        "projector_named_streams",
        """
        select stream.stream_id, stream.app, stream.environment,
          stream_head.position - coalesce(checkpoint.position, 0)
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.checkpoint using (stream_id)
        where stream_head.stream_id = any ($1::integer[])
        order by stream.stream_id
        """)

    /// Chooses the set of tables for the rest of the transaction.
    static let selectTables = Statement(
        "projector_select_tables",
        """
        select set_config('search_path', $1, true)
        """)

    /// The stream's checkpoint with its products and projection version, the products configured now, the version of
    /// the checkpoint row, the number of skipped events, the database's clock, and the ownership rules and the leads of
    /// checks of the checkpoint and of now, and whether the database is distributed.
    static let checkpoint = Statement(
        "projector_checkpoint",
        """
        select coalesce(checkpoint.position, 0), coalesce(checkpoint.products, ''), coalesce(checkpoint.projection_version, 0),
          coalesce((
            select product_catalog.products
            from subledger.product_catalog
            where product_catalog.app = stream.app
          ), ''), coalesce(checkpoint.version, ''),
          (
            select count(*)
            from subledger.projector_skip
            where projector_skip.stream_id = $1
          ), clock_timestamp(), coalesce(checkpoint.ownership, ''), \(configuredOwnership),
          coalesce(checkpoint.check_lead, ''),
          coalesce((
            select app_checks.check_lead
            from subledger.app_checks
            where app_checks.app = stream.app
          ), ''), \(Distribution.condition), stream.environment
        from subledger.stream
        left join (
          select stream_id, position, products, ownership, check_lead, projection_version, xmin::text as version
          from checkpoint
          where stream_id = $1
        ) as checkpoint using (stream_id)
        left join subledger.app_ownership using (app)
        where stream.stream_id = $1
        """)

    static let nextEvents = Statement(
        "projector_next_events",
        """
        \(FoldableEvent.query)
          and event.position > $2
        order by event.position
        limit $3
        """)

    /// Looks up each subscription by its key. The limit keeps PostgreSQL from scanning all subscriptions and comparing
    /// each with a list of hundreds, which it prefers as long as it believes that the table is small.
    static let loadSubscriptions = loadSubscriptions("projector_load_subscriptions", from: "subscription")
    /// The same of the live rows, also while a rebuild writes others.
    static let loadLiveSubscriptions = loadSubscriptions(
        "projector_load_live_subscriptions", from: "subledger.subscription")

    private static func loadSubscriptions(_ name: SQL, from table: SQL) -> Statement {
        Statement(
            name,
            """
            select found.original_transaction_id, found.position, found.facts
            from unnest($2::text[]) as named (original_transaction_id)
            cross join lateral (
              select subscription.original_transaction_id, subscription.position, subscription.facts
              from \(table)
              where subscription.stream_id = $1
                and subscription.original_transaction_id = named.original_transaction_id
              limit 1
            ) as found
            """)
    }

    /// The subscriptions that have some transactions. The limit is for the planner, as above: a transaction is in one.
    static let transactionHolders = Statement(
        "projector_transaction_holders",
        """
        select named.transaction_id, found.original_transaction_id
        from unnest($2::text[]) as named (transaction_id)
        cross join lateral (
          select transaction.original_transaction_id
          from transaction
          where transaction.stream_id = $1
            and transaction.transaction_id = named.transaction_id
          limit 10
        ) as found
        """)

    /// A page of subscriptions in order of id, after an id.
    static let pageSubscriptions = Statement(
        "projector_page_subscriptions",
        """
        select original_transaction_id, position, facts
        from subscription
        where stream_id = $1
          and original_transaction_id > $2
        order by original_transaction_id
        limit $3
        """)

    /// Inserts subscriptions that have no row yet.
    static let copySubscriptions = Statement(
        "projector_copy_subscriptions",
        """
        copy subscription (
          stream_id, original_transaction_id, product_id, auto_renew, auto_renew_product_id, in_billing_retry,
          expiration_intent, access_ends_at, position, facts, renewal_date, renewal_price, renewal_currency,
          price_increase_status, last_transaction_id, last_cause, last_product_id, last_payer_state, first_start,
          last_churn_reason, last_reason_stated, last_ends_at, last_paid_end, part_of, commitment_ends_at
        )
        from stdin (format binary)
        """)

    /// Unnests the arrays in parallel in the select list, as other statements with many rows do: one `unnest` of all
    /// arrays after `from` would materialize each of them first.
    static let writeSubscriptions = Statement(
        "projector_write_subscriptions",
        """
        insert into subscription (
          stream_id, original_transaction_id, product_id, auto_renew, auto_renew_product_id, in_billing_retry,
          expiration_intent, access_ends_at, position, facts, renewal_date, renewal_price, renewal_currency,
          price_increase_status, last_transaction_id, last_cause, last_product_id, last_payer_state, first_start,
          last_churn_reason, last_reason_stated, last_ends_at, last_paid_end, part_of, commitment_ends_at
        )
        select unnest($1::integer[]), unnest($2::text[]), unnest($3::text[]), unnest($4::boolean[]), unnest($5::text[]),
          unnest($6::boolean[]), unnest($7::integer[]), unnest($8::timestamptz[]), unnest($9::bigint[]),
          unnest($10::text[]), unnest($11::timestamptz[]), unnest($12::bigint[]), unnest($13::text[]),
          unnest($14::integer[]), unnest($15::text[]), unnest($16::text[]), unnest($17::text[]),
          unnest($18::text[]), unnest($19::timestamptz[]), unnest($20::text[]),
          unnest($21::boolean[]), unnest($22::timestamptz[]),
          unnest($23::timestamptz[]), unnest($24::text[]), unnest($25::timestamptz[])
        on conflict (stream_id, original_transaction_id) do update
        set product_id = excluded.product_id,
          auto_renew = excluded.auto_renew,
          auto_renew_product_id = excluded.auto_renew_product_id,
          in_billing_retry = excluded.in_billing_retry,
          expiration_intent = excluded.expiration_intent,
          access_ends_at = excluded.access_ends_at,
          position = excluded.position,
          facts = excluded.facts,
          renewal_date = excluded.renewal_date,
          renewal_price = excluded.renewal_price,
          renewal_currency = excluded.renewal_currency,
          price_increase_status = excluded.price_increase_status,
          last_transaction_id = excluded.last_transaction_id,
          last_cause = excluded.last_cause,
          last_product_id = excluded.last_product_id,
          last_payer_state = excluded.last_payer_state,
          first_start = excluded.first_start,
          last_churn_reason = excluded.last_churn_reason,
          last_reason_stated = excluded.last_reason_stated,
          last_ends_at = excluded.last_ends_at,
          last_paid_end = excluded.last_paid_end,
          part_of = excluded.part_of,
          commitment_ends_at = excluded.commitment_ends_at
        """)

    static let deleteAllTransactions = Statement(
        "projector_delete_all_transactions",
        """
        delete from transaction
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    /// Looks up each row by its key: the limit prevents a join over the whole table.
    static let deleteTransactions = Statement(
        "projector_delete_transactions",
        """
        delete from transaction
        where stream_id = $1
          and ctid = any (array(
            select found.ctid
            from unnest($2::text[], $3::text[]) as old (original_transaction_id, transaction_id)
            cross join lateral (
              select transaction.ctid
              from transaction
              where transaction.stream_id = $1
                and transaction.original_transaction_id = old.original_transaction_id
                and transaction.transaction_id = old.transaction_id
              limit 1
            ) as found
          ))
        """)

    /// See ``TransactionRows``.
    static let copyTransactions = Statement(
        "projector_copy_transactions",
        """
        copy transaction (\(TransactionRows.columns.joined(separator: ", ")))
        from stdin (format binary)
        """)

    static let accessPeriods = Periods(of: .accessPeriod)
    static let refundedPeriods = Periods(of: .refundedPeriod)

    static let writeCheckpoint = Statement(
        "projector_write_checkpoint",
        """
        insert into checkpoint (stream_id, position, products, ownership, check_lead, projection_version)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (stream_id) do update
        set position = excluded.position,
          products = excluded.products,
          ownership = excluded.ownership,
          check_lead = excluded.check_lead,
          projection_version = excluded.projection_version
        returning xmin::text
        """)
}
