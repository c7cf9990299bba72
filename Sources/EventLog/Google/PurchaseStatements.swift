import Encoding
import Postgres

/// SQL of the queue of purchases.
enum PurchaseStatements {
    /// The first eleven parameters of the statements that make purchases due.
    static func parameters(_ notices: [PurchaseToAsk], _ app: String, _ rank: PurchaseRank) -> [Parameter] {
        [
            Parameter(app), .array(notices.map(\.purchaseToken)), .array(notices.map(\.resource?.rawValue)),
            .array(notices.map(\.productId)), .array(notices.map(\.notification?.type)),
            .array(notices.map(\.notification?.eventTime)), .array(notices.map(\.noticedAt)), Parameter(rank.rawValue),
            .array(notices.map(\.notification?.statesText)), .array(notices.map(\.customerId)),
            .array(notices.map(\.accountId)),
        ]
    }

    private static let insert: SQL = """
        insert into subledger.google_purchase as known (
          app, token_sha256, purchase_token, resource, product_id, notification_type, expected_states, notified_at,
          noticed_at, rank, due_at, customer_ids, account_ids
        )
        select $1::text, sha256(convert_to(input.purchase_token, 'UTF8')), input.purchase_token, input.resource,
          input.product_id, input.notification_type, input.expected_states, input.notified_at, input.noticed_at,
          $8::integer, input.noticed_at, array_remove(array[input.customer_id], null),
          case when input.account_id is null then '{}' else jsonb_build_object(input.customer_id, input.account_id) end
        from unnest(
            $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[], $9::text[], $10::text[],
            $11::text[]
          ) as input (
            purchase_token, resource, product_id, notification_type, notified_at, noticed_at, expected_states, customer_id,
            account_id
          )
        """

    private static let merge: SQL = """
        on conflict (app, token_sha256) do update
        set notices = known.notices + 1,
          resource = coalesce(known.resource, excluded.resource),
          product_id = coalesce(excluded.product_id, known.product_id),
          notification_type = case
            when excluded.notified_at >= coalesce(known.notified_at, '-infinity') then excluded.notification_type
            else known.notification_type
          end,
          expected_states = case
            when excluded.notified_at >= coalesce(known.notified_at, '-infinity') then excluded.expected_states
            else known.expected_states
          end,
          notified_at = greatest(known.notified_at, excluded.notified_at),
          mismatches = 0,
          failures = 0,
          rank = least(known.rank, excluded.rank),
          due_at = least(known.due_at, excluded.due_at),
          customer_ids = known.customer_ids || array(
            select customer_id
            from unnest(excluded.customer_ids) as handed (customer_id)
            where customer_id <> all (known.customer_ids)
          ),
          account_ids = known.account_ids || excluded.account_ids
        """

    static let notice = Statement(
        "purchase_notice",
        """
        \(insert)
        \(merge)
        """)

    static let noticeUnknown = Statement(
        "purchase_notice_unknown",
        """
        \(insert)
        on conflict (app, token_sha256) do nothing
        """)

    /// Two processes at once: the second waits for the first, finds another position and writes nothing.
    static let takeIn = Statement(
        "purchase_take_in",
        """
        with moved as (
          insert into subledger.google_intake (stream_id, position)
          values ($12, $14)
          on conflict (stream_id) do update set position = excluded.position where google_intake.position = $13
          returning stream_id
        ),
        pending as (
          insert into subledger.google_notification (app, token_sha256, stream_id, position)
          select $1, sha256(convert_to(input.purchase_token, 'UTF8')), $12, input.position
          from unnest($15::text[], $16::bigint[]) as input (purchase_token, position)
          where exists (select from moved)
          on conflict do nothing
        )
        \(insert)
        where exists (select from moved)
        \(merge)
        """)

    static let intakes = Statement(
        "purchase_intakes",
        """
        select stream.stream_id, stream.app, stream.environment, coalesce(google_intake.position, 0),
          stream_head.position
        from subledger.stream_head
        join subledger.stream using (stream_id)
        left join subledger.google_intake using (stream_id)
        where stream.app = any ($1::text[])
          and stream_head.position > coalesce(google_intake.position, 0)
        order by stream.stream_id
        """)

    static let notifications = Statement(
        "purchase_notifications",
        """
        select event.position, event.received_at, subledger.rebuilt_body(event.stream_id, stored.body)
        from subledger.event
        cross join \(BodyPartitions.bodyOfEvent)
        where event.stream_id = $1
          and event.position > $2
          and event.position <= $3
          and event.source = 'google-rtdn'
          and octet_length(stored.body) > 0
        order by event.position
        limit $4
        """)

    private static let columns: SQL = """
        purchase_token, resource, product_id, environment, notification_type, notified_at, mismatches, failures, notices,
          answer_position, unacknowledged_since, noticed_at, rank, expected_states, array_to_json(customer_ids)::text,
          account_ids::text
        """

    /// `for update skip locked`: processes that claim at the same time get different purchases.
    static let claimDue = Statement(
        "purchase_claim_due",
        """
        with due as (
          select found.token_sha256
          from unnest($5::integer[]) as input (rank)
          cross join lateral (
            select token_sha256
            from subledger.google_purchase
            where app = $1
              and google_purchase.rank = input.rank
              and due_at <= $2
              and coalesce(asking_until, '-infinity') <= $2
            order by due_at
            limit $4
            for update skip locked
          ) as found
          order by input.rank
          limit $4
        )
        update subledger.google_purchase
        set asking_until = $3
        from due
        where google_purchase.app = $1
          and google_purchase.token_sha256 = due.token_sha256
        returning \(columns)
        """)

    static let claim = Statement(
        "purchase_claim",
        """
        update subledger.google_purchase
        set asking_until = $4
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
          and coalesce(asking_until, '-infinity') <= $3
        returning \(columns)
        """)

    static let find = Statement(
        "purchase_find",
        """
        select \(columns)
        from subledger.google_purchase
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
        """)

    static let unknown = Statement(
        "purchase_unknown",
        """
        select input.purchase_token
        from unnest($2::text[]) as input (purchase_token)
        where not exists (
          select
          from subledger.google_purchase
          where google_purchase.app = $1
            and google_purchase.token_sha256 = sha256(convert_to(input.purchase_token, 'UTF8'))
        )
        """)

    static let pendingNotifications = Statement(
        "purchase_pending_notifications",
        """
        select event.position, event.received_at, subledger.rebuilt_body(event.stream_id, stored.body), event.stream_id
        from subledger.google_notification
        join subledger.event using (stream_id, position)
        cross join \(BodyPartitions.bodyOfEvent)
        where google_notification.app = $1
          and google_notification.token_sha256 = sha256(convert_to($2, 'UTF8'))
          and octet_length(stored.body) > 0
        order by event.received_at, event.position
        """)

    static let remove = Statement(
        "purchase_remove_notifications",
        """
        delete from subledger.google_notification
        using unnest($3::integer[], $4::bigint[]) as stated (stream_id, position)
        where google_notification.app = $1
          and google_notification.token_sha256 = sha256(convert_to($2, 'UTF8'))
          and google_notification.stream_id = stated.stream_id
          and google_notification.position = stated.position
        """)

    static let requestVoids = Statement(
        "purchase_request_voids",
        """
        update subledger.google_void_audit
        set requested_at = $2
        where app = $1
          and coalesce(requested_at, '-infinity') < $2
        """)

    static let release = Statement(
        "purchase_release",
        """
        update subledger.google_purchase
        set asking_until = $3
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
        """)

    /// One that has ended meanwhile stays ended.
    static let keep = Statement(
        "purchase_keep",
        """
        update subledger.google_purchase
        set asking_until = greatest(asking_until, $3)
        from unnest($2::text[]) as asked (purchase_token)
        where app = $1
          and token_sha256 = sha256(convert_to(asked.purchase_token, 'UTF8'))
          and asking_until is not null
        """)

    /// The check is recorded once its stream is known: that of the answers, or that of notifications before the first.
    static let record = Statement(
        "purchase_record",
        """
        update subledger.google_purchase
        set asking_until = null,
          asked_at = $4,
          result = $5,
          environment = coalesce($6, environment),
          resource = coalesce($7, resource),
          product_id = coalesce($8, product_id),
          answer_position = coalesce($17, answer_position),
          customer_ids = array(
            select customer_id
            from unnest(customer_ids) with ordinality as handed (customer_id, place)
            where customer_id <> all ($9::text[])
            order by place
          ),
          account_ids = account_ids - $9::text[],
          failures = case when notices = $3 then $10 else 0 end,
          mismatches = case when notices = $3 then $11 else 0 end,
          notification_type = case when notices = $3 and $12 then null else notification_type end,
          expected_states = case when notices = $3 and $12 then null else expected_states end,
          notified_at = case when notices = $3 and $12 then null else notified_at end,
          rank = case when notices = $3 then $13 else rank end,
          due_at = case when notices = $3 then $14 else due_at end,
          unacknowledged_since = case $15::text
            when 'unchanged' then unacknowledged_since
            when 'pending' then least(unacknowledged_since, $16)
          end,
          acknowledged_at = case when $15 = 'made' then coalesce(acknowledged_at, $16) else acknowledged_at end
        where app = $1
          and token_sha256 = sha256(convert_to($2, 'UTF8'))
        """)

    /// Records a question of ``record`` among the checks of its stream, after it. If the check of the purchase was due, or no
    /// more will follow, the schedule goes on; if it has changed since, it stays as it is.
    static let recordCheck = Statement(
        "purchase_record_check",
        """
        with asked as (
          select stream.stream_id, \(PurchaseKey.sql("google_purchase.purchase_token")) as id
          from subledger.google_purchase
          join subledger.stream
            on stream.app = google_purchase.app
            and stream.environment = coalesce(google_purchase.environment, 'unknown')
          where google_purchase.app = $1
            and google_purchase.token_sha256 = sha256(convert_to($2, 'UTF8'))
        ),
        scheduled as (
          select check_schedule.stream_id, check_schedule.original_transaction_id, check_schedule.due_at,
            check_schedule.reason
          from asked
          join subledger.subscription
            on subscription.stream_id = asked.stream_id
            and subscription.original_transaction_id = asked.id
          join subledger.check_schedule
            on check_schedule.stream_id = asked.stream_id
            and check_schedule.original_transaction_id = coalesce(subscription.part_of, asked.id)
          where check_schedule.purchase_token = $2
            and (check_schedule.next_at <= $3 or $8::boolean)
        ),
        moved as (
          update subledger.check_schedule
          set next_at = $7
          from scheduled
          where check_schedule.stream_id = scheduled.stream_id
            and check_schedule.original_transaction_id = scheduled.original_transaction_id
            and check_schedule.due_at = scheduled.due_at
        )
        insert into subledger.store_check (
          stream_id, original_transaction_id, asked_at, due_at, reason, result, status, position, next_at
        )
        select asked.stream_id, asked.id, $3, scheduled.due_at, scheduled.reason, $4, $5, $6,
          case when scheduled.due_at is not null then $7::timestamptz end
        from asked
        left join scheduled using (stream_id)
        on conflict (stream_id, original_transaction_id, asked_at) do nothing
        """)

    /// Claimed purchases do not hide those that are due later.
    static let nextDue = Statement(
        "purchase_next_due",
        """
        select min(earliest.due_at)
        from unnest($1::text[], $2::integer[]) as input (app, rank)
        cross join lateral (
          (
            select due_at
            from subledger.google_purchase
            where google_purchase.app = input.app
              and google_purchase.rank = input.rank
              and coalesce(asking_until, '-infinity') <= $3
            order by due_at
            limit 1
          )
          union all
          (
            select min(greatest(due_at, asking_until))
            from (
              select due_at, asking_until
              from subledger.google_purchase
              where google_purchase.app = input.app
                and google_purchase.rank = input.rank
              order by due_at
              limit 1
            ) as first
            where asking_until > $3
          )
        ) as earliest
        """)

    static let backlog = Statement(
        "purchase_backlog",
        """
        select
          (
            select count(*)
            from (
              select
              from generate_series(0, 1) as rank
              join subledger.google_purchase
                on google_purchase.app = $1
                and google_purchase.rank = rank.rank
                and google_purchase.due_at <= $2
              limit $3
            ) as due
          ),
          (
            select min(earliest.due_at)
            from generate_series(0, 1) as rank
            cross join lateral (
              select min(due_at) as due_at
              from subledger.google_purchase
              where google_purchase.app = $1
                and google_purchase.rank = rank.rank
                and google_purchase.due_at <= $2
            ) as earliest
          ),
          (
            select min(unacknowledged_since)
            from subledger.google_purchase
            where app = $1
              and unacknowledged_since is not null
          )
        """)
}
