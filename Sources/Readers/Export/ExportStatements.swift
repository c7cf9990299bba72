import Postgres

/// SQL of exports. A result has the table, the key of what a batch counts, and the values of the table's columns.
enum ExportStatements {
    static let streams = Statement(
        "export_streams",
        """
        select stream.stream_id, stream.app, stream.environment, stream_head.position, stream_head.chain,
          coalesce(checkpoint.position, 0), coalesce(change_head.number, 0),
          sha256(convert_to(coalesce(concat_ws(
            chr(10), checkpoint.projection_version, checkpoint.ownership, checkpoint.products
          ), ''), 'UTF8'))
        from subledger.stream
        join subledger.stream_head using (stream_id)
        left join subledger.checkpoint using (stream_id)
        left join subledger.change_head using (stream_id)
        order by stream.app, stream.environment
        """)

    static let chain = Statement(
        "export_chain",
        """
        select chain
        from subledger.event
        where stream_id = $1
          and position = $2
        """)

    static let events = inserted("events", "event", by: "position", ExportTable.events.values)
    static let changes = inserted("changes", "change", by: "number", ExportTable.changes.values)

    /// Rows of a table that are only ever inserted, from a number of the stream to another one.
    private static func inserted(_ name: SQL, _ relation: SQL, by number: SQL, _ values: SQL) -> Statement {
        Statement(
            "export_\(name)",
            """
            select '\(name)', array[row.\(number)::text], \(values)
            from subledger.\(relation) as row
            where row.stream_id = $1
              and row.\(number) > $2
              and row.\(number) <= $3
            order by row.\(number)
            limit $4
            """)
    }

    /// The current rows of a table: all of them, or those of what has changed since another export.
    static func current(_ table: ExportTable, areAll: Bool) -> Statement {
        switch table {
        case .customers: areAll ? customers : changedCustomers
        case .revenueCat: areAll ? purchases : changedPurchases
        default: areAll ? subscriptions : changedSubscriptions
        }
    }

    private static let subscriptions = all("subscriptions", subscriptionRows)
    private static let changedSubscriptions = changed("subscriptions", subscriptionRows)
    private static let purchases = all("purchases", revenueCatRows)
    private static let changedPurchases = changed("purchases", revenueCatRows)

    /// - Parameter rows: Those of the subscriptions in `part`.
    private static func all(_ name: SQL, _ rows: SQL) -> Statement {
        Statement(
            "export_\(name)",
            """
            with part as materialized (
              select original_transaction_id as id
              from subledger.subscription
              where stream_id = $1
                and original_transaction_id > $2
              order by original_transaction_id
              limit $3
            )
            \(rows)
            """)
    }

    /// Those with later events, and those with changes of another cause: the clock, a customer, settings.
    private static func changed(_ name: SQL, _ rows: SQL) -> Statement {
        Statement(
            "export_changed_\(name)",
            """
            with part as materialized (
              select id
              from (
                (
                  select original_transaction_id as id
                  from subledger.subscription
                  where stream_id = $1
                    and original_transaction_id > $2
                    and position > $4
                  order by original_transaction_id
                  limit $3
                )
                union
                (
                  select subscription.original_transaction_id
                  from (
                    select distinct original_transaction_id
                    from subledger.change
                    where stream_id = $1
                      and number > $5
                  ) as change
                  join subledger.subscription
                    on subscription.stream_id = $1
                    and subscription.original_transaction_id = change.original_transaction_id
                  where subscription.original_transaction_id > $2
                  order by subscription.original_transaction_id
                  limit $3
                )
              ) as changed
              order by id
              limit $3
            )
            \(rows)
            """)
    }

    /// All rows of the subscriptions in `part`.
    private static let subscriptionRows: SQL = """
        select name, key, fields
        from (
        \(subscriptionTables)
        ) as found
        order by place, key, second
        """

    private static let subscriptionTables = [
        rows("subscriptions", "1", "subscription", by: "''", ExportTable.subscriptions.values),
        rows("transactions", "2", "transaction", by: "row.transaction_id", ExportTable.transactions.values),
        rows("periods", "3", "access_period", by: "row.transaction_id || row.cause", ExportTable.periods.values),
        rows("refunded_periods", "4", "refunded_period", by: "row.transaction_id", ExportTable.refundedPeriods.values),
        rows(
            "owners", "5", "ownership", by: "concat(row.starts_at, row.customer_kind, row.customer_id)",
            ExportTable.owners.values),
    ].joined(separator: " union all ")

    /// The rows of the subscriptions in `part` in one table, with the place of the table and the order of the rows.
    private static func rows(_ name: SQL, _ place: SQL, _ relation: SQL, by order: SQL, _ values: SQL) -> SQL {
        """
        select '\(name)' as name, \(place) as place, array[part.id] as key, \(order) as second, \(values) as fields
        from part
        join subledger.\(relation) as row
          on row.stream_id = $1
          and row.original_transaction_id = part.id
        """
    }

    private static let customers = Statement(
        "export_customers",
        """
        with part as materialized (
          select distinct kind, id
          from subledger.customer_identity
          where stream_id = $1
            and (kind, id) > ($2, $3)
          order by kind, id
          limit $4
        )
        \(customerRows)
        """)

    /// The ids of customers with news: the owners of changed subscriptions, and the customers whom links and changes name.
    /// An id that leads to another customer now is an id of that one.
    private static let changedCustomers = Statement(
        "export_changed_customers",
        """
        with named as materialized (
          select ownership.customer_kind, ownership.customer_id
          from (
            select original_transaction_id
            from subledger.subscription
            where stream_id = $1
              and position > $5
            union
            select original_transaction_id
            from subledger.change
            where stream_id = $1
              and number > $6
          ) as changed
          join subledger.ownership
            on ownership.stream_id = $1
            and ownership.original_transaction_id = changed.original_transaction_id
          union
          select 'link', facts #>> '{link,backendCustomerId}'
          from subledger.event
          where stream_id = $1
            and position > $5
            and kind = 'link'
          union
          select customer_kind, customer_id
          from subledger.change
          where stream_id = $1
            and number > $6
            and customer_kind is not null
        ),
        part as materialized (
          select distinct own.kind, own.id
          from named
          join subledger.customer_identity as own
            on own.stream_id = $1
            and own.customer_kind = named.customer_kind
            and own.customer_id = named.customer_id
          where (own.kind, own.id) > ($2, $3)
          order by own.kind, own.id
          limit $4
        )
        \(customerRows)
        """)

    /// All rows of the ids in `part`.
    private static let customerRows: SQL = """
        select 'customers', array[part.kind, part.id] as key, \(ExportTable.customers.values)
        from part
        join subledger.customer_identity as row
          on row.stream_id = $1
          and row.kind = part.kind
          and row.id = part.id
        order by key, row.starts_at
        """
}
