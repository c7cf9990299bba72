import Postgres

/// In what currency a figure of money is, and by what its rows are split.
package struct FigureChoice: Sendable, Hashable {
    /// What the rows of a figure can be split by.
    package enum Part: String, Sendable, CaseIterable {
        case product, country, store
    }

    /// The currency into which amounts are converted; nil for each in its own. Of the rows behind a figure, the only one.
    package var currency: String?
    /// Of the rows behind a converted number, the currency into which it was converted: those without a rate are no part of it.
    package var into: String?
    package var by: Part?
    /// The only one of the parts; nil for all.
    package var part: String?

    package init(currency: String? = nil, into: String? = nil, by: Part? = nil, part: String? = nil) {
        self.currency = currency
        self.into = into
        self.by = by
        self.part = part
    }

    /// The parameters of statements, after app, environment and the two days. An empty text means no choice.
    var parameters: [String] { [into.map { "in \($0)" } ?? currency ?? "", by?.rawValue ?? "", part ?? ""] }
}

/// The statements of figures with a ``FigureChoice``. Months are whole ones, from that of the first day to that of the
/// last. Without a rate, an amount stays in its own currency.
enum MoneyFigureStatements {
    /// What a row is split by; empty for nothing.
    private static let part: SQL = """
        case $6::text
          when 'product' then coalesce(product_id, 'unknown')
          when 'country' then coalesce(country, 'unknown')
          when 'store' then store
          else ''
        end
        """

    /// The same of an offer, which is always split.
    private static let offerPart: SQL = """
        case when $6::text <> '' then \(part) else concat_ws(' ', case offer_type
          when 1 then 'introductory' when 2 then 'promotional' when 3 then 'code' when 4 then 'win-back'
        end, offer_identifier) end
        """

    /// Whether a day is in the months of a figure.
    private static func isWithin(_ day: SQL) -> SQL {
        """
        \(day) >= date_trunc('month', ($3::text)::date)::date
          and \(day) < date_trunc('month', ($4::text)::date)::date + interval '1 month'
        """
    }

    /// The same of the first day of a month.
    private static let isMonthWithin: SQL =
        "month >= date_trunc('month', ($3::text)::date)::date and month <= ($4::text)::date"

    /// The day of a part of a refund.
    private static let partDay: SQL = "((listed ->> 'at')::timestamptz at time zone interval '0')::date"

    /// What each currency is worth in the chosen one, by day; no rows if none is chosen.
    private static let rates: SQL =
        "(select day, currency, rate from analyst.rates_in($5::text) where $5::text <> '') as rates"

    /// Joins what a currency is worth in the chosen one, as `factor.rate`; null if none is chosen.
    private static func joiningFactor(of currency: SQL, on day: SQL) -> SQL {
        """
        left join lateral analyst.rate_on(\(currency), \(day)) as own on $5::text <> ''
        left join lateral analyst.rate_on($5::text, \(day)) as wanted on $5::text <> ''
        cross join lateral (
          select case when \(currency) = $5::text then 1 else wanted.per_euro / own.per_euro end as rate
        ) as factor
        """
    }

    /// Whether a row of a currency is behind a number: of a converted one, if it had a rate on the day.
    static func isCounted(_ currency: SQL, on day: SQL) -> SQL {
        """
        case
          when $5::text like 'in %' then \(currency) = substr($5::text, 4) or exists (
            select
            from analyst.rate_on(\(currency), \(day)) as own
            cross join analyst.rate_on(substr($5::text, 4), \(day)) as wanted
          )
          else $5::text in ('', coalesce(\(currency), 'none'))
        end
        """
    }

    static let revenue = Statement(
        "figure_revenue",
        """
        with sold as (
          select
            date_trunc('month', revenue.day)::date as month,
            \(part) as part,
            case when rates.rate is null then coalesce(revenue.currency, 'none') else $5::text end as currency,
            coalesce(rates.rate, 1) as rate,
            revenue.gross,
            revenue.new,
            revenue.renewal,
            revenue.refunded,
            revenue.payments,
            revenue.unpriced
          from analyst.revenue
          left join \(rates)
            using (day, currency)
          where revenue.app = $1
            and revenue.environment = $2
            and \(isWithin("revenue.day"))
        )
        select
          month::text, part, currency, round(sum(gross * rate), 3)::text, round(sum(new * rate), 3)::text,
          round(sum(renewal * rate), 3)::text, round(sum(refunded * rate), 3)::text,
          round(sum((gross - refunded) * rate), 3)::text, sum(payments)::text, sum(unpriced)::text
        from sold
        where $7::text in ('', part)
        group by month, part, currency
        having sum(payments) > 0
        order by sold.month, sum(gross * rate) desc, currency, part
        """)

    /// Payments of each currency in turn.
    static let revenueDetail = Statement(
        "figure_revenue_detail",
        """
        select
          original_transaction_id, transaction_id, day::text, product_id, country, currency, price::text,
          refunded_amount::text, positions::text
        from (
          select
            sold.*,
            row_number() over (partition by currency order by day, transaction_id collate "C") as place
          from analyst.revenue_detail as sold
          where app = $1
            and environment = $2
            and \(isWithin("day"))
            and \(isCounted("sold.currency", on: "sold.day"))
            and $7::text in ('', \(part))
        ) as numbered
        order by place, currency
        limit 500
        """)

    static let proceeds = Statement(
        "figure_proceeds",
        """
        with sold as (
          select
            date_trunc('month', proceeds.day)::date as month,
            \(part) as part,
            case when rates.rate is null then coalesce(proceeds.currency, 'none') else $5::text end as currency,
            coalesce(rates.rate, 1) as rate,
            proceeds.paid,
            proceeds.tax,
            proceeds.commission,
            proceeds.proceeds,
            proceeds.unestimated,
            proceeds.estimated
          from analyst.proceeds
          left join \(rates)
            using (day, currency)
          where proceeds.app = $1
            and proceeds.environment = $2
            and \(isWithin("proceeds.day"))
        )
        select
          month::text, part, currency, round(sum(paid * rate), 3)::text, round(sum(tax * rate), 3)::text,
          round(sum(commission * rate), 3)::text, round(sum(proceeds * rate), 3)::text,
          coalesce(round(sum(proceeds * rate) filter (where not estimated), 3), 0)::text,
          round(sum(unestimated * rate), 3)::text
        from sold
        where $7::text in ('', part)
        group by month, part, currency
        order by sold.month, sum(paid * rate) desc, currency, part
        """)

    static let proceedsDetail = Statement(
        "figure_proceeds_detail",
        """
        select
          original_transaction_id, transaction_id, day::text, product_id, country, currency, paid::text,
          tax_percent::text, commission_percent::text, proceeds::text, positions::text
        from (
          select
            sold.*,
            row_number() over (partition by currency order by day, transaction_id collate "C") as place
          from analyst.proceeds_detail as sold
          where app = $1
            and environment = $2
            and \(isWithin("day"))
            and \(isCounted("sold.currency", on: "sold.day"))
            and $7::text in ('', \(part))
        ) as numbered
        order by place, currency
        limit 500
        """)

    /// By the day of each refund: one that was made in parts has a row for each part.
    static let refunds = Statement(
        "figure_refunds",
        """
        with refund as (
          select
            date_trunc('month', part.day)::date as month,
            \(part) as part,
            case when rates.rate is null then coalesce(sold.currency, 'none') else $5::text end as currency,
            part.amount * coalesce(rates.rate, 1) as amount,
            sold.refund
          from analyst.revenue_detail as sold
          cross join lateral (
            select sold.refund_day as day, sold.refunded_amount as amount
            where sold.refunds is null
            union all
            select \(partDay),
              round((listed ->> 'amount')::numeric / 1000, 3)
            from jsonb_array_elements(sold.refunds) as listed
          ) as part
          left join \(rates)
            on rates.day = part.day
            and rates.currency = sold.currency
          where sold.app = $1
            and sold.environment = $2
            and sold.refund is not null
            and \(isWithin("part.day"))
        )
        select
          month::text, part, currency, round(sum(amount), 3)::text, count(*)::text,
          count(*) filter (where refund = 'full')::text, count(*) filter (where refund = 'part')::text,
          count(*) filter (where amount is null)::text
        from refund
        where $7::text in ('', part)
        group by month, part, currency
        order by refund.month, sum(amount) desc nulls last, currency, part
        """)

    static let refundsDetail = Statement(
        "figure_refunds_detail",
        """
        select
          original_transaction_id, transaction_id, refund_day::text, product_id, country, currency, refund, price::text,
          refunded_amount::text, positions::text
        from analyst.revenue_detail
        where app = $1
          and environment = $2
          and refund is not null
          and (
            refunds is null
              and \(isWithin("refund_day"))
              and \(isCounted("currency", on: "refund_day"))
            or exists (
              select
              from jsonb_array_elements(refunds) as listed
              where \(isWithin(partDay))
                and \(isCounted("currency", on: partDay))
            )
          )
          and $7::text in ('', \(part))
        order by refund_day, transaction_id collate "C"
        limit 500
        """)

    /// In one currency at the rates of today, so that the movements go on to lead from one month to the next.
    static let valueMovements = Statement(
        "figure_value_movements",
        """
        with moved as (
          select
            moved.month,
            case when factor.rate is null then moved.currency else $5::text end as currency,
            coalesce(factor.rate, 1) as rate,
            moved.opening,
            moved.new,
            moved.reactivation,
            moved.expansion,
            moved.contraction,
            moved.churn,
            moved.closing
          from analyst.mrr_movements as moved
          \(joiningFactor(of: "moved.currency", on: "(now() at time zone 'UTC')::date"))
          where moved.app = $1
            and moved.environment = $2
            and \(isMonthWithin)
            and $6::text || $7::text = ''
        )
        select
          month::text, currency, round(sum(opening * rate), 3)::text, round(sum(new * rate), 3)::text,
          round(sum(reactivation * rate), 3)::text, round(sum(expansion * rate), 3)::text,
          round(sum(contraction * rate), 3)::text, round(sum(churn * rate), 3)::text,
          round(sum(closing * rate), 3)::text,
          round(
            100 + 100 * sum((expansion + reactivation - contraction - churn) * rate) / nullif(sum(opening * rate), 0), 1
          )::text
        from moved
        group by month, currency
        order by moved.month, sum(closing * rate) desc, currency
        """)

    static let valueMovementsDetail = Statement(
        "figure_value_movements_detail",
        """
        select
          customer_kind, customer_id, day::text, movement, currency, mrr::text, before::text, after::text,
          positions::text
        from analyst.mrr_movements_detail
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and \(isCounted("currency", on: "(now() at time zone 'UTC')::date"))
          and $6::text || $7::text = ''
        order by day, customer_kind, customer_id collate "C"
        limit 500
        """)

    /// In one currency at the rates of each day.
    static let mix = Statement(
        "figure_mix",
        """
        with held as (
          select
            mix.day,
            \(part) as part,
            case when factor.rate is null then coalesce(mix.currency, 'none') else $5::text end as currency,
            mix.mrr * coalesce(factor.rate, 1) as mrr,
            mix.subscriptions,
            mix.unpriced
          from analyst.plan_mix as mix
          \(joiningFactor(of: "mix.currency", on: "mix.day"))
          where mix.app = $1
            and mix.environment = $2
            and mix.day between ($3::text)::date and ($4::text)::date
        )
        select
          day::text, part, currency, round(sum(mrr), 3)::text, sum(subscriptions)::text, sum(unpriced)::text
        from held
        where $7::text in ('', part)
        group by day, part, currency
        order by held.day, sum(mrr) desc, currency, part
        """)

    static let mixDetail = Statement(
        "figure_mix_detail",
        """
        select
          original_transaction_id, product_id, country, currency, price::text, mrr::text, positions::text
        from analyst.mrr_detail
        where app = $1
          and environment = $2
          and first_day <= ($4::text)::date
          and last_day >= ($3::text)::date
          and \(isCounted("currency", on: "($4::text)::date"))
          and $7::text in ('', \(part))
        order by original_transaction_id collate "C"
        limit 500
        """)

    static let offers = Statement(
        "figure_offers",
        """
        with used as (
          select
            offers.*,
            \(offerPart) as part
          from analyst.offers
          where app = $1
            and environment = $2
            and \(isMonthWithin)
            and $5::text in ('', coalesce(currency, 'none'))
        )
        select
          month::text, part, coalesce(currency, 'none'), sum(redeemed)::text, sum(converted)::text, sum(lost)::text,
          (sum(undecided) + sum(refunded))::text,
          round(100.0 * sum(converted) / nullif(sum(converted) + sum(lost), 0), 1)::text,
          sum(renewals)::text, sum(offer_revenue)::text, sum(revenue)::text
        from used
        where $7::text in ('', part)
        group by month, part, currency
        order by used.month, sum(redeemed) desc, part, currency
        """)

    static let offersDetail = Statement(
        "figure_offers_detail",
        """
        select
          original_transaction_id, product_id, country, offer_type::text, offer_identifier, outcome, currency,
          offer_revenue::text, revenue::text, positions::text
        from analyst.offers_detail
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and $5::text in ('', coalesce(currency, 'none'))
          and $7::text in ('', \(offerPart))
        order by redeemed_at, original_transaction_id collate "C"
        limit 500
        """)

    static let trials = Statement(
        "figure_trials",
        """
        select
          month::text, case $6::text when 'product' then coalesce(product_id, 'unknown') else '' end, sum(trials)::text,
          sum(converted)::text, sum(lost)::text, sum(undecided)::text,
          round(100.0 * sum(converted) / nullif(sum(converted) + sum(lost), 0), 1)::text
        from analyst.trials
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and $5::text = ''
          and $7::text in ('', coalesce(product_id, 'unknown'))
        group by 1, 2
        order by 1, sum(trials) desc, 2
        """)

    static let trialsDetail = Statement(
        "figure_trials_detail",
        """
        select
          original_transaction_id, product_id, to_char(starts_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), outcome,
          to_char(converted_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), positions::text
        from analyst.trials_detail
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and $5::text || $6::text is not null
          and $7::text in ('', coalesce(product_id, 'unknown'))
        order by starts_at, original_transaction_id collate "C"
        limit 500
        """)

    static let recovery = Statement(
        "figure_recovery",
        """
        select
          month::text, case $6::text when 'product' then coalesce(product_id, 'unknown') else '' end, sum(failed)::text,
          sum(recovered_in_grace)::text, sum(recovered_later)::text, sum(lost)::text, sum(retried)::text,
          round(
            100.0 * (sum(recovered_in_grace) + sum(recovered_later)) / nullif(sum(failed) - sum(retried), 0), 1
          )::text
        from analyst.billing_retries
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and $5::text = ''
          and $7::text in ('', coalesce(product_id, 'unknown'))
        group by 1, 2
        order by 1, sum(failed) desc, 2
        """)

    static let recoveryDetail = Statement(
        "figure_recovery_detail",
        """
        select
          original_transaction_id, product_id, to_char(due_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), outcome,
          to_char(recovered_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), positions::text
        from analyst.billing_retries_detail
        where app = $1
          and environment = $2
          and \(isMonthWithin)
          and $5::text || $6::text is not null
          and $7::text in ('', coalesce(product_id, 'unknown'))
        order by due_at, original_transaction_id collate "C"
        limit 500
        """)
}
