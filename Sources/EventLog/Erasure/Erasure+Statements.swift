import Postgres

extension Erasure {
    /// `$1` is the stream, `$2` to `$4` the ids with their names. Transactions, order lines and orders have a kind of their own,
    /// since subscriptions mostly have the id of a transaction.
    enum Statements {
        private static let names: SQL = """
            name as (
              select kind, id, called
              from unnest($2::text[], $3::text[], $4::text[]) as name (kind, id, called)
            )
            """

        /// Neither a rebuild nor another erasure begins before the end of the transaction.
        static let lockRebuilds = Statement(
            "erasure_lock_rebuilds",
            """
            lock table subledger.projector_skip in share row exclusive mode
            """)

        /// While the row is locked, the projector does not write; and what it has folded before, it folds again, since it
        /// finds another version of the row.
        static let lockProjections = Statement(
            "erasure_lock_projections",
            """
            update subledger.checkpoint
            set position = position
            where stream_id = $1
            returning position
            """)

        static let lockHead = Statement(
            "erasure_lock_head",
            """
            select position
            from subledger.stream_head
            where stream_id = $1
            for update
            """)

        /// The copy of a rebuild that is under way or was interrupted.
        static let rebuild = Statement(
            "erasure_rebuild",
            """
            select
            from pg_namespace
            where nspname = 'subledger_rebuild'
            """)

        static let head = Statement(
            "erasure_head",
            """
            select position
            from subledger.stream_head
            where stream_id = $1
            """)

        /// Events whose facts contain one of the texts, which are in lower case, and those at the positions `$5`; of erasures only
        /// if `$6`.
        static let page = Statement(
            "erasure_page",
            """
            select position, received_at, facts
            from subledger.event
            where stream_id = $1
              and position > $2
              and position <= $3
              and (kind <> 'erasure' or $6)
              and (position = any ($5::bigint[]) or lower(facts::text) like any ($4::text[]))
            order by position
            """)

        /// The events that reported the transactions of some subscriptions, under these or others.
        static let reports = Statement(
            "erasure_reports",
            """
            select distinct position
            from subledger.transaction
            cross join unnest(positions) as position
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
            """)

        /// The subscriptions, apart from `$2`, that are called by one of the ids `$3`, or have such a transaction or order line.
        static let sharedTransactions = Statement(
            "erasure_shared_transactions",
            """
            select distinct original_transaction_id
            from subledger.transaction
            where stream_id = $1
              and original_transaction_id <> all ($2::text[])
              and (
                original_transaction_id = any ($3::text[])
                or transaction_id = any ($3::text[])
                or web_order_line_item_id = any ($3::text[])
              )
            """)

        /// Those of the subscriptions `$2`, and of the refund requests about the transactions `$3`, that a store can report after
        /// `$4`, and until when: `$5` seconds after the end of one whose renewal is off or was given up, `$6` seconds after that
        /// of every other one, or after the next check of a purchase that is not paid for yet.
        static let open = Statement(
            "erasure_open",
            """
            with ending as (
              select original_transaction_id,
                last_ends_at + interval '1 second' * case
                  when auto_renew is false or expiration_intent is not null and in_billing_retry is not true then $5::bigint
                  else $6::bigint
                end as until
              from subledger.subscription
              where stream_id = $1
                and original_transaction_id = any ($2::text[])
              union all
              select original_transaction_id, due_at + interval '1 second' * $6::bigint
              from subledger.check_schedule
              where stream_id = $1
                and original_transaction_id = any ($2::text[])
                and purchase_token is not null
                and not exists (
                  select
                  from subledger.transaction
                  where transaction.stream_id = check_schedule.stream_id
                    and transaction.original_transaction_id = check_schedule.original_transaction_id
                )
              union all
              select coalesce(original_transaction_id, transaction_id), deadline_at
              from subledger.refund_request
              where stream_id = $1
                and transaction_id = any ($3::text[])
                and decision is null
            )
            select original_transaction_id, until
            from ending
            where until > $4
            """)

        /// From here to the end of the transaction, the tables of the log accept these changes, and no others.
        static let allow = Statement(
            "erasure_allow",
            """
            select set_config('subledger.erasing', pg_current_xact_id()::text, true)
            """)

        static let events = Statement(
            "erasure_events",
            """
            update subledger.event
            set facts = input.facts
            from unnest($2::bigint[], $3::jsonb[]) as input (position, facts)
            where event.stream_id = $1
              and event.position = input.position
            """)

        static let bodies = Statement(
            "erasure_bodies",
            """
            update subledger.event_body
            set body = ''
            from subledger.event
            where event.stream_id = $1
              and event.position = any ($2::bigint[])
              and event_body.stream_id = $1
              and event_body.position = event.position
              and event_body.received_at = event.received_at
            """)

        static let conflicts = Statement(
            "erasure_conflicts",
            """
            update subledger.event_conflict
            set body = ''
            where stream_id = $1
              and position = any ($2::bigint[])
            """)

        /// The transactions of some subscriptions.
        static let transactions = Statement(
            "erasure_transactions",
            """
            select distinct transaction_id
            from subledger.transaction
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
            """)

        /// A fingerprint is a digest of numbers that can be guessed. Equal ones stay equal: `$3` and the first position.
        static let fingerprints = Statement(
            "erasure_fingerprints",
            """
            update subledger.event
            set fingerprint = renamed.called
            from (
              select fingerprint, sha256(convert_to($3 || ' ' || min(position), 'UTF8')) as called
              from subledger.event
              where stream_id = $1
                and position = any ($2::bigint[])
                and fingerprint is not null
              group by fingerprint
            ) as renamed
            where event.stream_id = $1
              and event.position = any ($2::bigint[])
              and event.fingerprint = renamed.fingerprint
            """)

        /// What the stores' reports say about the orders `$2`.
        static let reportRows = Statement(
            "erasure_report_rows",
            """
            select name, sha256, line, order_id, fields
            from subledger.store_report_row
            where app = $1
              and split_part(order_id, '..', 1) = any ($2::text[])
            """)

        static let writeReportRows = Statement(
            "erasure_write_report_rows",
            """
            update subledger.store_report_row
            set order_id = input.order_id,
              fields = input.fields
            from unnest($1::text[], $2::bytea[], $3::integer[], $4::text[], $5::jsonb[])
              as input (name, sha256, line, order_id, fields)
            where store_report_row.name = input.name
              and store_report_row.sha256 = input.sha256
              and store_report_row.line = input.line
            """)

        static let subscriptionFacts = Statement(
            "erasure_subscription_facts",
            """
            select original_transaction_id, facts
            from subledger.subscription
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
            """)

        static let additional = Statement(
            "erasure_additional",
            """
            select original_transaction_id, transaction_id, additional
            from subledger.transaction
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
              and additional is not null
            """)

        static let writeAdditional = Statement(
            "erasure_write_additional",
            """
            update subledger.transaction
            set additional = input.additional
            from unnest($2::text[], $3::text[], $4::jsonb[]) as input (original_transaction_id, transaction_id, additional)
            where transaction.stream_id = $1
              and transaction.original_transaction_id = input.original_transaction_id
              and transaction.transaction_id = input.transaction_id
            """)

        static let writeSubscriptionFacts = Statement(
            "erasure_write_subscription_facts",
            """
            update subledger.subscription
            set facts = input.facts
            from unnest($2::text[], $3::text[]) as input (original_transaction_id, facts)
            where subscription.stream_id = $1
              and subscription.original_transaction_id = input.original_transaction_id
            """)

        /// Every column that holds an id, of the projections and of the records beside the log. Each statement uses the
        /// names of ``names``.
        static let renames: [Statement] =
            [
                // The sentences name purchases, on Google Play by the token. First, while the ids still lead to them.
                Statement(
                    "erasure_change_reason",
                    """
                    with \(names)
                    update subledger.change as changed
                    set reason = null
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'subscription'
                      and changed.original_transaction_id = name.id
                      and changed.reason is not null
                    """)
            ]
            + transactionColumns.map { table, column in
                Statement(
                    "erasure_\(table)_\(column)_stores",
                    """
                    with \(names)
                    update subledger.\(table) as changed
                    set \(column) = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'transaction'
                      and changed.original_transaction_id in (select id from name where kind = 'subscription')
                      and changed.\(column) = name.id
                    """)
            }
            + subscriptionColumns.map { table, column in
                Statement(
                    "erasure_\(table)_\(column)",
                    """
                    with \(names)
                    update subledger.\(table) as changed
                    set \(column) = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'subscription'
                      and changed.\(column) = name.id
                    """)
            }
            + kindColumns.map { table, kind, column in
                Statement(
                    "erasure_\(table)_\(column)",
                    """
                    with \(names)
                    update subledger.\(table) as changed
                    set \(column) = name.called
                    from name
                    where changed.stream_id = $1
                      -- The subscription before a migration may never have been one of this log.
                      and changed.\(kind) = case name.kind when 'transaction' then 'subscription' else name.kind end
                      and changed.\(column) = name.id
                    """)
            } + [
                Statement(
                    "erasure_transaction_tokens",
                    """
                    with \(names)
                    update subledger.transaction as changed
                    set app_account_token = coalesce(account.called, before.app_account_token),
                      app_transaction_id = coalesce(app.called, before.app_transaction_id)
                    from subledger.transaction as before
                    left join name as account
                      on account.kind = 'account'
                      and account.id = lower(before.app_account_token)
                    left join name as app
                      on app.kind = 'app_transaction'
                      and app.id = before.app_transaction_id
                    where before.stream_id = $1
                      and changed.stream_id = $1
                      and changed.original_transaction_id = before.original_transaction_id
                      and changed.transaction_id = before.transaction_id
                      and (account.called is not null or app.called is not null)
                    """),
                // A digest of a number of Apple's can be guessed.
                Statement(
                    "erasure_subscription_head",
                    """
                    with \(names)
                    update subledger.subscription_head as changed
                    set subscription_sha256 = subledger.subscription_sha256(name.called)
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'subscription'
                      and changed.subscription_sha256 = subledger.subscription_sha256(name.id)
                    """),
                // Apple's place in a history can contain the id of a transaction.
                Statement(
                    "erasure_store_history",
                    """
                    with \(names)
                    update subledger.store_history as changed
                    set revision = null
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'subscription'
                      and changed.original_transaction_id = name.called
                    """),
                Statement(
                    "erasure_consumption_answer",
                    """
                    with \(names)
                    update subledger.consumption_answer as changed
                    set transaction_id = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'transaction'
                      and changed.transaction_id = name.id
                    """),
                Statement(
                    "erasure_customer_link_backend",
                    """
                    with \(names)
                    update subledger.customer_link as changed
                    set backend_customer_id = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'link'
                      and changed.backend_customer_id = name.id
                    """),
                // A store account is named by what ties it together.
                Statement(
                    "erasure_customer_edge_account",
                    """
                    with \(names)
                    update subledger.customer_edge as changed
                    set store_account = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind in ('app_transaction', 'subscription', 'transaction')
                      and changed.store_account = name.id
                    """),
                Statement(
                    "erasure_shared_account_token",
                    """
                    with \(names)
                    update subledger.shared_account_token as changed
                    set account_token = name.called
                    from name
                    where changed.stream_id = $1
                      and name.kind = 'account'
                      and changed.account_token = name.id
                    """),
                Statement(
                    "erasure_endpoint_delivery",
                    """
                    with \(names)
                    update subledger.endpoint_delivery as changed
                    set line = name.called
                    from name, subledger.stream
                    join subledger.endpoint using (app, environment)
                    where stream.stream_id = $1
                      and changed.endpoint_id = endpoint.endpoint_id
                      and name.kind = 'subscription'
                      and changed.line = name.id
                    """),
            ]

        /// Tables with the id of a transaction or of an order line in a column. That of a purchase on Google Play without an
        /// order is, or begins with, the token.
        private static let transactionColumns: [(SQL, SQL)] = [
            ("transaction", "transaction_id"), ("transaction", "web_order_line_item_id"),
            ("transaction", "previous_original_transaction_id"), ("access_period", "transaction_id"),
            ("refunded_period", "transaction_id"), ("subscription", "last_transaction_id"),
        ]

        /// Tables with the id of a subscription in a column.
        private static let subscriptionColumns: [(SQL, SQL)] = [
            ("subscription", "original_transaction_id"), ("subscription", "part_of"),
            ("transaction", "original_transaction_id"), ("transaction", "previous_original_transaction_id"),
            ("access_period", "original_transaction_id"), ("refunded_period", "original_transaction_id"),
            ("store_check", "original_transaction_id"), ("store_history", "original_transaction_id"),
            ("customer_edge", "original_transaction_id"), ("ownership", "original_transaction_id"),
            ("change", "original_transaction_id"),
        ]

        /// Tables with an id in a column and its kind in another.
        private static let kindColumns: [(SQL, SQL, SQL)] = [
            ("customer_edge", "kind", "id"), ("customer_link", "kind", "id"), ("customer_identity", "kind", "id"),
            ("customer_identity", "customer_kind", "customer_id"), ("ownership", "customer_kind", "customer_id"),
            ("change", "customer_kind", "customer_id"),
        ]

        /// `$2` are the person's subscriptions, by their ids before.
        static let schedule = Statement(
            "erasure_check_schedule",
            """
            delete from subledger.check_schedule
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
            """)

        /// Receipts that were handed in for the person, or that name a subscription of the person's: `$5`.
        static let receipts = Statement(
            "erasure_receipt",
            """
            with \(names)
            delete from subledger.receipt
            using subledger.stream
            where stream.stream_id = $1
              and receipt.app = stream.app
              and coalesce(receipt.environment, stream.environment) = stream.environment
              and (
                receipt.subscriptions && $5::text[]
                or receipt.customer_id in (select id from name where kind = 'link')
                or lower(receipt.account_id) in (select id from name where kind = 'account')
              )
            """)

        /// What Google is asked about.
        static let purchases: [Statement] = [
            Statement(
                "erasure_google_notification",
                """
                with \(names)
                delete from subledger.google_notification
                using subledger.google_purchase, subledger.stream
                where stream.stream_id = $1
                  and google_purchase.app = stream.app
                  and coalesce(google_purchase.environment, stream.environment) = stream.environment
                  and google_notification.app = google_purchase.app
                  and google_notification.token_sha256 = google_purchase.token_sha256
                  and exists (
                    select
                    from name
                    where kind = 'subscription'
                      and id in (
                        google_purchase.purchase_token, 'sha256:' || encode(google_purchase.token_sha256, 'hex')
                      )
                  )
                """),
            Statement(
                "erasure_google_purchase",
                """
                with \(names)
                delete from subledger.google_purchase
                using subledger.stream
                where stream.stream_id = $1
                  and google_purchase.app = stream.app
                  and coalesce(google_purchase.environment, stream.environment) = stream.environment
                  and exists (
                    select
                    from name
                    where kind = 'subscription'
                      and id in (
                        google_purchase.purchase_token, 'sha256:' || encode(google_purchase.token_sha256, 'hex')
                      )
                  )
                """),
            // Handed in for the person alone, and never answered.
            Statement(
                "erasure_google_unanswered",
                """
                with \(names)
                delete from subledger.google_purchase
                using subledger.stream
                where stream.stream_id = $1
                  and google_purchase.app = stream.app
                  and coalesce(google_purchase.environment, stream.environment) = stream.environment
                  and google_purchase.answer_position is null
                  and google_purchase.customer_ids <> '{}'
                  and google_purchase.customer_ids <@ array(select id from name where kind = 'link')
                """),
            // Purchases of others that were handed in for the person, too.
            Statement(
                "erasure_google_claim",
                """
                with \(names),
                called as (
                  select coalesce(array_agg(id), '{}') as ids
                  from name
                  where kind = 'link'
                )
                update subledger.google_purchase
                set customer_ids = array(select id from unnest(customer_ids) as id where id <> all (called.ids)),
                  account_ids = account_ids - called.ids
                from called, subledger.stream
                where stream.stream_id = $1
                  and google_purchase.app = stream.app
                  and coalesce(google_purchase.environment, stream.environment) = stream.environment
                  and google_purchase.customer_ids && called.ids
                """),
        ]

        static let quarantined = Statement(
            "erasure_quarantined",
            """
            select number, body
            from subledger.quarantine
            where app = $1
            """)

        static let removeQuarantined = Statement(
            "erasure_remove_quarantined",
            """
            with size as (
              select
              from subledger.quarantine_size
              for update
            ),
            removed as (
              delete from subledger.quarantine
              where number = any ($1::bigint[])
                and exists (select from size)
              returning body_bytes
            )
            update subledger.quarantine_size
            set bytes = bytes - (select coalesce(sum(body_bytes), 0) from removed)
            """)
    }
}
