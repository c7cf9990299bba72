import Encoding

/// What is left of payments after tax and the share of the store.
extension Figures {
    /// A line of the imported table of commissions, in force from a day on until the next one of its store, kind and
    /// country.
    package struct Commission: Sendable, DatedLine {
        package let store: String
        package let kind: String
        package let country: String
        package let start: String
        /// Tenths of a percent of the price without tax.
        package let share: Int64
        /// The same after a year of paid service; nil if it is that of the first year.
        package var laterShare: Int64?
    }

    /// A line of the imported table of taxes, in force from a day on until the next one of its country.
    package struct TaxRate: Sendable, DatedLine {
        package let country: String
        package let start: String
        /// Tenths of a percent of the price without tax.
        package let rate: Int64
    }

    /// Made up, with days, countries and kinds of purchases that no line is about. That of a country counts from its day on,
    /// and those of all countries until then.
    package static let commissions = [
        Commission(store: "apple", kind: "subscription", country: "", start: "2025-02-10", share: 300, laterShare: 150),
        Commission(store: "apple", kind: "subscription", country: "", start: "2025-11-05", share: 250, laterShare: 125),
        Commission(store: "apple", kind: "subscription", country: "DEU", start: "2025-09-01", share: 200),
        Commission(
            store: "apple", kind: "subscription", country: "BRA", start: "2024-12-01", share: 150, laterShare: 150),
        Commission(
            store: "apple", kind: "subscription", country: "BRA", start: "2026-01-15", share: 120, laterShare: 50),
        Commission(store: "apple", kind: "one_time", country: "JPN", start: "2024-12-01", share: 150, laterShare: 50),
        Commission(store: "apple", kind: "one_time", country: "", start: "2025-07-01", share: 300),
        Commission(
            store: "google", kind: "subscription", country: "", start: "2025-03-15", share: 150, laterShare: 100),
        Commission(store: "google", kind: "subscription", country: "GBR", start: "2026-01-10", share: 100),
        Commission(store: "google", kind: "one_time", country: "USA", start: "2025-01-01", share: 300, laterShare: 200),
        Commission(store: "google", kind: "one_time", country: "", start: "2025-10-01", share: 200),
    ]

    package static let taxRates = [
        TaxRate(country: "", start: "2025-08-01", rate: 170),
        TaxRate(country: "USA", start: "2024-12-01", rate: 0),
        TaxRate(country: "DEU", start: "2024-12-01", rate: 190),
        TaxRate(country: "DEU", start: "2025-10-01", rate: 160),
        TaxRate(country: "AUT", start: "2025-04-20", rate: 200),
        TaxRate(country: "GBR", start: "2024-12-01", rate: 200),
        TaxRate(country: "JPN", start: "2025-12-01", rate: 81),
    ]

    /// A row of the view `proceeds`. All of its amounts but ``paid`` and ``unestimated`` are divided by ``divisor`` at the end,
    /// and what is left of them is the proceeds.
    struct Proceeds: Sendable, Hashable {
        var paid: Int64 = 0
        /// Paid where a table has no rate.
        var unestimated: Int64 = 0
        var tax: Int64 = 0
        var commission: Int64 = 0
        /// The same for all payments of a day in a country.
        var divisor: Int64 = 1

        /// In thousandths of the currency's unit.
        var columns: [(String, Int64)] {
            let taxed = Figures.quotient(tax, divisor)
            let shared = Figures.quotient(commission, divisor)
            return [
                ("paid", paid), ("unestimated", unestimated), ("tax", taxed), ("commission", shared),
                ("proceeds", paid - unestimated - taxed - shared),
            ]
        }
    }

    /// Adds what was paid and kept, the rates of its day, and how it is divided: as the order states, or else by the rates.
    mutating func addProceeds(_ subscription: CountedSubscription) {
        let storefront = subscription.storefront
        let payments = subscription.purchases.filter(\.isPayment)
        for payment in payments {
            let day = Self.day(payment.purchaseDate)
            let place = "\(payment.product.id) \(storefront.country) \(storefront.currency)"
            let kept = payment.paid - payment.refunded
            // What the store does not renew has no years of service.
            let isLater = payment.isOfRenewing && Self.servedDays(before: payment, of: payments) >= 365
            let kind = payment.isOfRenewing ? "subscription" : "one_time"
            let tax = Self.line(of: Self.taxRates, in: storefront.country, on: day)?.rate
            let table = Self.commissions.filter { $0.store == subscription.store.rawValue && $0.kind == kind }
            let line = Self.line(of: table, in: storefront.country, on: day)
            let share = line.map { isLater ? $0.laterShare ?? $0.share : $0.share }
            let rates = "\(tax.map { String($0) } ?? "unknown") \(share.map { String($0) } ?? "unknown")"
            add(
                kept, "proceeds_detail", Self.month(payment.purchaseDate), place, isLater ? "later" : "first_year",
                rates)
            let isStated = payment.orderShares != nil
            let key = "\(day) \(place) \(isStated ? "stated" : "estimated")"
            proceeds[key, default: Proceeds()].add(kept, of: payment, tax: tax, share: share)
        }
    }

    /// The line of a table that is in force on a day: the country's own, or else that of all countries.
    private static func line<Line: DatedLine>(of table: [Line], in country: String, on day: String) -> Line? {
        for place in [country, ""] {
            let begun = table.filter { $0.country == place && $0.start <= day }
            if let last = begun.max(by: { $0.start < $1.start }) { return last }
        }
        return nil
    }

    /// The whole days of paid service before a payment. Full refunds and free days do not count; a pause of more than 60
    /// days begins anew.
    private static func servedDays(before payment: Purchase, of payments: [Purchase]) -> Int64 {
        let day: Int64 = 86_400_000
        let now = payment.purchaseDate.milliseconds
        let served = payments.filter { !$0.isPaidBackWhole && $0.purchaseDate < payment.purchaseDate }
            .compactMap(\.service)
            .sorted { $0.start < $1.start }
        var total: Int64 = 0
        var (paidUntil, until): (Int64?, Int64?) = (nil, nil)
        for span in served {
            if let until, span.start - until > 60 * day { total = 0 }
            total += max(0, min(span.paidEnd, now) - max(span.start, paidUntil ?? span.start))
            paidUntil = max(paidUntil ?? span.paidEnd, span.paidEnd)
            until = max(until ?? span.end, span.end)
        }
        if let until, now - until > 60 * day { total = 0 }
        return total / day
    }
}

/// A line of a table that a day and a country find.
private protocol DatedLine {
    /// ISO 3166-1 alpha-3; empty for all countries without a line that is in force.
    var country: String { get }
    /// The first day, such as `2025-04-01`, in UTC.
    var start: String { get }
}

extension Figures.Proceeds {
    /// Adds a payment.
    ///
    /// - Parameters:
    ///   - kept: What is not paid back of it.
    ///   - tax: In tenths of a percent of the price without it; nil if the table has no rate.
    ///   - share: Of the store, in tenths of a percent of the price without tax; nil if the table has none.
    fileprivate mutating func add(_ kept: Int64, of payment: Purchase, tax: Int64?, share: Int64?) {
        paid += kept
        if let stated = payment.orderShares {
            // The order states the tax of the price; what is paid back had its part of it.
            let keptTax = Figures.quotient(stated.tax * kept, payment.paid)
            self.tax += keptTax
            commission += kept - keptTax - stated.proceeds
        } else if let tax, let share {
            divisor = 1000 + tax
            self.tax += kept * tax
            commission += kept * share
        } else {
            unestimated += kept
        }
    }
}

extension Purchase {
    /// The time of service that it pays for, in milliseconds since 1970, and the end with the free days after it; nil for
    /// one-time purchases.
    fileprivate var service: (start: Int64, paidEnd: Int64, end: Int64)? {
        guard let expiresDate else { return nil }
        let end = min(expiresDate, revocation?.date ?? expiresDate)
        return (purchaseDate.milliseconds, min(paidUntil ?? end, end).milliseconds, end.milliseconds)
    }
}
