import Postgres

extension ProjectionStatements {
    /// The statements that write one of the tables of periods, which have the same columns.
    struct Periods {
        /// Deletes all periods of some subscriptions.
        let deleteAll: Statement
        /// See ``ProjectionStatements/deleteTransactions``.
        let delete: Statement
        let copy: Statement

        init(of table: ProjectionTable) {
            let name = table.name
            deleteAll = Statement(
                "projector_delete_all_\(name)",
                """
                delete from \(name)
                where stream_id = $1
                  and original_transaction_id = any ($2::text[])
                """)
            delete = Statement(
                "projector_delete_\(name)",
                """
                delete from \(name)
                where stream_id = $1
                  and ctid = any (array(
                    select found.ctid
                    from unnest($2::text[], $3::text[], $4::text[]) as old (original_transaction_id, transaction_id, cause)
                    cross join lateral (
                      select period.ctid
                      from \(name) as period
                      where period.stream_id = $1
                        and period.original_transaction_id = old.original_transaction_id
                        and period.transaction_id = old.transaction_id
                        and period.cause = old.cause
                      limit 1
                    ) as found
                  ))
                """)
            copy = Statement(
                "projector_copy_\(name)",
                """
                copy \(name) (
                  stream_id, original_transaction_id, starts_at, ends_at, cause, cut, transaction_id, product_id, position,
                  payer_state, price, currency, price_period, first_start, previous_end, previous_cut, previous_product_id,
                  effective_start, effective_end, churned_at, first_month, last_month, churn_reason, reason_stated, movement,
                  run_start, payment_number, renewal
                )
                from stdin (format binary)
                """)
        }
    }
}
