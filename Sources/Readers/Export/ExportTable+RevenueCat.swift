import Postgres

/// A row for each purchase and renewal, with the columns of a transaction export of RevenueCat, version 5, in its order.
///
/// Source: RevenueCat, "Data Export Version 5". What the ledger does not know is null.
extension ExportTable {
    static let revenueCatColumns = [
        ExportColumn("rc_original_app_user_id"), ExportColumn("rc_last_seen_app_user_id_alias"),
        ExportColumn("country"), ExportColumn("country_source"), ExportColumn("product_identifier"),
        ExportColumn("product_display_name"), ExportColumn("product_duration"), ExportColumn("start_time", .second),
        ExportColumn("end_time", .second), ExportColumn("grace_period_end_time", .second),
        ExportColumn("effective_end_time", .second), ExportColumn("store"), ExportColumn("is_auto_renewable", .boolean),
        ExportColumn("is_trial_period", .boolean), ExportColumn("is_in_intro_offer_period", .boolean),
        ExportColumn("is_sandbox", .boolean), ExportColumn("price_in_usd", .number),
        ExportColumn("purchase_price_in_usd", .number), ExportColumn("takehome_percentage", .number),
        ExportColumn("tax_percentage", .number), ExportColumn("commission_percentage", .number),
        ExportColumn("store_transaction_id"), ExportColumn("original_store_transaction_id"),
        ExportColumn("refunded_at", .second), ExportColumn("unsubscribe_detected_at", .second),
        ExportColumn("billing_issues_detected_at", .second), ExportColumn("purchased_currency"),
        ExportColumn("price_in_purchased_currency", .number),
        ExportColumn("purchase_price_in_purchased_currency", .number), ExportColumn("entitlement_identifiers", .json),
        ExportColumn("renewal_number", .number), ExportColumn("is_trial_conversion", .boolean),
        ExportColumn("presented_offering"), ExportColumn("ownership_type"),
        ExportColumn("reserved_subscriber_attributes", .json), ExportColumn("custom_subscriber_attributes", .json),
        ExportColumn("platform"), ExportColumn("experiment_id"), ExportColumn("experiment_variant"),
        ExportColumn("updated_at", .second), ExportColumn("offer"), ExportColumn("offer_type"),
        ExportColumn("first_seen_time", .second), ExportColumn("auto_resume_time", .second),
    ]
}

extension ExportStatements {
    /// The purchases of the subscriptions in `part`; of one without a purchase, a row without fields.
    ///
    /// Of copies that restoring made, one counts, and of purchases that show one order. Taxes and commissions are those that
    /// Google's order states: the columns cannot say that a value is an estimate. An uncorrelated subquery with the
    /// countries is computed once.
    static let revenueCatRows: SQL = """
        select 'revenuecat_transactions', array[part.id],
          case when row.store_transaction_id is null then '{}' else \(ExportTable.revenueCat.values) end
        from part
        left join lateral (
          select
            coalesce(owner.customer_id, part.id) as rc_original_app_user_id,
            coalesce(owner.customer_id, part.id) as rc_last_seen_app_user_id_alias,
            coalesce((
              select jsonb_object_agg(analyst.country(code), code)
              from (
                select chr(65 + number / 26) || chr(65 + number % 26) as code
                from generate_series(0, 675) as number
              ) as two
              where analyst.country(code) <> code
            ) ->> analyst.country(sold.storefront), sold.storefront) as country,
            case when sold.storefront is not null then 'from_sdk' end as country_source,
            sold.product_id as product_identifier,
            product.name as product_display_name,
            product.duration as product_duration,
            sold.purchase_date as start_time,
            case when sold.is_auto_renewable then sold.expires_date end as end_time,
            access.grace_ends_at as grace_period_end_time,
            coalesce(access.ends_at, sold.revocation_date, sold.expires_date) as effective_end_time,
            case
              when sold.ownership = 'GRANTED' then 'promotional'
              when analyst.store(part.id) = 'google' then 'play_store'
              else 'app_store'
            end as store,
            sold.is_auto_renewable,
            sold.is_trial as is_trial_period,
            not sold.is_trial and coalesce(sold.offer_type = 1, sold.is_in_intro_offer_period, false)
              as is_in_intro_offer_period,
            stream.environment <> 'production' as is_sandbox,
            round(money.net * rate.dollars, 4) as price_in_usd,
            round(money.gross * rate.dollars, 4) as purchase_price_in_usd,
            round(1 - stated.commission, 4) as takehome_percentage,
            round(stated.tax, 4) as tax_percentage,
            round(stated.commission, 4) as commission_percentage,
            sold.transaction_id as store_transaction_id,
            case analyst.store(part.id) when 'google' then sold.first_transaction_id else part.id end
              as original_store_transaction_id,
            case when sold.refund = 'full' or not sold.is_upgraded and sold.refund = 'part' then sold.revocation_date end
              as refunded_at,
            case when sold.is_last and not subscription.auto_renew then intent.switched_off_at end
              as unsubscribe_detected_at,
            coalesce(
              access.grace_starts_at, case when sold.is_last and subscription.in_billing_retry then sold.expires_date end
            ) as billing_issues_detected_at,
            sold.currency as purchased_currency,
            money.net as price_in_purchased_currency,
            money.gross as purchase_price_in_purchased_currency,
            coalesce((
              select json_agg(own.entitlement order by own.entitlement)
              from subledger.product_entitlement as own
              where own.app = stream.app
                and own.product_id = sold.product_id
            ), json_build_array(sold.product_id)) as entitlement_identifiers,
            sold.renewal_number,
            not sold.is_trial and sold.follows_trial as is_trial_conversion,
            null as presented_offering,
            case when sold.ownership in ('PURCHASED', 'FAMILY_SHARED') then sold.ownership end as ownership_type,
            null as reserved_subscriber_attributes,
            null as custom_subscriber_attributes,
            null as platform,
            null as experiment_id,
            null as experiment_variant,
            reported.received_at as updated_at,
            coalesce(sold.offer_identifier, sold.promotional_offer_id, sold.offer_code_ref_name) as offer,
            case sold.offer_type
              when 1 then 'introductory' when 2 then 'promotional' when 3 then 'offer_code' when 4 then 'win_back'
            end as offer_type,
            sold.first_seen_time,
            case when sold.is_last then intent.resumes_at end as auto_resume_time
          from (
            select
              bought.*, paid.refund, paid.refunded_amount, paid.tax as stated_tax,
              paid.developer_revenue as stated_revenue,
              row_number() over ordered as renewal_number,
              coalesce(lag(bought.is_trial) over ordered, false) as follows_trial,
              lead(bought.transaction_id) over ordered is null as is_last,
              first_value(bought.transaction_id) over ordered as first_transaction_id,
              min(bought.purchase_date) over ordered as first_seen_time
            from (
              select
                transaction.*,
                coalesce(offer_discount_type = 'FREE_TRIAL', is_trial_period, false) as is_trial,
                coalesce(in_app_ownership_type, 'PURCHASED') as ownership,
                coalesce(type, 'Auto-Renewable Subscription') = 'Auto-Renewable Subscription'
                  and expires_date is not null as is_auto_renewable
              from subledger.transaction
              where stream_id = $1
                and original_transaction_id = part.id
                and purchase_date is not null
            ) as bought
            left join analyst.refund_rate_detail as paid
              on paid.stream_id = $1
              and paid.original_transaction_id = bought.original_transaction_id
              and paid.transaction_id = bought.transaction_id
            where paid.transaction_id is not null
              or bought.is_trial
              or bought.ownership in ('FAMILY_SHARED', 'ASSIGNED', 'GRANTED')
            window ordered as (order by bought.purchase_date, bought.transaction_id)
          ) as sold
          join subledger.stream on stream.stream_id = $1
          join subledger.subscription on subscription.stream_id = $1 and subscription.original_transaction_id = part.id
          join subledger.event as reported on reported.stream_id = $1 and reported.position = subscription.position
          left join subledger.product on product.app = stream.app and product.product_id = sold.product_id
          left join lateral (
            select customer_id
            from subledger.ownership
            where stream_id = $1
              and original_transaction_id = part.id
              and ends_at = 'infinity'
              and reason <> 'seat'
            order by starts_at, customer_kind, customer_id
            limit 1
          ) as owner on true
          cross join lateral (
            select
              max(ends_at) as ends_at,
              min(starts_at) filter (where cause = 'grace') as grace_starts_at,
              max(ends_at) filter (where cause = 'grace') as grace_ends_at
            from subledger.access_period
            where stream_id = $1
              and original_transaction_id = part.id
              and transaction_id = sold.transaction_id
          ) as access
          cross join lateral (
            -- When renewal was last switched off, and until when Google Play pauses the subscription.
            select
              min(coalesce(at, stated_at)) filter (where not is_on and stated_at > last_on) as switched_off_at,
              max(resumes_at) filter (where stated_at = last) as resumes_at
            from (
              select
                intents.*,
                coalesce(max(stated_at) filter (where is_on) over (), '-infinity') as last_on,
                max(stated_at) over () as last
              from (
                select
                  (entry -> 'fact' ->> 'autoRenewStatus')::boolean as is_on,
                  (entry -> 'fact' ->> 'autoRenewStatusChangeDate')::timestamptz as at,
                  (entry ->> 'statedAt')::timestamptz as stated_at,
                  null::timestamptz as resumes_at
                from jsonb_array_elements(subscription.facts::jsonb -> 'renewals') as entry
                union all
                select
                  jsonb_path_exists(entry, '$.fact.items[*] ? (@.autoRenewing == true)'),
                  (entry -> 'fact' ->> 'cancelTime')::timestamptz,
                  (entry ->> 'statedAt')::timestamptz,
                  (entry -> 'fact' ->> 'autoResumeTime')::timestamptz
                from jsonb_array_elements(subscription.facts::jsonb -> 'purchases') as entry
              ) as intents
            ) as intents
          ) as intent
          cross join lateral (
            select
              round(sold.price / 1000.0, 3) as gross,
              case
                when sold.refund is null then round(sold.price / 1000.0, 3)
                else round(sold.price / 1000.0, 3) - sold.refunded_amount
              end as net
          ) as money
          cross join lateral (
            select
              case when sold.price > 0 then sold.stated_tax * 1000 / sold.price end as tax,
              case when sold.price > 0 and sold.refund is null
                then 1 - (sold.stated_revenue + sold.stated_tax) * 1000 / sold.price
              end as commission
          ) as stated
          left join lateral analyst.rate_on(sold.currency, (sold.purchase_date at time zone 'UTC')::date) as own on true
          left join lateral analyst.rate_on('USD', (sold.purchase_date at time zone 'UTC')::date) as dollar on true
          cross join lateral (
            select case sold.currency when 'USD' then 1 else dollar.per_euro / own.per_euro end as dollars
          ) as rate
        ) as row on true
        order by part.id, row.start_time, row.store_transaction_id
        """
}
