import EventLog
import Postgres

/// SQL of a rebuild, apart from folding.
enum RebuildStatements {
    /// The lock is held until the end of the transaction: there is one set of tables to rebuild into, and a rebuild may
    /// already have folded an event that an operator decides to skip. It is a table lock, since its modes require write
    /// rights, which reader roles do not have.
    static let claim = Statement(
        "rebuild_claim",
        """
        lock table subledger.projector_skip in share row exclusive mode
        """)

    /// Bounds the wait for a lock, and lets the transaction of a claim stay open, without a snapshot, for as long as
    /// the rebuild takes.
    static let boundLockWait = Statement(
        "rebuild_bound_lock_wait",
        """
        select set_config('lock_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', '0', true)
        """)

    /// Creates the tables like the live ones, whatever columns those have, and drops what a killed rebuild has left.
    ///
    /// The tables are unlogged, which is faster: after a crash of the database server they are empty, checkpoints
    /// included, and folding starts over. The checkpoints begin with the products of the live rows.
    static let makeTables: SQL = """
        drop schema if exists subledger_rebuild cascade;
        create schema subledger_rebuild;
        comment on schema subledger_rebuild is
          'Projections that a rebuild is folding; dropped when it ends, or by the next one';
        \(makeFoldedTables)
        create unlogged table subledger_rebuild.gone_subscription (like subledger.subscription);
        create unlogged table subledger_rebuild.new_subscription (like subledger.subscription);
        create unlogged table subledger_rebuild.gone_access_period (like subledger.access_period);
        create unlogged table subledger_rebuild.new_access_period (like subledger.access_period);
        create unlogged table subledger_rebuild.gone_ownership (like subledger.ownership);
        create unlogged table subledger_rebuild.new_ownership (like subledger.ownership);
        create index on subledger_rebuild.gone_subscription (stream_id, original_transaction_id);
        create index on subledger_rebuild.new_subscription (stream_id, original_transaction_id);
        create index on subledger_rebuild.gone_access_period (stream_id, original_transaction_id);
        create index on subledger_rebuild.new_access_period (stream_id, original_transaction_id);
        create index on subledger_rebuild.gone_ownership (stream_id, original_transaction_id);
        create index on subledger_rebuild.new_ownership (stream_id, original_transaction_id);
        comment on table subledger_rebuild.gone_subscription is 'Live rows that the swap deletes';
        comment on table subledger_rebuild.new_subscription is 'Rows that the swap inserts';
        comment on table subledger_rebuild.gone_access_period is 'Live rows that the swap deletes';
        comment on table subledger_rebuild.new_access_period is 'Rows that the swap inserts';
        comment on table subledger_rebuild.gone_ownership is 'Live rows that the swap deletes';
        comment on table subledger_rebuild.new_ownership is 'Rows that the swap inserts';
        grant usage on schema subledger_rebuild to subledger_projector;
        grant select, insert, update, delete on all tables in schema subledger_rebuild to subledger_projector;
        insert into subledger_rebuild.checkpoint (stream_id, position, products, ownership, check_lead)
        select stream_id, 0, products, ownership, check_lead
        from subledger.checkpoint;
        \(Distribution.follow(in: "subledger_rebuild"))
        """

    private static let makeFoldedTables = ProjectionTable.foldedNames.map { name -> SQL in
        """
        create unlogged table subledger_rebuild.\(name) (like subledger.\(name) including all);
        comment on table subledger_rebuild.\(name) is 'See subledger.\(name)';
        """
    }.joined(separator: "\n")

    /// Statistics for the comparison of whole tables, as coarse as possible: only the sizes of the tables matter.
    static let analyze: SQL = """
        set default_statistics_target = 1;
        analyze \(compared);
        reset default_statistics_target
        """

    private static let compared = ProjectionTable.all.map { table -> SQL in "subledger_rebuild.\(table.name)" }
        .joined(separator: ", ")

    static let dropTables = Statement("rebuild_drop_tables", "drop schema if exists subledger_rebuild cascade")

    /// The streams to rebuild, with their heads.
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

    /// See ``ProjectionStatements/makeCheckpoint``; for the live table.
    static let makeLiveCheckpoint = Statement(
        "rebuild_make_live_checkpoint",
        """
        insert into subledger.checkpoint (stream_id, position, products, projection_version)
        values ($1, 0, '', $2)
        on conflict (stream_id) do nothing
        """)

    /// Waits for the leader of the live stream, then leads the stream until the end of the transaction.
    static let lockLive = Statement(
        "rebuild_lock_live",
        """
        select stream_id
        from subledger.checkpoint
        where stream_id = $1
        for update
        """)

    static let liveCheckpoint = Statement(
        "rebuild_live_checkpoint",
        """
        select checkpoint.position, clock_timestamp(),
          coalesce((
            select product_catalog.products
            from subledger.product_catalog
            where product_catalog.app = stream.app
          ), '')
        from subledger.checkpoint
        join subledger.stream using (stream_id)
        where checkpoint.stream_id = $1
        """)

    /// Applies the checks that were recorded since the rebuild wrote their rows. A check that is recorded during the swap
    /// is made once more.
    ///
    /// Several nodes accept the key of a purchase in a query, and not in the condition of an update.
    static let restoreChecks = Statement(
        "rebuild_restore_checks",
        """
        with latest as (
          select check_schedule.original_transaction_id, latest.next_at
          from (
            select distinct on (original_transaction_id, due_at) original_transaction_id, due_at, next_at
            from subledger.store_check
            where stream_id = $1
            order by original_transaction_id, due_at, asked_at desc
          ) as latest
          join subledger_rebuild.check_schedule
            on check_schedule.stream_id = $1
            and check_schedule.due_at = latest.due_at
            and latest.original_transaction_id
              = \(PurchaseKey.sql("check_schedule.purchase_token", else: "check_schedule.original_transaction_id"))
        )
        update subledger_rebuild.check_schedule
        set next_at = latest.next_at
        from latest
        where check_schedule.stream_id = $1
          and check_schedule.original_transaction_id = latest.original_transaction_id
          and check_schedule.next_at is distinct from latest.next_at
        """)

    /// Applies the claims of checks, which do not follow from the log.
    static let restoreClaims = Statement(
        "rebuild_restore_claims",
        """
        update subledger_rebuild.check_schedule
        set asking_until = live.asking_until
        from subledger.check_schedule as live
        where live.stream_id = $1
          and check_schedule.stream_id = $1
          and check_schedule.original_transaction_id = live.original_transaction_id
          and check_schedule.asking_until is distinct from live.asking_until
        """)

    static let workAsProjector = Statement("rebuild_work_as_projector", "set local role subledger_projector")

    /// Restores the connection's own role.
    static let workAsOwner = Statement("rebuild_work_as_owner", "reset role")

    /// Compiling the comparison of two tables takes longer than it saves.
    static let disableJIT = Statement("rebuild_disable_jit", "set local jit = off")

    /// A page of the subscriptions of which the swap deleted or inserted a row, in order of id, after an id.
    static let changedSubscriptions = Statement(
        "rebuild_changed_subscriptions",
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
          select original_transaction_id
          from subledger_rebuild.gone_ownership
          where stream_id = $1
          union
          select original_transaction_id
          from subledger_rebuild.new_ownership
          where stream_id = $1
        ) as changed
        where original_transaction_id > $2
        order by original_transaction_id
        limit $3
        """)

    /// The periods of some subscriptions, each with whether it existed before the swap and whether it exists now.
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

    /// The intervals of ownership of some subscriptions, each with whether it existed before the swap and whether it
    /// exists now.
    static let changedOwners = Statement(
        "rebuild_changed_owners",
        """
        select ownership.original_transaction_id, ownership.customer_kind, ownership.customer_id, ownership.starts_at,
          ownership.ends_at, ownership.reason, ownership.position, new.stream_id is null as was_there, true as is_there
        from subledger.ownership
        left join subledger_rebuild.new_ownership as new
          using (stream_id, original_transaction_id, starts_at, customer_kind, customer_id)
        where ownership.stream_id = $1
          and ownership.original_transaction_id = any ($2::text[])
        union all
        select original_transaction_id, customer_kind, customer_id, starts_at, ends_at, reason, position, true, false
        from subledger_rebuild.gone_ownership
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)

    /// The renewal intent of some subscriptions before the swap and now, and whether each existed before and exists now.
    static let changedIntentions = Statement(
        "rebuild_changed_intentions",
        """
        select subscription.id,
          case
            when gone.stream_id is not null then gone.auto_renew
            when new.stream_id is null then live.auto_renew
          end,
          case
            when gone.stream_id is not null then nullif(gone.auto_renew_product_id, gone.product_id)
            when new.stream_id is null then nullif(live.auto_renew_product_id, live.product_id)
          end,
          live.auto_renew, nullif(live.auto_renew_product_id, live.product_id),
          (gone.stream_id is not null or new.stream_id is null) and live.stream_id is not null
        from unnest($2::text[]) as subscription (id)
        left join subledger.subscription as live
          on live.stream_id = $1
          and live.original_transaction_id = subscription.id
        left join subledger_rebuild.gone_subscription as gone
          on gone.stream_id = $1
          and gone.original_transaction_id = subscription.id
        left join subledger_rebuild.new_subscription as new
          on new.stream_id = $1
          and new.original_transaction_id = subscription.id
        order by subscription.id
        """)

    static let swapCheckpoint = Statement(
        "rebuild_swap_checkpoint",
        """
        insert into subledger.checkpoint (stream_id, position, products, ownership, check_lead, projection_version)
        select stream_id, position, products, ownership, check_lead, projection_version
        from subledger_rebuild.checkpoint
        where stream_id = $1
        on conflict (stream_id) do update
        set position = excluded.position,
          products = excluded.products,
          ownership = excluded.ownership,
          check_lead = excluded.check_lead,
          projection_version = excluded.projection_version
        """)
}

extension PostgresConnection {
    /// Takes the lock by which rebuilds and skips exclude each other, in the open transaction.
    ///
    /// - Returns: False if another session holds it for longer than a command takes to end.
    func lockOutRebuilds(by lock: Statement) throws(PostgresError) -> Bool {
        func boundWait(_ milliseconds: Int64) throws(PostgresError) {
            _ = try query(Step(RebuildStatements.boundLockWait, [Parameter(String(milliseconds))]))
        }
        try boundWait(Int64(Limits.rebuildClaimWaitMax / .milliseconds(1)))
        do {
            _ = try query(Step(lock))
        } catch {
            // lock_not_available
            if error.sqlstate == "55P03" { return false }
            throw error
        }
        try boundWait(0)
        return true
    }
}
