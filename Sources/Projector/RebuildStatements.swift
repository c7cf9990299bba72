import Postgres

/// The SQL of a rebuild, other than folding.
enum RebuildStatements {
    /// Held until the connection ends. There is one set of tables to rebuild into.
    static let claim = Statement(
        "rebuild_claim",
        """
        select pg_try_advisory_lock(hashtext('subledger'), hashtext('rebuild'))
        """)

    /// Makes the tables anew, like the live ones whatever columns those have; drops what a killed rebuild has left.
    ///
    /// They are not logged, which is faster: should the server crash, they are empty, checkpoints included, and
    /// folding them begins anew. The checkpoints begin with the products of the live rows.
    static let makeTables = """
        drop schema if exists subledger_rebuild cascade;
        create schema subledger_rebuild;
        comment on schema subledger_rebuild is
          'Projections that are being folded anew; dropped when the rebuild has ended, or by the next one';
        create unlogged table subledger_rebuild.checkpoint (like subledger.checkpoint including all);
        create unlogged table subledger_rebuild.subscription (like subledger.subscription including all);
        create unlogged table subledger_rebuild.transaction (like subledger.transaction including all);
        create unlogged table subledger_rebuild.access_period (like subledger.access_period including all);
        create unlogged table subledger_rebuild.customer_edge (like subledger.customer_edge including all);
        create unlogged table subledger_rebuild.customer_link (like subledger.customer_link including all);
        create unlogged table subledger_rebuild.customer_identity (like subledger.customer_identity including all);
        create unlogged table subledger_rebuild.gone_subscription (like subledger.subscription);
        create unlogged table subledger_rebuild.new_subscription (like subledger.subscription);
        create unlogged table subledger_rebuild.gone_access_period (like subledger.access_period);
        create unlogged table subledger_rebuild.new_access_period (like subledger.access_period);
        create unlogged table subledger_rebuild.gone_customer_identity (like subledger.customer_identity);
        comment on table subledger_rebuild.gone_subscription is 'Live rows that the swap takes away';
        comment on table subledger_rebuild.new_subscription is 'Those that it adds';
        comment on table subledger_rebuild.gone_access_period is 'Live rows that the swap takes away';
        comment on table subledger_rebuild.new_access_period is 'Those that it adds';
        comment on table subledger_rebuild.gone_customer_identity is 'Live rows that the swap takes away';
        comment on table subledger_rebuild.checkpoint is 'As subledger.checkpoint';
        comment on table subledger_rebuild.subscription is 'As subledger.subscription';
        comment on table subledger_rebuild.transaction is 'As subledger.transaction';
        comment on table subledger_rebuild.access_period is 'As subledger.access_period';
        comment on table subledger_rebuild.customer_edge is 'As subledger.customer_edge';
        comment on table subledger_rebuild.customer_link is 'As subledger.customer_link';
        comment on table subledger_rebuild.customer_identity is 'As subledger.customer_identity';
        grant usage on schema subledger_rebuild to subledger_projector;
        grant select, insert, update, delete on all tables in schema subledger_rebuild to subledger_projector;
        insert into subledger_rebuild.checkpoint (stream_id, position, products)
        select stream_id, 0, products
        from subledger.checkpoint
        """

    /// Statistics for the comparison of whole tables.
    static let analyze = """
        analyze subledger_rebuild.subscription, subledger_rebuild.transaction, subledger_rebuild.access_period,
          subledger_rebuild.customer_edge, subledger_rebuild.customer_link, subledger_rebuild.customer_identity
        """

    static let dropTables = "drop schema if exists subledger_rebuild cascade"

    /// The streams to rebuild, with their heads and how far the live rows are.
    static let streams = Statement(
        "rebuild_streams",
        """
        select stream.stream_id, stream.app, stream.environment, stream_head.position
        from subledger.stream
        join subledger.stream_head using (stream_id)
        where stream.app = coalesce($1, stream.app)
          and stream.environment = coalesce($2, stream.environment)
        order by stream.stream_id
        """)

    /// Waits for whoever leads the live stream, and leads it until the end of the transaction.
    static let leadLive = Statement(
        "rebuild_lead_live",
        """
        select pg_advisory_xact_lock(hashtext('subledger.projector'), $1)
        """)

    static let liveCheckpoint = Statement(
        "rebuild_live_checkpoint",
        """
        select position
        from subledger.checkpoint
        where stream_id = $1
        """)

    static let workAsProjector = Statement("rebuild_work_as_projector", "set local role subledger_projector")

    /// Takes away the live rows that came out otherwise, then adds those that are not there: what is equal is left
    /// alone, and what is not is noted for the change feed. So nobody who reads waits, each reader sees the old rows or the new ones, and views, grants and whatever
    /// an operator has built on the tables stay as they are. All columns are meant, those of later versions too; the
    /// tables were made alike.
    static let swap = [
        Statement(
            "rebuild_delete_subscriptions",
            """
            with changed as (
              delete from subledger.subscription as live
              where live.stream_id = $1
                and not exists (
                  select
                  from subledger_rebuild.subscription as fresh
                  where fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                    and row (fresh.*) is not distinct from row (live.*)
                )
              returning live.*
            )
            insert into subledger_rebuild.gone_subscription
            select *
            from changed
            """),
        Statement(
            "rebuild_insert_subscriptions",
            """
            with changed as (
              insert into subledger.subscription
              select fresh.*
              from subledger_rebuild.subscription as fresh
              where fresh.stream_id = $1
                and not exists (
                  select
                  from subledger.subscription as live
                  where live.stream_id = fresh.stream_id
                    and live.original_transaction_id = fresh.original_transaction_id
                )
              returning *
            )
            insert into subledger_rebuild.new_subscription
            select *
            from changed
            """),
        Statement(
            "rebuild_delete_transactions",
            """
            delete from subledger.transaction as live
            where live.stream_id = $1
              and not exists (
                select
                from subledger_rebuild.transaction as fresh
                where fresh.stream_id = live.stream_id
                  and fresh.original_transaction_id = live.original_transaction_id
                  and fresh.transaction_id = live.transaction_id
                  and row (fresh.*) is not distinct from row (live.*)
              )
            """),
        Statement(
            "rebuild_insert_transactions",
            """
            insert into subledger.transaction
            select fresh.*
            from subledger_rebuild.transaction as fresh
            where fresh.stream_id = $1
              and not exists (
                select
                from subledger.transaction as live
                where live.stream_id = fresh.stream_id
                  and live.original_transaction_id = fresh.original_transaction_id
                  and live.transaction_id = fresh.transaction_id
              )
            """),
        Statement(
            "rebuild_delete_periods",
            """
            with changed as (
              delete from subledger.access_period as live
              where live.stream_id = $1
                and not exists (
                  select
                  from subledger_rebuild.access_period as fresh
                  where fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                    and fresh.transaction_id = live.transaction_id
                    and fresh.cause = live.cause
                    and row (fresh.*) is not distinct from row (live.*)
                )
              returning live.*
            )
            insert into subledger_rebuild.gone_access_period
            select *
            from changed
            """),
        Statement(
            "rebuild_insert_periods",
            """
            with changed as (
              insert into subledger.access_period
              select fresh.*
              from subledger_rebuild.access_period as fresh
              where fresh.stream_id = $1
                and not exists (
                  select
                  from subledger.access_period as live
                  where live.stream_id = fresh.stream_id
                    and live.original_transaction_id = fresh.original_transaction_id
                    and live.transaction_id = fresh.transaction_id
                    and live.cause = fresh.cause
                )
              returning *
            )
            insert into subledger_rebuild.new_access_period
            select *
            from changed
            """),
        Statement(
            "rebuild_delete_customer_edges",
            """
            delete from subledger.customer_edge as live
            where live.stream_id = $1
              and not exists (
                select
                from subledger_rebuild.customer_edge as fresh
                where fresh.stream_id = live.stream_id
                  and fresh.original_transaction_id = live.original_transaction_id
                  and fresh.kind = live.kind
                  and fresh.id = live.id
                  and row (fresh.*) is not distinct from row (live.*)
              )
            """),
        Statement(
            "rebuild_insert_customer_edges",
            """
            insert into subledger.customer_edge
            select fresh.*
            from subledger_rebuild.customer_edge as fresh
            where fresh.stream_id = $1
              and not exists (
                select
                from subledger.customer_edge as live
                where live.stream_id = fresh.stream_id
                  and live.original_transaction_id = fresh.original_transaction_id
                  and live.kind = fresh.kind
                  and live.id = fresh.id
              )
            """),
        Statement(
            "rebuild_delete_customer_links",
            """
            delete from subledger.customer_link as live
            where live.stream_id = $1
              and not exists (
                select
                from subledger_rebuild.customer_link as fresh
                where fresh.stream_id = live.stream_id
                  and fresh.customer = live.customer
                  and fresh.position = live.position
                  and fresh.kind = live.kind
                  and fresh.id = live.id
                  and row (fresh.*) is not distinct from row (live.*)
              )
            """),
        Statement(
            "rebuild_insert_customer_links",
            """
            insert into subledger.customer_link
            select fresh.*
            from subledger_rebuild.customer_link as fresh
            where fresh.stream_id = $1
              and not exists (
                select
                from subledger.customer_link as live
                where live.stream_id = fresh.stream_id
                  and live.customer = fresh.customer
                  and live.position = fresh.position
                  and live.kind = fresh.kind
                  and live.id = fresh.id
              )
            """),
        Statement(
            "rebuild_delete_customer_identities",
            """
            with changed as (
              delete from subledger.customer_identity as live
              where live.stream_id = $1
                and not exists (
                  select
                  from subledger_rebuild.customer_identity as fresh
                  where fresh.stream_id = live.stream_id
                    and fresh.kind = live.kind
                    and fresh.id = live.id
                    and row (fresh.*) is not distinct from row (live.*)
                )
              returning live.*
            )
            insert into subledger_rebuild.gone_customer_identity
            select *
            from changed
            """),
        Statement(
            "rebuild_insert_customer_identities",
            """
            insert into subledger.customer_identity
            select fresh.*
            from subledger_rebuild.customer_identity as fresh
            where fresh.stream_id = $1
              and not exists (
                select
                from subledger.customer_identity as live
                where live.stream_id = fresh.stream_id
                  and live.kind = fresh.kind
                  and live.id = fresh.id
              )
            """),
    ]

    /// Lines of which a row was taken away or added, in the order of their ids from one on.
    static let changedLines = Statement(
        "rebuild_changed_lines",
        """
        select original_transaction_id
        from (
          select original_transaction_id
          from subledger_rebuild.gone_subscription
          where stream_id = $1
          union
          select original_transaction_id
          from subledger_rebuild.new_subscription
          where stream_id = $1
          union
          select original_transaction_id
          from subledger_rebuild.gone_access_period
          where stream_id = $1
          union
          select original_transaction_id
          from subledger_rebuild.new_access_period
          where stream_id = $1
          union
          select id
          from subledger_rebuild.gone_customer_identity
          where stream_id = $1
            and kind = 'subscription'
        ) as changed
        where original_transaction_id > $2
        order by original_transaction_id
        limit $3
        """)

    /// The periods of some lines: whether each was there before the swap, and whether it is now.
    static let changedPeriods = Statement(
        "rebuild_changed_periods",
        """
        select access_period.original_transaction_id, access_period.starts_at, access_period.ends_at,
          access_period.cause, access_period.cut, access_period.transaction_id, access_period.product_id,
          access_period.position, new.stream_id is null as was_there, true as is_there
        from subledger.access_period
        left join subledger_rebuild.new_access_period as new
          using (stream_id, original_transaction_id, transaction_id, cause)
        where access_period.stream_id = $1
          and access_period.original_transaction_id = any ($2::text[])
        union all
        select original_transaction_id, starts_at, ends_at, cause, cut, transaction_id, product_id, position, true, false
        from subledger_rebuild.gone_access_period
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    /// What is intended for some lines, before the swap and now.
    static let changedIntentions = Statement(
        "rebuild_changed_intentions",
        """
        select line.id,
          case
            when gone.stream_id is not null then gone.auto_renew
            when new.stream_id is null then live.auto_renew
          end,
          case
            when gone.stream_id is not null then nullif(gone.auto_renew_product_id, gone.product_id)
            when new.stream_id is null then nullif(live.auto_renew_product_id, live.product_id)
          end,
          live.auto_renew, nullif(live.auto_renew_product_id, live.product_id),
          identity.stream_id is not null and live.stream_id is not null
        from unnest($2::text[]) as line (id)
        left join subledger.subscription as live
          on live.stream_id = $1
          and live.original_transaction_id = line.id
        left join subledger_rebuild.gone_subscription as gone
          on gone.stream_id = $1
          and gone.original_transaction_id = line.id
        left join subledger_rebuild.new_subscription as new
          on new.stream_id = $1
          and new.original_transaction_id = line.id
        left join subledger_rebuild.gone_customer_identity as identity
          on identity.stream_id = $1
          and identity.kind = 'subscription'
          and identity.id = line.id
        order by line.id
        """)

    static let swapCheckpoint = Statement(
        "rebuild_swap_checkpoint",
        """
        insert into subledger.checkpoint (stream_id, position, products)
        select stream_id, position, products
        from subledger_rebuild.checkpoint
        where stream_id = $1
        on conflict (stream_id) do update
        set position = excluded.position,
          products = excluded.products
        """)
}
