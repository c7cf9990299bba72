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
    /// alone. So nobody who reads waits, each reader sees the old rows or the new ones, and views, grants and whatever
    /// an operator has built on the tables stay as they are. All columns are meant, those of later versions too; the
    /// tables were made alike.
    static let swap = [
        Statement(
            "rebuild_delete_subscriptions",
            """
            delete from subledger.subscription as live
            where live.stream_id = $1
              and not exists (
                select
                from subledger_rebuild.subscription as fresh
                where fresh.stream_id = live.stream_id
                  and fresh.original_transaction_id = live.original_transaction_id
                  and row (fresh.*) is not distinct from row (live.*)
              )
            """),
        Statement(
            "rebuild_insert_subscriptions",
            """
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
            """),
        Statement(
            "rebuild_insert_periods",
            """
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
