import Postgres

/// SQL that swaps in the rows of a rebuild.
extension RebuildStatements {
    /// The statements that swap in the rows of one table.
    ///
    /// Equal rows stay untouched, and changed ones are recorded for the change feed. Readers never wait and see either
    /// the old rows or the new ones, and views, grants and anything else that an operator has built on the tables stay
    /// intact. All columns are compared, including those of later versions, since the rebuild's tables are made like
    /// the live ones. Rows are compared by their bytes (`*=`), which costs less than by columns and is stricter.
    struct TableSwap {
        /// Whether all rows are the same. Unlike the statements that write, this one can use parallel workers.
        let isSame: Statement
        /// Deletes the live rows that differ.
        let delete: Statement
        /// Inserts the rows that are missing.
        let insert: Statement

        /// - Parameters:
        ///   - deleted: The table that records the deleted rows for the change feed.
        ///   - inserted: The table that records the inserted rows for it.
        init(_ table: ProjectionTable, deleted: SQL? = nil, inserted: SQL? = nil) {
            let name = table.name
            isSame = Statement(
                "rebuild_same_\(name)",
                """
                select
                  same.rows = (select count(*) from subledger.\(name) where stream_id = $1)
                    and same.rows = (select count(*) from subledger_rebuild.\(name) where stream_id = $1)
                from (
                  select count(*) as rows
                  from subledger.\(name) as live
                  join subledger_rebuild.\(name) as fresh
                    on fresh.stream_id = live.stream_id
                    and \(table.sameKey)
                  where live.stream_id = $1
                    and fresh *= live
                ) as same
                """)
            delete = Statement(
                "rebuild_delete_\(name)",
                Self.recording(
                    """
                    delete from subledger.\(name) as live
                    where live.stream_id = $1
                      and not exists (
                        select
                        from subledger_rebuild.\(name) as fresh
                        where fresh.stream_id = live.stream_id
                          and \(table.sameKey)
                          and fresh *= live
                      )
                    """, in: deleted))
            insert = Statement(
                "rebuild_insert_\(name)",
                Self.recording(
                    """
                    insert into subledger.\(name)
                    select fresh.*
                    from subledger_rebuild.\(name) as fresh
                    where fresh.stream_id = $1
                      and not exists (
                        select
                        from subledger.\(name) as live
                        where live.stream_id = fresh.stream_id
                          and \(table.sameKey)
                      )
                    """, in: inserted))
        }

        private static func recording(_ change: SQL, in table: SQL?) -> SQL {
            guard let table else { return change }
            return """
                with changed as (
                  \(change)
                  returning *
                )
                insert into subledger_rebuild.\(table)
                select *
                from changed
                """
        }
    }

    static let swap = [
        TableSwap(.subscription, deleted: "gone_subscription", inserted: "new_subscription"),
        TableSwap(.transaction),
        TableSwap(.accessPeriod, deleted: "gone_access_period", inserted: "new_access_period"),
        TableSwap(.refundedPeriod),
        TableSwap(.checkSchedule),
        TableSwap(.customerEdge),
        TableSwap(.customerLink),
        TableSwap(.ownership, deleted: "gone_ownership", inserted: "new_ownership"),
        TableSwap(.customerIdentity),
        TableSwap(.sharedAccountToken),
    ]
}
