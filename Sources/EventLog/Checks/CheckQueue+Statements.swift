import Postgres

/// SQL of the queue.
extension CheckQueue {
    enum Statements {
        /// An app may have the same name in both stores, and then its purchases of Google Play are in the same streams.
        private static let isOfAppStore: SQL = "purchase_token is null"

        static let streams = Statement(
            "check_streams",
            """
            select stream_id, app, environment
            from subledger.stream
            where app = any ($1::text[])
              and environment in ('production', 'sandbox')
            order by stream_id
            """)

        /// `for update skip locked`: processes that claim at the same time get different checks.
        static let claimDue = Statement(
            "check_claim_due",
            """
            with due as (
              select found.original_transaction_id
              from (select true as has_receipt union all select false where $4::boolean) as asked
              cross join lateral (
                select original_transaction_id, next_at
                from subledger.check_schedule
                where stream_id = $1
                  and check_schedule.has_receipt = asked.has_receipt
                  and next_at <= $2
                  and coalesce(asking_until, '-infinity') <= $2
                  and \(isOfAppStore)
                order by next_at
                limit $3
                for update skip locked
              ) as found
              order by found.next_at
              limit $3
            )
            update subledger.check_schedule
            set asking_until = $5
            from due
            where check_schedule.stream_id = $1
              and check_schedule.original_transaction_id = due.original_transaction_id
            returning check_schedule.original_transaction_id, due_at, reason, next_at
            """)

        static let claimUntil = Statement(
            "check_claim_until",
            """
            update subledger.check_schedule
            set asking_until = $3
            where stream_id = $1
              and original_transaction_id = any ($2::text[])
              and asking_until is not null
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
                and \(isOfAppStore)
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
              and \(isOfAppStore)
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
                and \(isOfAppStore)
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

        /// When the first of the claimed checks that were due is asked again, if its process dies.
        static let nextClaimEnd = Statement(
            "check_next_claim_end",
            """
            select min(claimed.asking_until)
            from unnest($1::integer[]) as input (stream_id)
            cross join lateral (
              select asking_until
              from subledger.check_schedule
              where check_schedule.stream_id = input.stream_id
                and next_at <= $2
                and \(isOfAppStore)
              order by next_at
              limit $3
            ) as claimed
            where claimed.asking_until > $2
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
            set next_at = case when due_at = $4 then $9 else next_at end,
              asking_until = null
            where stream_id = $1
              and original_transaction_id = $2
              and $4 is not null
            """)
    }
}
