import Postgres

/// SQL that swaps in the rows of a rebuild.
extension RebuildStatements {
    /// The statements that swap in the rows of one table.
    struct TableSwap {
        /// Whether all rows are the same. Unlike the statements that write, this one can use parallel workers.
        let isSame: Statement
        /// Deletes the live rows that differ.
        let delete: Statement
        /// Inserts the rows that are missing.
        let insert: Statement
    }

    /// Equal rows stay untouched, and changed ones are recorded for the change feed. Readers never wait and see either
    /// the old rows or the new ones, and views, grants and anything else that an operator has built on the tables stay
    /// intact. All columns are compared, including those of later versions, since the rebuild's tables are made like
    /// the live ones. Rows are compared by their bytes (`*=`), which costs less than by columns and is stricter.
    static let swap = [
        TableSwap(
            isSame: Statement(
                "rebuild_same_subscriptions",
                """
                select
                  same.rows = (select count(*) from subledger.subscription where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.subscription where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.subscription as live
                  join subledger_rebuild.subscription as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
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
                        and fresh *= live
                    )
                  returning live.*
                )
                insert into subledger_rebuild.gone_subscription
                select *
                from changed
                """),
            insert: Statement(
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
                """)),
        TableSwap(
            isSame: Statement(
                "rebuild_same_transactions",
                """
                select
                  same.rows = (select count(*) from subledger.transaction where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.transaction where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.transaction as live
                  join subledger_rebuild.transaction as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                    and fresh.transaction_id = live.transaction_id
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
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
                      and fresh *= live
                  )
                """),
            insert: Statement(
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
                """)),
        TableSwap(
            isSame: Statement(
                "rebuild_same_periods",
                """
                select
                  same.rows = (select count(*) from subledger.access_period where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.access_period where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.access_period as live
                  join subledger_rebuild.access_period as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                    and fresh.transaction_id = live.transaction_id
                    and fresh.cause = live.cause
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
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
                        and fresh *= live
                    )
                  returning live.*
                )
                insert into subledger_rebuild.gone_access_period
                select *
                from changed
                """),
            insert: Statement(
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
                """)),
        TableSwap(
            isSame: Statement(
                "rebuild_same_customer_edges",
                """
                select
                  same.rows = (select count(*) from subledger.customer_edge where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.customer_edge where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.customer_edge as live
                  join subledger_rebuild.customer_edge as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.original_transaction_id = live.original_transaction_id
                    and fresh.kind = live.kind
                    and fresh.id = live.id
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
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
                      and fresh *= live
                  )
                """),
            insert: Statement(
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
                """)),
        TableSwap(
            isSame: Statement(
                "rebuild_same_customer_links",
                """
                select
                  same.rows = (select count(*) from subledger.customer_link where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.customer_link where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.customer_link as live
                  join subledger_rebuild.customer_link as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.backend_customer_id = live.backend_customer_id
                    and fresh.position = live.position
                    and fresh.kind = live.kind
                    and fresh.id = live.id
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
                "rebuild_delete_customer_links",
                """
                delete from subledger.customer_link as live
                where live.stream_id = $1
                  and not exists (
                    select
                    from subledger_rebuild.customer_link as fresh
                    where fresh.stream_id = live.stream_id
                      and fresh.backend_customer_id = live.backend_customer_id
                      and fresh.position = live.position
                      and fresh.kind = live.kind
                      and fresh.id = live.id
                      and fresh *= live
                  )
                """),
            insert: Statement(
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
                      and live.backend_customer_id = fresh.backend_customer_id
                      and live.position = fresh.position
                      and live.kind = fresh.kind
                      and live.id = fresh.id
                  )
                """)),
        TableSwap(
            isSame: Statement(
                "rebuild_same_customer_identities",
                """
                select
                  same.rows = (select count(*) from subledger.customer_identity where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.customer_identity where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.customer_identity as live
                  join subledger_rebuild.customer_identity as fresh
                    on fresh.stream_id = live.stream_id
                    and fresh.kind = live.kind
                    and fresh.id = live.id
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """),
            delete: Statement(
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
                        and fresh *= live
                    )
                  returning live.*
                )
                insert into subledger_rebuild.gone_customer_identity
                select *
                from changed
                """),
            insert: Statement(
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
                """)),
    ]
}
