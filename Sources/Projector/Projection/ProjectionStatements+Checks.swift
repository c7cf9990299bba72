import EventLog
import Postgres

/// SQL for the schedule of checks.
extension ProjectionStatements {
    /// Writes the checks of some subscriptions. A check that was made already and is not due again at once keeps the
    /// time that its latest record names: records outlive the rows of a projection.
    static let writeChecks = Statement(
        "projector_write_checks",
        """
        insert into check_schedule (
          stream_id, original_transaction_id, due_at, reason, has_receipt, purchase_token, next_at
        )
        select $1::integer, new.original_transaction_id, new.due_at, new.reason, new.has_receipt,
          new.purchase_token,
          case when latest.asked_at is null then new.due_at else latest.next_at end
        from (
          select unnest($2::text[]) as original_transaction_id, unnest($3::timestamptz[]) as due_at,
            unnest($4::text[]) as reason, unnest($5::boolean[]) as has_receipt, unnest($6::text[]) as purchase_token
        ) as new
        left join lateral (
          select store_check.asked_at, store_check.next_at
          from subledger.store_check
          where store_check.stream_id = $1
            and store_check.original_transaction_id = \(PurchaseKey.sql("new.purchase_token", else: "new.original_transaction_id"))
            and store_check.due_at = new.due_at
          order by store_check.asked_at desc
          limit 1
        ) as latest on true
        on conflict (stream_id, original_transaction_id) do update
        set due_at = excluded.due_at,
          reason = excluded.reason,
          has_receipt = excluded.has_receipt,
          purchase_token = excluded.purchase_token,
          next_at = excluded.next_at
        """)

    static let deleteChecks = Statement(
        "projector_delete_checks",
        """
        delete from check_schedule
        where stream_id = $1
          and original_transaction_id = any ($2::text[])
        """)
}
