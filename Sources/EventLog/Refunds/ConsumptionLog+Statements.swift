import Postgres

extension ConsumptionLog {
    enum Statements {
        /// What ``RefundRequest/init(_:_:)`` reads.
        private static let columns: SQL = """
            request.position, request.transaction_id, request.original_transaction_id, request.product_id,
              request.product_type, request.app_account_token, request.is_advanced_commerce, request.reason,
              request.requests, request.received_at, request.decision, request.decided_at, request.reversed_at,
              answer.state, answer.stated_by, answer.stated_at, answer.attempts, answer.asked_at, answer.problem,
              answer.sample_content_provided, answer.delivery_status, answer.consumption_percentage,
              answer.refund_preference, request.store, request.deadline_at, request.pending_refund_token,
              answer.operator_name, request.requested_at
            """

        /// The answers to `request`, if there are any.
        private static let withAnswer: SQL = """
            left join subledger.consumption_answer as answer
              on answer.stream_id = request.stream_id
              and answer.position = request.position
            """

        /// The longest time that a store gives, to find what it asked.
        private static let answerTimeMax: SQL = "interval '24 hours'"

        static let list = Statement(
            "refund_list",
            """
            select \(columns)
            from subledger.stream
            join subledger.refund_request as request using (stream_id)
            \(withAnswer)
            where stream.app = $1
              and stream.environment = $2
              and request.position > $3
              and (
                $4::text is null
                or $4 = coalesce(
                  answer.state,
                  case
                    when request.decided_at is null and request.deadline_at > $5::timestamptz then 'waiting'
                    else 'unanswered'
                  end
                )
              )
            order by request.position
            limit $6
            """)

        /// Those of several streams. Each was asked lately, so old ones are not read.
        static let latest = Statement(
            "refund_latest",
            """
            select distinct on (request.stream_id, request.position) \(columns), stream.app, stream.environment
            from unnest($1::text[], $2::text[]) as chosen (app, environment)
            join subledger.stream using (app, environment)
            cross join lateral (
              select event.stream_id,
                coalesce(
                  event.facts #>> '{transactions,0,transactionId}',
                  event.facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}'
                ) as transaction_id
              from subledger.event
              where event.stream_id = stream.stream_id
                and event.kind = 'consumption_request'
              order by event.received_at desc
              limit $3
            ) as asked
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = asked.stream_id
                and refund_request.transaction_id = asked.transaction_id
              order by refund_request.position desc
              limit 3
            ) as request
            \(withAnswer)
            order by request.stream_id, request.position desc
            """)

        static let findAll = Statement(
            "refund_find_all",
            """
            select \(columns)
            from subledger.stream
            cross join unnest($3::text[]) as asked (transaction_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id = asked.transaction_id
              order by refund_request.position desc
              limit 1
            ) as request
            \(withAnswer)
            where stream.app = $1
              and stream.environment = $2
            order by request.position desc
            """)

        /// In production and in the sandbox. Each is a look-up by its key, whatever the planner knows of the tables.
        static let orders = Statement(
            "refund_orders",
            """
            select asked.app, asked.id, bought.original_transaction_id, bought.product_id, stream.environment
            from unnest($1::text[], $2::text[]) as asked (app, id)
            join subledger.stream using (app)
            cross join lateral (
              select transaction.original_transaction_id, transaction.product_id
              from subledger.transaction
              where transaction.stream_id = stream.stream_id
                and transaction.transaction_id = asked.id
              offset 0
            ) as bought
            where stream.environment in ('production', 'sandbox')
            order by stream.environment = 'production'
            """)

        /// Google's requests without an answer.
        static let open = Statement(
            "refund_open",
            """
            select distinct on (request.position) \(columns)
            from subledger.stream
            join subledger.event as asked using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id
                  = asked.facts #>> '{notification,notification,pendingRefundReviewNotification,orderId}'
              order by refund_request.position desc
              limit 1
            ) as request
            \(withAnswer)
            where stream.app = $1
              and stream.environment = $2
              and asked.kind = 'consumption_request'
              and asked.received_at > $3::timestamptz - \(answerTimeMax)
              and request.store = 'google'
              and request.deadline_at > $3::timestamptz
              and request.decided_at is null
              and answer.position is null
            order by request.position
            """)

        static let applyPolicy = Statement(
            "consumption_apply_policy",
            """
            insert into subledger.consumption_answer (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at
            )
            select stream.stream_id, $3, $4, $5, 'policy', $6::timestamptz, policy.sample_content_provided,
              policy.delivery_status, policy.consumption_percentage, policy.refund_preference, 'pending',
              $6::timestamptz
            from subledger.stream
            join subledger.consumption_policy as policy
              on policy.app = stream.app
              and policy.product_id = $7
            where stream.app = $1
              and stream.environment = $2
            on conflict (stream_id, position) do nothing
            """)

        static let state = Statement(
            "consumption_state",
            """
            insert into subledger.consumption_answer as known (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at, operator_name
            )
            select request.stream_id, request.position, request.transaction_id, request.deadline_at,
              case when $9::text is null then 'backend' else 'operator' end, $3, $5::boolean, $6, $7::integer, $8,
              case when $6::text is null then 'no_consent' else 'pending' end,
              case when $6::text is not null then $3::timestamptz end, $9::text
            from subledger.stream
            join subledger.refund_request as request using (stream_id)
            where stream.app = $1
              and stream.environment = $2
              and request.transaction_id = $4
              and request.decided_at is null
              and request.deadline_at > $3::timestamptz
            order by request.position desc
            limit 1
            on conflict (stream_id, position) do update
            set stated_by = excluded.stated_by,
              stated_at = excluded.stated_at,
              sample_content_provided = excluded.sample_content_provided,
              delivery_status = excluded.delivery_status,
              consumption_percentage = excluded.consumption_percentage,
              refund_preference = excluded.refund_preference,
              state = excluded.state,
              next_at = excluded.next_at,
              operator_name = excluded.operator_name,
              attempts = 0,
              problem = null
            where known.state not in ('accepted', 'late')
            """)

        /// `limit 1` keeps the planner from computing the view for all purchases.
        static let applyPolicies = Statement(
            "consumption_apply_policies",
            """
            insert into subledger.consumption_answer (
              stream_id, position, transaction_id, deadline_at, stated_by, stated_at, sample_content_provided,
              delivery_status, consumption_percentage, refund_preference, state, next_at
            )
            select request.stream_id, request.position, request.transaction_id, request.deadline_at,
              'policy', $3, policy.sample_content_provided, policy.delivery_status, policy.consumption_percentage,
              policy.refund_preference, 'pending', $3
            from subledger.stream
            join subledger.event as asked using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = stream.stream_id
                and refund_request.transaction_id = asked.facts #>> '{transactions,0,transactionId}'
              order by refund_request.position desc
              limit 1
            ) as request
            join subledger.consumption_policy as policy
              on policy.app = stream.app
              and policy.product_id = request.product_id
            where stream.app = $1
              and stream.environment = $2
              and asked.kind = 'consumption_request'
              and asked.received_at > $3::timestamptz - \(answerTimeMax)
              and request.deadline_at > $3::timestamptz
              and request.decided_at is null
            on conflict (stream_id, position) do nothing
            """)

        static let giveUpLate = Statement(
            "consumption_give_up_late",
            """
            update subledger.consumption_answer as answer
            set state = 'late',
              next_at = null
            from subledger.stream
            where stream.app = $1
              and stream.environment = $2
              and answer.stream_id = stream.stream_id
              and answer.state = 'pending'
              and (
                answer.deadline_at <= $3
                or (
                  select refund_request.decided_at
                  from subledger.refund_request
                  where refund_request.stream_id = answer.stream_id
                    and refund_request.transaction_id = answer.transaction_id
                    and refund_request.position = answer.position
                ) is not null
              )
            """)

        static let due = Statement(
            "consumption_due",
            """
            select \(columns)
            from subledger.stream
            join subledger.consumption_answer as answer using (stream_id)
            cross join lateral (
              select refund_request.*
              from subledger.refund_request
              where refund_request.stream_id = answer.stream_id
                and refund_request.transaction_id = answer.transaction_id
                and refund_request.position = answer.position
              limit 1
            ) as request
            where stream.app = $1
              and stream.environment = $2
              and answer.state = 'pending'
              and answer.next_at <= $3
            order by answer.deadline_at
            limit $4
            """)

        static let record = Statement(
            "consumption_record",
            """
            update subledger.consumption_answer as answer
            set state = $5,
              asked_at = $6,
              next_at = $7,
              problem = $8,
              attempts = attempts + 1
            from subledger.stream
            where stream.app = $1
              and stream.environment = $2
              and answer.stream_id = stream.stream_id
              and answer.position = $3
              and answer.stated_at = $4
              and answer.state = 'pending'
            """)
    }
}
