/// The columns of ``Subscriptions/RenewalRun``, compared with window functions over each subscription.
enum RenewalRunColumns {
    /// Rows with other values than the right ones, and outcomes that occur in no row.
    static let wrong: StaticString = """
        with held as (
          table subledger.access_period
          union all
          table subledger.refunded_period
        ), period as (
          select
            held.*,
            coalesce(effective_start, starts_at) as began,
            (
              transaction.offer_type is not null
                or transaction.promotional_offer_id is not null
                or transaction.offer_code_ref_name is not null
                or coalesce(transaction.is_in_intro_offer_period, false)
            ) as has_offer
          from held
          join subledger.transaction using (stream_id, original_transaction_id, transaction_id)
          where payer_state in ('paying', 'trial')
            and coalesce(effective_start, starts_at) < coalesce(effective_end, ends_at)
        ), neighbour as (
          select
            *,
            lag(product_id) over subscription as product_before,
            lead(product_id) over subscription as next_product,
            lead(movement) over subscription as next_movement,
            lead(began) over subscription as next
          from period
          window subscription as (partition by stream_id, original_transaction_id order by starts_at, transaction_id)
        ), run as (
          select
            *,
            count(*) filter (where movement = 'resubscribed' or product_before is distinct from product_id) over (
              partition by stream_id, original_transaction_id order by starts_at, transaction_id
            ) as run
          from neighbour
        ), payment as (
          select
            *,
            count(*) filter (where not has_offer) over (
              partition by stream_id, original_transaction_id, run order by starts_at, transaction_id
            ) > 0 as is_counted
          from run
          where payer_state = 'paying'
        ), numbered as (
          select
            *,
            min(began) over numbers as right_start,
            row_number() over numbers as right_number,
            case
              when next_movement = 'resubscribed' then (
                select held.churn_reason
                from held
                where held.stream_id = payment.stream_id
                  and held.original_transaction_id = payment.original_transaction_id
                  and held.churned_at < payment.next
                order by held.churned_at desc
                limit 1
              )
              when next is not null and next_product is distinct from product_id then 'changed_plan'
              when exists (
                select
                from held
                where held.stream_id = payment.stream_id
                  and held.original_transaction_id = payment.original_transaction_id
                  and held.cause = 'grace'
                  and held.starts_at = payment.ends_at
                  and held.ends_at >= payment.next
              ) then 'in_grace'
              when next > ends_at then 'later'
            end as right_renewal
          from payment
          where is_counted
          window numbers as (
            partition by stream_id, original_transaction_id, run order by starts_at, transaction_id
          )
        )
        select format('%s %s %s', held.original_transaction_id, held.transaction_id, held.cause)
        from held
        left join numbered using (stream_id, original_transaction_id, transaction_id, cause)
        where (held.run_start, held.payment_number, held.renewal)
          is distinct from (numbered.right_start, numbered.right_number, numbered.right_renewal)
        union all
        select format('%s %s', subscription.original_transaction_id, last_paid_end)
        from subledger.subscription
        left join (
          select stream_id, original_transaction_id, max(ends_at) as right_end
          from held
          where cause <> 'grace'
            and payer_state is not null
          group by stream_id, original_transaction_id
        ) as paid using (stream_id, original_transaction_id)
        where last_paid_end is distinct from right_end
        union all
        select format('no %s', renewal)
        from unnest(array['in_grace', 'later', 'changed_plan', 'voluntary']) as renewal
        where renewal not in (select held.renewal from held where held.renewal is not null)
        """
}
