import Postgres

/// SQL of the queue.
extension CheckQueue {
    enum Statements {
        /// An app may have the same name in both stores, and then its purchases of Google Play are in the same streams. The
        /// App Store is not asked about those: its ids are numbers.
        private static let isOfAppStore: SQL = "(check_schedule.has_receipt or original_transaction_id !~ '[^0-9]')"

        static let streams = Statement(
            "check_streams",
            """
            select stream_id, app, environment
            from subledger.stream
            where app = any ($1::text[])
              and environment in ('production', 'sandbox')
            order by stream_id
            """)

        static let due = Statement(
            "check_due",
            """
            select found.original_transaction_id, found.due_at, found.reason, found.next_at
            from (select true as has_receipt union all select false where $4::boolean) as asked
            cross join lateral (
              select original_transaction_id, due_at, reason, next_at
              from subledger.check_schedule
              where stream_id = $1
                and check_schedule.has_receipt = asked.has_receipt
                and next_at <= $2
                and \(isOfAppStore)
              order by next_at
              limit $3
            ) as found
            order by found.next_at
            limit $3
            """)

        /// `offset 0` makes the planner look each id up.
        static let dueAmong = Statement(
            "check_due_among",
            """
            select found.original_transaction_id, found.due_at, found.reason, found.next_at
            from unnest($3::text[]) as input (id)
            cross join lateral (
              select original_transaction_id, due_at, reason, has_receipt, next_at
              from subledger.check_schedule
              where stream_id = $1
                and original_transaction_id = input.id
              offset 0
            ) as found
            where (found.has_receipt or $4::boolean)
              and found.next_at <= $2
            order by found.next_at
            """)

        static let nextAt = Statement(
            "check_next_at",
            """
            select next_at
            from subledger.check_schedule
            where stream_id = $1
              and original_transaction_id = $2
              and (has_receipt or $3::boolean)
            """)

        static let nextDue = Statement(
            "check_next_due",
            """
            select min(least(with_receipt.next_at, without_receipt.next_at))
            from subledger.stream_head
            cross join lateral (
              select min(next_at) as next_at
              from subledger.check_schedule
              where check_schedule.stream_id = stream_head.stream_id
                and has_receipt
                and next_at > $2
            ) as with_receipt
            cross join lateral (
              select min(next_at) as next_at
              from subledger.check_schedule
              where check_schedule.stream_id = stream_head.stream_id
                and stream_head.stream_id = any ($3::integer[])
                and not has_receipt
                and next_at > $2
                and \(isOfAppStore)
            ) as without_receipt
            where stream_head.stream_id = any ($1::integer[])
            """)

        static let failures = Statement(
            "check_failures",
            """
            select count(*)
            from (
              select
              from subledger.store_check
              where stream_id = $1
                and original_transaction_id = $2
                and asked_at > coalesce(
                  (
                    select max(asked_at)
                    from subledger.store_check
                    where stream_id = $1
                      and original_transaction_id = $2
                      and result in ('unchanged', 'appended')
                  ),
                  '-infinity'
                )
              limit $3
            ) as failed
            """)

        /// The order makes PostgreSQL count in the index.
        static let backlog = Statement(
            "check_backlog",
            """
            select
              (
                select count(*)
                from (
                  select
                  from subledger.check_schedule
                  where stream_id = $1
                    and has_receipt = any (asked.kinds)
                    and next_at <= $2
                    and \(isOfAppStore)
                  order by has_receipt, next_at
                  limit $3
                ) as due
              ),
              (
                select min(earliest.next_at)
                from unnest(asked.kinds) as kind (has_receipt)
                cross join lateral (
                  select min(next_at) as next_at
                  from subledger.check_schedule
                  where stream_id = $1
                    and check_schedule.has_receipt = kind.has_receipt
                    and \(isOfAppStore)
                ) as earliest
              )
            from (select case when $4::boolean then array[true, false] else array[true] end as kinds) as asked
            """)

        /// If a projector or a rebuild writes the row at the same moment, the check may be made once more.
        static let record = Statement(
            "check_record",
            """
            with recorded as (
              insert into subledger.store_check (
                stream_id, original_transaction_id, asked_at, due_at, reason, result, status, position, next_at
              )
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
              on conflict (stream_id, original_transaction_id, asked_at) do nothing
            )
            update subledger.check_schedule
            set next_at = $9
            where stream_id = $1
              and original_transaction_id = $2
              and due_at = $4
            """)
    }
}
