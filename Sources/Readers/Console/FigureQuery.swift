import Postgres

/// The queries of the figures: views of schema `analyst`, by app, environment and span of days.
package enum FigureQuery: String, Sendable, CaseIterable {
    case active, mrr, movements, retention
    case activeDetail, mrrDetail, movementsDetail, retentionDetail
    case plans

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

    static let mrr = Statement(
        "figure_mrr",
        """
        select day::text, currency, mrr::text, subscriptions::text, unpriced::text
        from analyst.mrr
        where app = $1
          and environment = $2
          and day between ($3::text)::date and ($4::text)::date
        order by day, currency
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
