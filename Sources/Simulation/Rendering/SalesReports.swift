import Encoding
import Foundation

/// Apple's daily Sales reports about a run, from the simulator's own books.
///
/// Source: Apple, App Store Connect Help, "Summary Sales Report": one line for equal sales of a day in Pacific Time; for
/// refunds, units and customer price are negative and proceeds per unit are not.
package struct SalesReports: Sendable {
    /// Sales or refunds of one purchase.
    package struct Entry: Sendable, Hashable {
        package var at: Instant
        package let productId: String
        /// ISO 3166-1 alpha-3.
        package var country: String
        package let currency: String
        /// For one unit, in thousandths of the currency's unit.
        package var price: Int64
        /// Negative for refunds.
        package var units: Int
    }

    /// Oldest first.
    package var entries: [Entry] = []

    static let vendor = "85000000"
    private static let calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(identifier: "America/Los_Angeles") ?? .gmt
        return calendar
    }()
    private static let countries = [
        "USA": "US", "JPN": "JP", "DEU": "DE", "GBR": "GB", "AUT": "AT", "BRA": "BR", "FRA": "FR",
    ]
    private static let header = [
        "Provider", "Provider Country", "SKU", "Developer", "Title", "Version", "Product Type Identifier", "Units",
        "Developer Proceeds", "Begin Date", "End Date", "Customer Currency", "Country Code", "Currency of Proceeds",
        "Apple Identifier", "Customer Price", "Promo Code", "Parent Identifier", "Subscription", "Period", "Category",
        "CMB", "Device", "Supported Platforms", "Proceeds Reason", "Preserved Pricing", "Client", "Order Type",
    ]

    package init(_ simulation: Simulation) {
        for index in 0..<simulation.settings.subscriptions {
            for subscription in simulation.storyteller.story(at: index).subscriptions {
                // Members of a family pay nothing.
                guard !subscription.customer.isMember else { continue }
                for purchase in subscription.purchases where !purchase.isRestored {
                    add(purchase, subscription.customer)
                }
            }
        }
        entries.sort { ($0.at, $0.productId, $0.country) < ($1.at, $1.productId, $1.country) }
    }

    private mutating func add(_ purchase: Purchase, _ customer: Customer) {
        // Seats have several prices.
        let one = Seats.Tier(price: purchase.paid / Int64(purchase.quantity), quantity: purchase.quantity)
        let sales = (purchase.seats?.tiers ?? [one]).map { tier in
            Entry(
                at: purchase.purchaseDate, productId: purchase.product.id, country: customer.storefront.country,
                currency: customer.storefront.currency, price: tier.price, units: tier.quantity)
        }
        entries += sales
        guard let refundedAt = purchase.refundedAt, purchase.price > 0, let first = sales.first else { return }
        let isFull = purchase.revocation?.kind == .full
        for sale in isFull ? sales : [first] {
            var refund = sale
            refund.at = refundedAt
            // A refund in part has no units.
            refund.units = isFull ? -sale.units : 0
            if !isFull { refund.price = purchase.refunded }
            entries.append(refund)
        }
    }

    /// A file for each day from the first to the last, also for days without sales, as name and content.
    package var files: [(name: String, content: String)] {
        let days = Dictionary(grouping: entries) { Self.day($0.at) }
        guard let first = entries.map(\.at).min(), let last = entries.map(\.at).max() else { return [] }
        return Self.days(from: first, to: last).map { day, _ in
            (Self.name(day), Self.content(days[day] ?? [], of: day))
        }
    }

    /// The days in Pacific Time from that of an instant to that of another, as `20261125`, with their last instants.
    static func days(from first: Instant, to last: Instant) -> [(day: String, end: Instant)] {
        var days: [(day: String, end: Instant)] = []
        var start = calendar.startOfDay(for: foundationDate(first))
        while start <= foundationDate(last), let next = calendar.date(byAdding: .day, value: 1, to: start) {
            let end = Instant(milliseconds: Int64(next.timeIntervalSince1970) * 1000 - 1) ?? last
            days.append((day(end), end))
            start = next
        }
        return days
    }

    /// A day in Pacific Time, as `20261125`.
    package static func day(_ instant: Instant) -> String {
        let parts = calendar.dateComponents([.year, .month, .day], from: foundationDate(instant))
        return digits(parts.year, 4) + digits(parts.month, 2) + digits(parts.day, 2)
    }

    private static func foundationDate(_ instant: Instant) -> Date {
        Date(timeIntervalSince1970: Double(instant.milliseconds) / 1000)
    }

    private static func digits(_ number: Int?, _ count: Int) -> String {
        let text = String(number ?? 0)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    private static func name(_ day: String) -> String { "S_D_\(vendor)_\(day).txt" }

    /// A day such as `20261125` as `11/25/2026`.
    static func date(_ day: String) -> String { "\(day.dropFirst(4).prefix(2))/\(day.suffix(2))/\(day.prefix(4))" }

    /// ISO 3166-1 alpha-2.
    static func alpha2(_ country: String) -> String { countries[country] ?? country }

    /// Apple's number of a product.
    package static func appleId(of productId: String) -> String {
        "15" + digits(productId.utf8.reduce(0) { ($0 * 31 + Int($1)) % 100_000_000 }, 8)
    }

    private static func content(_ entries: [Entry], of day: String) -> String {
        var lines = [header.joined(separator: "\t")]
        let date = Self.date(day)
        var alike: [Entry: Int] = [:]
        for entry in entries {
            var key = entry
            key.at = .earliest
            // Units of refunds in part are added as such lines.
            key.units = entry.units.signum()
            alike[key, default: 0] += entry.units == 0 ? 1 : abs(entry.units)
        }
        for (entry, count) in alike.sorted(by: { "\($0.key)" < "\($1.key)" }) {
            for _ in 0..<(entry.units == 0 ? count : 1) {
                let isRefund = entry.units <= 0
                let units = entry.units * count
                lines.append(
                    [
                        "APPLE", "US", entry.productId, "Example GmbH", entry.productId, "", "IAY", "\(units)",
                        amount(entry.price * 7 / 10), date, date, entry.currency,
                        alpha2(entry.country),
                        entry.currency, appleId(of: entry.productId),
                        (isRefund && entry.price > 0 ? "-" : "") + amount(entry.price),
                        "",
                        "example", "", "1 Month", "Utilities", "", "iPhone", "iOS", "", "", "", "",
                    ].joined(separator: "\t"))
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Thousandths as a decimal number.
    static func amount(_ thousandths: Int64) -> String {
        "\(thousandths / 1000).\(digits(Int(thousandths % 1000), 3))"
    }
}
