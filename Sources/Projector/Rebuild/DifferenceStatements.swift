import Postgres

/// SQL that compares the rows of a rebuild with the live ones.
enum DifferenceStatements {
    /// Holds the rows that differ, as JSON. Only the connection that compares uses it.
    static let makeTable: SQL = """
        create unlogged table subledger_rebuild.difference (
          stream_id               integer not null,
          original_transaction_id text    not null,
          place                   integer not null,
          relation                text    not null,
          row_key                 text    not null,
          live                    jsonb,
          rebuilt                 jsonb,
          primary key (stream_id, original_transaction_id, place, row_key)
        );
        comment on table subledger_rebuild.difference is 'Rows that a rebuild would change';
        grant select, insert, delete on subledger_rebuild.difference to subledger_projector
        """

    /// The statements that compare one table.
    struct TableComparison {
        /// See ``RebuildStatements/TableSwap/isSame``.
        let isSame: Statement
        /// Records the rows that differ.
        let record: Statement
        /// What comes before each comparison: what does not follow from the log is copied, and what was recorded is forgotten.
        let prepare: [Statement]
        /// How often the rows are compared before a difference counts. The poller claims and records checks at any time,
        /// so a row of the schedule may have changed since its claim was copied.
        let passes: Int

        init(_ table: ProjectionTable, _ place: SQL, isSame: Statement) {
            self.isSame = isSame
            let name = table.name
            passes = table.isWrittenByPoller ? 3 : 1
            prepare =
                table.isWrittenByPoller
                ? [
                    RebuildStatements.restoreChecks, RebuildStatements.restoreClaims,
                    Statement(
                        "difference_forget_\(name)",
                        """
                        delete from subledger_rebuild.difference
                        where stream_id = $1
                          and relation = '\(name)'
                        """),
                ] : []
            record = Statement(
                "difference_record_\(name)",
                """
                insert into subledger_rebuild.difference (
                  stream_id, original_transaction_id, place, relation, row_key, live, rebuilt
                )
                select $1, \(table.subscription), \(place), '\(name)', \(table.row), to_jsonb(live), to_jsonb(fresh)
                from (
                  select *
                  from subledger.\(name)
                  where stream_id = $1
                ) as live
                full join (
                  select *
                  from subledger_rebuild.\(name)
                  where stream_id = $1
                ) as fresh on \(table.sameKey)
                where not coalesce(fresh *= live, false)
                """)
        }
    }

    private static let places: [SQL] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]

    /// All tables, in the order in which their differences are reported.
    static let tables = zip(zip(ProjectionTable.all, places), RebuildStatements.swap).map { table, swap in
        TableComparison(table.0, table.1, isSame: swap.isSame)
    }

    /// A page of the rows that differ, after one of them.
    static let page = Statement(
        "difference_page",
        """
        select original_transaction_id, place, relation, row_key, live::text, rebuilt::text
        from subledger_rebuild.difference
        where stream_id = $1
          and (original_transaction_id, place, row_key) > ($2, $3, $4)
        order by original_transaction_id, place, row_key
        limit $5
        """)

    /// The rebuilt facts of some subscriptions, with the products by which they were folded.
    static let facts = Statement(
        "difference_facts",
        """
        select subscription.original_transaction_id, subscription.facts, checkpoint.products
        from subledger_rebuild.subscription
        join subledger_rebuild.checkpoint using (stream_id)
        where subscription.stream_id = $1
          and subscription.original_transaction_id = any ($2::text[])
        """)
}
