import EventLog
import Postgres

/// SQL of a rebuild that folds whole histories. As in ``ProjectionStatements``, projection tables are named without a schema.
enum HistoryStatements {
    /// Keeps the tables of this rebuild until the end of the transaction, and returns the version of their checkpoint:
    /// another one if they are those of another rebuild. Several transactions can hold them at a time.
    static let hold = Statement(
        "history_hold",
        """
        select xmin::text
        from checkpoint
        where stream_id = $1
        for key share
        """)

    /// What the events of a range mention, and whether each states links of a customer. Skipped events mention nothing.
    static let mentions = Statement(
        "history_mentions",
        """
        select event.position,
          case
            when projector_skip.position is null then \(AuditStatements.mentioned)
            else '[]'
          end::text,
          event.facts ? 'link'
        from subledger.event
        left join subledger.projector_skip using (stream_id, position)
        where event.stream_id = $1
          and event.position > $2
          and event.position <= $3
        """)

    /// The purchases of Google Play that the events of a range link to others, each with the other one.
    static let linkedPurchases = Statement(
        "history_linked_purchases",
        """
        select distinct found.purchase ->> 'purchaseToken', found.purchase ->> 'linkedPurchaseToken'
        from subledger.event
        cross join lateral jsonb_path_query(
          event.facts, '$.purchases[*] ? (exists (@.linkedPurchaseToken))'
        ) as found (purchase)
        where event.stream_id = $1
          and event.position > $2
          and event.position <= $3
          and event.facts ? 'purchases'
        """)

    /// A page of the transactions that several subscriptions have, after one of them, each with all of these.
    static let sharedTransactions = Statement(
        "history_shared_transactions",
        """
        select shared.transaction_id, found.original_transaction_id
        from (
          select transaction_id
          from transaction
          where stream_id = $1
            and transaction_id > $2
          group by transaction_id
          having count(*) > 1
          order by transaction_id
          limit $3
        ) as shared
        cross join lateral (
          select transaction.original_transaction_id
          from transaction
          where transaction.stream_id = $1
            and transaction.transaction_id = shared.transaction_id
          offset 0
        ) as found
        order by shared.transaction_id
        """)

    /// A page of the subscriptions in order of id, after an id.
    static let pageSubscriptions = Statement(
        "history_page_subscriptions",
        """
        select 'subscription', original_transaction_id
        from subscription
        where stream_id = $1
          and original_transaction_id > $2
        order by original_transaction_id
        limit $3
        """)

    /// A page of the customers that have or had links, in order of id, after an id.
    static let pageLinkedCustomers = Statement(
        "history_page_linked_customers",
        """
        select distinct 'link', backend_customer_id
        from customer_link
        where stream_id = $1
          and backend_customer_id > $2
        order by backend_customer_id
        limit $3
        """)
}
