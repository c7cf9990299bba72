import Postgres

/// The queries of the figures: views of schema `analyst`, by app, environment and span of days.
package enum FigureQuery: String, Sendable, CaseIterable {
    case active, mrr, movements, retention
    case valueMovements, mix, revenue, proceeds, refunds, offers, trials, recovery
    case activeDetail, mrrDetail, movementsDetail, retentionDetail
    case valueMovementsDetail, mixDetail, revenueDetail, proceedsDetail, refundsDetail, offersDetail, trialsDetail
    case recoveryDetail
    case plans

    /// Whether its statement has the parameters of a ``FigureChoice``.
    var hasChoice: Bool {
        switch self {
        case .active, .movements, .retention, .activeDetail, .movementsDetail, .retentionDetail, .plans: false
        default: true
        }
    }

    /// The names of the columns, all of which the statement returns as text.
    package var columns: [String] {
        switch self {
        case .active: ["day", "paying", "in_trial", "in_grace", "family"]
        case .mrr: ["day", "currency", "mrr", "subscriptions", "unpriced"]
        case .movements:
            [
                "month", "new", "conversions", "recovered", "resubscribed", "trial_starts", "trials_lost", "churned",
            ]
        case .retention: ["cohort", "months_since", "subscriptions", "reached", "active"]
        case .activeDetail:
            ["original_transaction_id", "payer_state", "product_id", "starts_at", "ends_at", "positions"]
        case .mrrDetail: ["original_transaction_id", "currency", "product_id", "price", "mrr", "positions"]
        case .movementsDetail:
            ["original_transaction_id", "movement", "product_id", "at", "churn_reason", "positions"]
        case .retentionDetail: ["original_transaction_id", "cohort", "first_month", "last_month", "positions"]
        case .valueMovements:
            [
                "month", "currency", "opening", "new", "reactivation", "expansion", "contraction", "churn", "closing",
                "retained_percent",
            ]
        case .mix: ["day", "part", "currency", "mrr", "subscriptions", "unpriced"]
        case .revenue:
            [
                "month", "part", "currency", "gross", "new", "renewal", "refunded", "kept", "payments", "unpriced",
            ]
        case .proceeds:
            ["month", "part", "currency", "paid", "tax", "commission", "proceeds", "stated", "without_rate"]
        case .refunds: ["month", "part", "currency", "amount", "refunds", "in_full", "in_part", "unpriced"]
        case .offers:
            [
                "month", "part", "currency", "redeemed", "converted", "lost", "others", "converted_percent", "renewals",
                "offer_revenue", "revenue",
            ]
        case .trials: ["month", "part", "trials", "converted", "lost", "undecided", "converted_percent"]
        case .recovery:
            ["month", "part", "failed", "in_grace", "later", "lost", "retried", "recovered_percent"]
        case .valueMovementsDetail:
            [
                "customer_kind", "customer_id", "day", "movement", "currency", "mrr", "before", "after", "positions",
            ]
        case .mixDetail: ["original_transaction_id", "product_id", "country", "currency", "price", "mrr", "positions"]
        case .revenueDetail:
            [
                "original_transaction_id", "transaction_id", "day", "product_id", "country", "currency", "price",
                "refunded", "positions",
            ]
        case .proceedsDetail:
            [
                "original_transaction_id", "transaction_id", "day", "product_id", "country", "currency", "paid",
                "tax_percent", "commission_percent", "proceeds", "positions",
            ]
        case .refundsDetail:
            [
                "original_transaction_id", "transaction_id", "day", "product_id", "country", "currency", "refund",
                "price", "refunded", "positions",
            ]
        case .offersDetail:
            [
                "original_transaction_id", "product_id", "country", "offer_type", "offer", "outcome", "currency",
                "offer_revenue", "revenue", "positions",
            ]
        case .trialsDetail:
            ["original_transaction_id", "product_id", "starts_at", "outcome", "converted_at", "positions"]
        case .recoveryDetail:
            ["original_transaction_id", "product_id", "due_at", "outcome", "recovered_at", "positions"]
        case .plans: ["product_id", "length", "transactions"]
        }
    }

    var statement: Statement {
        switch self {
        case .active: FigureStatements.active
        case .mrr: FigureStatements.mrr
        case .movements: FigureStatements.movements
        case .retention: FigureStatements.retention
        case .activeDetail: FigureStatements.activeDetail
        case .mrrDetail: FigureStatements.mrrDetail
        case .movementsDetail: FigureStatements.movementsDetail
        case .retentionDetail: FigureStatements.retentionDetail
        case .valueMovements: MoneyFigureStatements.valueMovements
        case .mix: MoneyFigureStatements.mix
        case .revenue: MoneyFigureStatements.revenue
        case .proceeds: MoneyFigureStatements.proceeds
        case .refunds: MoneyFigureStatements.refunds
        case .offers: MoneyFigureStatements.offers
        case .trials: MoneyFigureStatements.trials
        case .recovery: MoneyFigureStatements.recovery
        case .valueMovementsDetail: MoneyFigureStatements.valueMovementsDetail
        case .mixDetail: MoneyFigureStatements.mixDetail
        case .revenueDetail: MoneyFigureStatements.revenueDetail
        case .proceedsDetail: MoneyFigureStatements.proceedsDetail
        case .refundsDetail: MoneyFigureStatements.refundsDetail
        case .offersDetail: MoneyFigureStatements.offersDetail
        case .trialsDetail: MoneyFigureStatements.trialsDetail
        case .recoveryDetail: MoneyFigureStatements.recoveryDetail
        case .plans: FigureStatements.plans
        }
    }
}

private enum FigureStatements {
    static let active = Statement(
        "figure_active",
        """
        select day::text, sum(paying)::text, sum(in_trial)::text, sum(in_grace)::text, sum(family)::text
        from analyst.active_subscriptions
        where app = $1
          and environment = $2
          and day between ($3::text)::date and ($4::text)::date
        group by day
        order by day
        """)

    /// In one currency at the rates of each day.
    static let mrr = Statement(
        "figure_mrr",
        """
        with held as (
          select
            mrr.day,
            case when factor.rate is null then mrr.currency else $5::text end as currency,
            mrr.mrr * coalesce(factor.rate, 1) as mrr,
            mrr.subscriptions,
            mrr.unpriced
          from analyst.mrr
          left join lateral analyst.rate_on(mrr.currency, mrr.day) as own on $5::text <> ''
          left join lateral analyst.rate_on($5::text, mrr.day) as wanted on $5::text <> ''
          cross join lateral (
            select case when mrr.currency = $5::text then 1 else wanted.per_euro / own.per_euro end as rate
          ) as factor
          where mrr.app = $1
            and mrr.environment = $2
            and mrr.day between ($3::text)::date and ($4::text)::date
            and $6::text || $7::text = ''
        )
        select day::text, currency, round(sum(mrr), 3)::text, sum(subscriptions)::text, sum(unpriced)::text
        from held
        group by day, currency
        order by held.day, held.currency
        """)

    static let movements = Statement(
        "figure_movements",
        """
        select month::text, sum(new)::text, sum(conversions)::text, sum(recovered)::text, sum(resubscribed)::text,
          sum(trial_starts)::text, sum(trials_lost)::text, sum(churned)::text
        from analyst.movements
        where app = $1
          and environment = $2
          and month between date_trunc('month', ($3::text)::date)::date and ($4::text)::date
        group by month
        order by month
        """)

    static let retention = Statement(
        "figure_retention",
        """
        select cohort::text, months_since::text, subscriptions::text, reached::text, active::text
        from analyst.retention
        where app = $1
          and environment = $2
          and cohort between date_trunc('month', ($3::text)::date)::date and ($4::text)::date
        order by retention.cohort, retention.months_since
        """)

    /// The rows of one day, which is both ends of the span.
    static let activeDetail = Statement(
        "figure_active_detail",
        """
        select original_transaction_id, payer_state, product_id, to_char(starts_at at time zone 'UTC',
          'YYYY-MM-DD HH24:MI:SS'), to_char(ends_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), positions::text
        from analyst.active_subscriptions_detail
        where app = $1
          and environment = $2
          and first_day <= ($4::text)::date
          and last_day >= ($3::text)::date
        order by original_transaction_id collate "C"
        limit 500
        """)

    /// Rows of all currencies in turn, so that the first page has each of them.
    static let mrrDetail = Statement(
        "figure_mrr_detail",
        """
        select original_transaction_id, currency, product_id, price::text, mrr::text, positions::text
        from (
          select original_transaction_id, currency, product_id, price, mrr, positions,
            row_number() over (partition by currency order by original_transaction_id collate "C") as place
          from analyst.mrr_detail
          where app = $1
            and environment = $2
            and first_day <= ($4::text)::date
            and last_day >= ($3::text)::date
            and \(MoneyFigureStatements.isCounted("currency", on: "($4::text)::date"))
            and $6::text || $7::text = ''
        ) as numbered
        order by place, currency
        limit 500
        """)

    static let movementsDetail = Statement(
        "figure_movements_detail",
        """
        select original_transaction_id, movement, product_id, to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'),
          churn_reason, positions::text
        from analyst.movements_detail
        where app = $1
          and environment = $2
          and month between date_trunc('month', ($3::text)::date)::date and ($4::text)::date
          and movement <> 'renewal'
        order by at, original_transaction_id collate "C"
        limit 500
        """)

    static let retentionDetail = Statement(
        "figure_retention_detail",
        """
        select original_transaction_id, cohort::text, first_month::text, last_month::text, positions::text
        from analyst.retention_detail
        where app = $1
          and environment = $2
          and cohort between date_trunc('month', ($3::text)::date)::date and ($4::text)::date
        order by original_transaction_id collate "C", first_month
        limit 500
        """)

    static let plans = Statement(
        "figure_plans",
        """
        select product_id, length, transactions::text
        from analyst.plans
        where app = $1
          and environment = $2
          and $3::text <= $4::text
        order by product_id collate "C"
        """)
}
