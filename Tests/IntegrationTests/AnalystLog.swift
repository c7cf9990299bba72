import AppStore
import Foundation
import Postgres
import Simulation
import Subscriptions
import TestSupport

/// Simulated runs for the analyst views, and the figures that the views return.
enum AnalystLog {
    /// The notifications of `store-simulator --seed … --subscriptions … --order shuffled --duplicate 0.1`.
    static func simulation(
        seed: UInt64, subscriptions: Int, format: Simulation.Format, stories: [Story] = Story.allCases,
        window: StoryWindow = .standard
    ) -> Simulation? {
        var settings = Simulation.Settings(app: SimulatedApp(bundleId: "com.example.app", sharedSecret: V1Body.secret))
        settings.seed = seed
        settings.subscriptions = subscriptions
        settings.format = format
        settings.stories = stories
        settings.window = window
        settings.order = .shuffled
        settings.duplicate = 0.1
        return Simulation(settings)
    }

    static func verified(_ deliveries: some Sequence<SimulatedDelivery>) async throws -> [SimulatedLog.Delivery] {
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: "com.example.app", sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: SimulatedLog.roots))
        var verified: [SimulatedLog.Delivery] = []
        for delivery in deliveries {
            verified.append(
                SimulatedLog.Delivery(
                    notification: try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt),
                    receivedAt: delivery.receivedAt))
        }
        return verified
    }

    /// Folds the appended events and updates the planner's statistics, as autovacuum would have by then.
    static func fold(_ log: SimulatedLog) async throws {
        await log.projector.foldAllStreams()
        try await log.script("analyze")
    }

    /// Fills the tables of exchange rates, commissions and taxes with those of ``Simulation/Figures``.
    static var tables: String {
        let rates = Figures.euroRates.map { "('\($0.currency)', 1.0 / \($0.euros))" }.joined(separator: ", ")
        let commissions = Figures.commissions.map { line in
            "('\(line.store)', '\(line.kind)', '\(line.country)', '\(line.start)', \(line.share) / 10.0, "
                + "\(line.laterShare ?? line.share) / 10.0)"
        }
        let taxes = Figures.taxRates.map { "('\($0.country)', '\($0.start)', \($0.rate) / 10.0)" }
        return """
            insert into subledger.exchange_rate (currency, day, per_euro)
            select currency, day, per_euro
            from (values \(rates)) as rate (currency, per_euro)
            cross join generate_series(date '2024-12-01', current_date, interval '1 day') as day;
            insert into subledger.commission (store, kind, country, starts_on, percent, later_percent)
            values \(commissions.joined(separator: ", "));
            insert into subledger.tax_rate (country, starts_on, percent)
            values \(taxes.joined(separator: ", "));
            """
    }

    /// The figures of the views, with the names of ``Simulation/Figures``, without zeros.
    ///
    /// - Parameter goesOn: Whether the subscriptions of the run go on until now.
    static func figures(_ database: ConnectionConfiguration, goesOn: Bool = false) async throws -> [String: Int64] {
        let connection = try await TestCluster.connect(database.with(role: "subledger_analyst"))
        // The days of the figures, and the months in which all renewals of stories that are over are known.
        let ends = goesOn ? ["infinity", "infinity"] : ["2026-07-01", "2026-06-01"]
        let rows = try await connection.query(
            Statement("figures", shown), ends.map { Parameter($0) }, deadline: .now + .seconds(60))
        await connection.close()
        var figures: [String: Int64] = [:]
        for index in 0..<rows.count {
            figures[try rows[index].value(at: 0), default: 0] += try rows[index].value(Int64.self, at: 1)
        }
        return figures
    }

    private static let shown: SQL = """
        with figure as (
          select format('active_subscriptions %s %s %s', day, product_id, name) as figure, value
          from analyst.active_subscriptions
          cross join lateral (
            values ('paying', paying), ('in_trial', in_trial), ('in_grace', in_grace), ('family', family)
          ) as figure (name, value)
          where extract(day from day) = 1 and day < $1::text::date
          union all
          select format('mrr %s %s %s', day, currency, name), value
          from analyst.mrr
          cross join lateral (
            values ('subscriptions', subscriptions), ('mrr', (mrr * 1000)::bigint), ('unpriced', unpriced)
          ) as figure (name, value)
          where extract(day from day) = 1 and day < $1::text::date
          union all
          select format('movements %s %s %s', month, product_id, name), value
          from analyst.movements
          cross join lateral (
            values
              ('trial_starts', trial_starts), ('new', new), ('recovered', recovered), ('resubscribed', resubscribed),
              ('trials_lost', trials_lost), ('churned', churned), ('net', net), ('conversions', conversions),
              ('renewals', renewals)
          ) as figure (name, value)
          union all
          select format('churn %s %s %s', month, product_id, churn_reason), count(*)
          from analyst.movements_detail
          where movement in ('trial_lost', 'churn')
          group by month, product_id, churn_reason
          union all
          select format('churn_rate %s %s %s', month, product_id, name), value
          from analyst.churn_rate
          cross join lateral (
            values
              ('subscriptions', subscriptions), ('churned', churned), ('voluntary', voluntary),
              ('involuntary', involuntary)
          ) as figure (name, value)
          where month < $1::text::date
          union all
          select format('active_customers %s %s', day, name), value
          from analyst.active_customers
          cross join lateral (
            values ('paying', paying), ('in_trial', in_trial), ('in_grace', in_grace)
          ) as figure (name, value)
          where extract(day from day) = 1 and day < $1::text::date
          union all
          select format('customer_movements %s %s', month, name), value
          from analyst.customer_movements
          cross join lateral (
            values
              ('new', new), ('returned', returned), ('trials_lost', trials_lost), ('churned', churned), ('net', net),
              ('contracted', contracted)
          ) as figure (name, value)
          union all
          select format('customer_churn %s %s', month, churn_reason), count(*)
          from analyst.customer_movements_detail
          where movement in ('trial_lost', 'churn')
          group by month, churn_reason
          union all
          select format('customer_churn_rate %s %s', month, name), value
          from analyst.customer_churn_rate
          cross join lateral (
            values
              ('customers', customers), ('churned', churned), ('voluntary', voluntary), ('involuntary', involuntary)
          ) as figure (name, value)
          where month < $1::text::date
          union all
          select format('refund_rate %s %s %s %s', month, product_id, currency, name), value
          from analyst.refund_rate
          cross join lateral (
            values
              ('purchases', purchases), ('refunded', refunded), ('amount', (amount * 1000)::bigint),
              ('refunded_amount', (refunded_amount * 1000)::bigint)
          ) as figure (name, value)
          union all
          select format('revenue %s %s %s %s %s', date_trunc('month', day)::date, product_id, country, currency, name),
            sum(value)::bigint
          from analyst.revenue
          cross join lateral (
            values
              ('payments', payments), ('gross', gross * 1000), ('new', new * 1000), ('renewal', renewal * 1000),
              ('refunded', refunded * 1000), ('refunded_here', refunded_here * 1000)
          ) as figure (name, value)
          group by date_trunc('month', day), product_id, country, currency, name
          union all
          select format('revenue_in %s %s %s', date_trunc('month', day)::date, country, name), sum(value * 1000)::bigint
          from analyst.revenue_in('EUR')
          cross join lateral (
            values ('gross', gross), ('refunded', refunded), ('refunded_here', refunded_here)
          ) as figure (name, value)
          group by date_trunc('month', day), country, name
          union all
          select format('arppu_in %s %s', month, name), sum(value)::bigint
          from analyst.arppu_in('EUR')
          cross join lateral (values ('customers', customers), ('revenue', revenue * 1000)) as figure (name, value)
          group by month, name
          union all
          select format('mrr_in %s mrr', day), sum(mrr * 1000)::bigint
          from analyst.mrr_in('EUR')
          where extract(day from day) = 1 and day < $1::text::date
          group by day
          union all
          select format('mrr_in_grace %s %s', day::date, currency), sum(mrr * 1000)::bigint
          from analyst.mrr_in_grace_detail
          join generate_series(timestamp '2024-12-01', current_date, interval '1 month') as day
            on day between first_day and last_day and day < $1::text::date
          group by day, currency
          union all
          select format('mrr_movements %s %s %s', month, currency, name), sum(value * 1000)::bigint
          from analyst.mrr_movements
          cross join lateral (
            values
              ('new', new), ('reactivation', reactivation), ('expansion', expansion), ('contraction', contraction),
              ('churn', churn), ('opening', opening), ('closing', closing)
          ) as figure (name, value)
          group by month, currency, name
          union all
          select
            concat_ws(
              ' ', 'mrr_movement_parts', month, product_id, length, country, currency, offer_type, name),
            sum(value * 1000)::bigint
          from analyst.mrr_movement_parts
          cross join lateral (
            values
              ('opening', opening), ('new', new), ('reactivation', reactivation), ('expansion', expansion),
              ('contraction', contraction), ('churn', churn), ('moved', moved), ('closing', closing)
          ) as figure (name, value)
          group by month, product_id, length, country, currency, offer_type, name
          union all
          select
            format(
              'renewal_outlook %s %s %s %s %s %s %s', month, product_id, country, currency, payer_state, auto_renew,
              name),
            sum(value)::bigint
          from analyst.renewal_outlook
          cross join lateral (
            values ('subscriptions', subscriptions), ('amount', amount * 1000)
          ) as figure (name, value)
          group by month, product_id, country, currency, payer_state, auto_renew, name
          union all
          select format('plan_mix %s %s %s %s %s', day, product_id, country, currency, name), sum(value)::bigint
          from analyst.plan_mix
          cross join lateral (values ('subscriptions', subscriptions), ('mrr', mrr * 1000)) as figure (name, value)
          where extract(day from day) = 1 and day < $1::text::date
          group by day, product_id, country, currency, name
          union all
          select
            concat_ws(' ', 'offers', month, product_id, country, currency, offer_type, offer_identifier, name),
            sum(value)::bigint
          from analyst.offers
          cross join lateral (
            values
              ('redeemed', redeemed), ('converted', converted), ('lost', lost), ('undecided', undecided),
              ('refunded', refunded), ('renewals', renewals), ('offer_revenue', offer_revenue * 1000),
              ('revenue', revenue * 1000)
          ) as figure (name, value)
          group by month, product_id, country, currency, offer_type, offer_identifier, name
          union all
          select
            format(
              'proceeds_detail %s %s %s %s %s %s %s', date_trunc('month', day)::date, product_id, country, currency,
              case when is_later then 'later' else 'first_year' end, coalesce((tax_percent * 10)::int::text, 'unknown'),
              coalesce((commission_percent * 10)::int::text, 'unknown')),
            sum(paid * 1000)::bigint
          from analyst.proceeds_detail
          group by
            date_trunc('month', day), product_id, country, currency, is_later, tax_percent, commission_percent
          union all
          select
            format(
              'proceeds %s %s %s %s %s %s', day, product_id, country, currency,
              case when estimated then 'estimated' else 'stated' end, name),
            (value * 1000)::bigint
          from analyst.proceeds
          cross join lateral (
            values
              ('paid', paid), ('unestimated', unestimated), ('tax', tax), ('commission', commission),
              ('proceeds', proceeds)
          ) as figure (name, value)
          union all
          select
            concat_ws(
              ' ', 'price_cohorts', product_id, country, currency, (price * 1000)::bigint, offer_type, offer_identifier,
              name),
            sum(value)::bigint
          from analyst.price_cohorts
          cross join lateral (
            values
              ('subscriptions', subscriptions), ('active', active), ('mrr', mrr * 1000), ('churned', churned),
              ('moved', moved), ('increase_asked', increase_asked), ('increase_agreed', increase_agreed),
              ('increase_silent', increase_silent), ('increase_left', increase_left)
          ) as figure (name, value)
          group by product_id, country, currency, price, offer_type, offer_identifier, name
          union all
          select concat_ws(' ', 'ltv_in', cohort, country, name), sum(value)::bigint
          from analyst.ltv_in('EUR')
          cross join lateral (
            values ('customers', case months when 0 then customers end), (months || ' revenue', revenue * 1000)
          ) as figure (name, value)
          where months <= 6
          group by cohort, country, name
          union all
          select format('trials %s %s %s', month, product_id, name), value
          from analyst.trials
          cross join lateral (
            values ('converted', converted), ('lost', lost), ('undecided', undecided)
          ) as figure (name, value)
          union all
          select format('retention %s %s active', cohort, months_since), active
          from analyst.retention
          where months_since <= 6
          union all
          select format('renewal_retention %s %s %s %s', cohort, product_id, renewal_number, name), value
          from analyst.renewal_retention
          cross join lateral (
            values
              ('due', due), ('on_time', on_time), ('in_grace', in_grace), ('later', later),
              ('changed_plan', changed_plan), ('lost', lost), ('lost_voluntary', lost_voluntary),
              ('lost_involuntary', lost_involuntary), ('resubscribed', resubscribed), ('undecided', undecided)
          ) as figure (name, value)
          -- Years that are paid at once, and the last charges of the others, are due after the last story.
          where (product_id not like '%.yearly' or length = 'P1M')
            and cohort + renewal_number * interval '1 month' < $2::text::date
          union all
          select format('refunds %s %s %s %s', month, product_id, currency, name), value
          from analyst.refunds
          cross join lateral (
            values ('in_full', in_full), ('in_part', in_part), ('amount', (amount * 1000)::bigint)
          ) as figure (name, value)
          union all
          select format('refund_requests %s %s %s', month, product_id, name), value
          from analyst.refund_requests
          cross join lateral (
            values
              ('requests', requests), ('granted', granted), ('declined', declined), ('reversed', reversed),
              ('open', open)
          ) as figure (name, value)
          union all
          select format('billing_retries %s %s %s', month, product_id, name), value
          from analyst.billing_retries
          cross join lateral (
            values
              ('recovered_in_grace', recovered_in_grace), ('recovered_later', recovered_later), ('retried', retried),
              ('lost', lost)
          ) as figure (name, value)
          union all
          select format('plan_changes %s %s %s %s', month, from_product_id, to_product_id, name), value
          from analyst.plan_changes
          cross join lateral (values ('up', up), ('down', down)) as figure (name, value)
        )
        select figure, value
        from figure
        where value <> 0
        """
}
