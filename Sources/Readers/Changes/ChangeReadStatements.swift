import Postgres

/// The SQL of reading changes. Every statement stays inside one stream.
enum ChangeReadStatements {
    /// Where the changes of a stream end. No row if there is no such stream.
    static let end = Statement(
        "change_end",
        """
        select stream.stream_id, coalesce(change_head.number, 0), change_head.told_until, clock_timestamp()
        from subledger.stream
        left join subledger.change_head using (stream_id)
        where stream.app = $1
          and stream.environment = $2
        """)

    static let page = Statement(
        "change_page",
        """
        select number, told_at, kind, original_transaction_id, at, cause, position, product_id, until, auto_renew,
          next_product_id
        from subledger.change
        where stream_id = $1
          and number > $2
          and number <= $3
        order by number
        limit $4
        """)

    /// All ids of the customers of some lines.
    static let keysOfLines = Statement(
        "change_keys_of_lines",
        """
        select line.id, member.kind, member.id
        from subledger.customer_identity as line
        join subledger.customer_identity as member
          on member.stream_id = line.stream_id
          and member.customer_id = line.customer_id
        where line.stream_id = $1
          and line.kind = 'subscription'
          and line.id = any ($2::text[])
        """)

    static let entitlementsOfLines = Statement(
        "change_entitlements_of_lines",
        """
        select line.id, given.entitlement, given.until, given.product_ids, given.original_transaction_ids, given.why
        from subledger.customer_identity as line
        cross join lateral subledger.customer_entitlement($1, $3, line.customer_id, $4) as given
        where line.stream_id = $1
          and line.kind = 'subscription'
          and line.id = any ($2::text[])
        order by line.id, given.entitlement collate "C"
        """)
}
