import Postgres

/// The value of currencies on days.
package struct ExchangeRate: Sendable, Hashable {
    /// ISO 4217.
    package let currency: String
    /// As `2026-11-25`.
    package let day: String
    /// Units of the currency for one euro: a decimal number above 0.
    package let perEuro: String

    package init(currency: String, day: String, perEuro: String) {
        self.currency = currency
        self.day = day
        self.perEuro = perEuro
    }
}

/// The share that a store keeps, from a day on.
package struct Commission: Sendable, Hashable {
    /// `apple` or `google`.
    package let store: String
    /// `subscription` or `one_time`.
    package let kind: String
    /// ISO 3166-1, two or three letters; empty for all others.
    package let country: String
    /// As `2026-11-25`.
    package let from: String
    /// A decimal number from 0 to below 100.
    package let percent: String
    package let laterPercent: String

    package init(
        store: String, kind: String, country: String, from: String, percent: String, laterPercent: String
    ) {
        self.store = store
        self.kind = kind
        self.country = country
        self.from = from
        self.percent = percent
        self.laterPercent = laterPercent
    }
}

/// The tax that is part of prices, from a day on.
package struct TaxRate: Sendable, Hashable {
    /// ISO 3166-1, two or three letters; empty for all others.
    package let country: String
    /// As `2026-11-25`.
    package let from: String
    /// A decimal number from 0 on.
    package let percent: String

    package init(country: String, from: String, percent: String) {
        self.country = country
        self.from = from
        self.percent = percent
    }
}

/// Writes the tables by which amounts are converted and estimated. Atomic; durable when it returns; safe to repeat.
///
/// Connections have the rights of `subledger_products`.
package enum MoneyTables {
    /// Sets the rates of some days. Rates of other days stay.
    package static func state(
        _ rates: [ExchangeRate], on connection: PostgresConnection
    ) async throws(PostgresError) {
        _ = try await connection.transaction(
            [
                Step(
                    MoneyStatements.stateRates,
                    [.array(rates.map(\.currency)), .array(rates.map(\.day)), .array(rates.map(\.perEuro))])
            ], deadline: .now + Limits.importWaitMax)
    }

    /// Replaces all commissions.
    package static func replace(
        _ commissions: [Commission], on connection: PostgresConnection
    ) async throws(PostgresError) {
        _ = try await connection.transaction(
            [
                Step(MoneyStatements.lockCommissions), Step(MoneyStatements.clearCommissions),
                Step(
                    MoneyStatements.stateCommissions,
                    [
                        .array(commissions.map(\.store)), .array(commissions.map(\.kind)),
                        .array(commissions.map(\.country)), .array(commissions.map(\.from)),
                        .array(commissions.map(\.percent)), .array(commissions.map(\.laterPercent)),
                    ]),
            ], deadline: .now + Limits.importWaitMax)
    }

    /// Replaces all tax rates.
    package static func replace(
        _ rates: [TaxRate], on connection: PostgresConnection
    ) async throws(PostgresError) {
        _ = try await connection.transaction(
            [
                Step(MoneyStatements.lockTaxes), Step(MoneyStatements.clearTaxes),
                Step(
                    MoneyStatements.stateTaxes,
                    [.array(rates.map(\.country)), .array(rates.map(\.from)), .array(rates.map(\.percent))]),
            ], deadline: .now + Limits.importWaitMax)
    }
}

/// SQL for the tables of rates.
enum MoneyStatements {
    static let stateRates = Statement(
        "money_state_rates",
        """
        insert into subledger.exchange_rate (currency, day, per_euro)
        select currency, day::date, per_euro::numeric
        from unnest($1::text[], $2::text[], $3::text[]) as stated (currency, day, per_euro)
        order by currency collate "C", day
        on conflict (currency, day) do update
        set per_euro = excluded.per_euro
        where exchange_rate.per_euro <> excluded.per_euro
        """)

    /// Two sessions that replace the rows take turns. Readers do not wait.
    static let lockCommissions = Statement(
        "money_lock_commissions", "lock table subledger.commission in share row exclusive mode")

    static let clearCommissions = Statement("money_clear_commissions", "delete from subledger.commission")

    static let stateCommissions = Statement(
        "money_state_commissions",
        """
        insert into subledger.commission (store, kind, country, starts_on, percent, later_percent)
        select store, kind, analyst.country(country), starts_on::date, percent::numeric, later_percent::numeric
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
          as stated (store, kind, country, starts_on, percent, later_percent)
        """)

    static let lockTaxes = Statement(
        "money_lock_taxes", "lock table subledger.tax_rate in share row exclusive mode")

    static let clearTaxes = Statement("money_clear_taxes", "delete from subledger.tax_rate")

    static let stateTaxes = Statement(
        "money_state_taxes",
        """
        insert into subledger.tax_rate (country, starts_on, percent)
        select analyst.country(country), starts_on::date, percent::numeric
        from unnest($1::text[], $2::text[], $3::text[]) as stated (country, starts_on, percent)
        """)
}
