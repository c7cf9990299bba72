import Encoding

/// Apple's Subscription reports about a run, from the simulator's own books: how many subscriptions are in which state at
/// the end of each day in Pacific Time.
///
/// A subscription counts for as long as is paid for, without what was refunded, at its standard price or with an offer.
/// After a failed renewal it is in grace or in billing retry. Members of a family have none.
///
/// Source: Apple, App Store Connect Help, "Subscription Report", version 1_3. It does not say at which time of the day.
package struct SubscriptionReports: Sendable {
    /// A subscription on a day.
    package struct Entry: Sendable, Hashable {
        /// As `20261125`.
        package var day: String
        package let productId: String
        /// ISO 3166-1 alpha-3.
        package let country: String
        package let currency: String
        /// Apple's name of the column that counts it.
        package var state: String
    }

    package var entries: [Entry] = []
    private let days: [(day: String, end: Instant)]

    private static let header = [
        "App Name", "App Apple ID", "Subscription Name", "Subscription Apple ID", "Subscription Group ID",
        "Standard Subscription Duration", "Subscription Offer Name", "Promotional Offer ID", "Customer Price",
        "Customer Currency", "Developer Proceeds", "Proceeds Currency", "Preserved Pricing", "Proceeds Reason",
        "Client", "Device", "State", "Country",
    ]
    private static let states = [
        "Active Standard Price Subscriptions", "Active Free Trial Introductory Offer Subscriptions",
        "Active Pay Up Front Introductory Offer Subscriptions", "Active Pay As You Go Introductory Offer Subscriptions",
        "Free Trial Promotional Offer Subscriptions", "Pay Up Front Promotional Offer Subscriptions",
        "Pay As You Go Promotional Offer Subscriptions", "Free Trial Offer Code Subscriptions",
        "Pay Up Front Offer Code Subscriptions", "Pay As You Go Offer Code Subscriptions", "Marketing Opt-Ins",
        "Billing Retry", "Grace Period", "Subscribers", "Free Trial Win-Back Offers", "Pay Up Front Win-Back Offers",
        "Pay As You Go Win-Back Offers",
    ]

    package init(_ simulation: Simulation) {
        let subscriptions = (0..<simulation.settings.subscriptions).flatMap {
            simulation.storyteller.story(at: $0).subscriptions.filter { !$0.customer.isMember }
        }
        let events = subscriptions.flatMap { $0.history.map(\.at) }
        days = SalesReports.days(from: events.min() ?? .earliest, to: events.max() ?? .earliest)
        for subscription in subscriptions {
            guard let first = subscription.history.first?.at else { continue }
            let storefront = subscription.customer.storefront
            for (day, end) in days where first <= end {
                guard let books = subscription.books(at: end), let (purchase, state) = Self.state(of: books, at: end)
                else { continue }
                entries.append(
                    Entry(
                        day: day, productId: purchase.product.id, country: storefront.country,
                        currency: storefront.currency, state: state))
            }
        }
    }

    /// The purchase that decides, and the column; nil for a subscription that does not count.
    private static func state(of books: BookEntry, at instant: Instant) -> (Purchase, String)? {
        // A restored purchase counts with the subscription that it was copied from.
        let running = books.purchases.last { $0.purchaseDate <= instant && $0.isHeld(at: instant) && !$0.isRestored }
        if let running { return (running, column(of: running.offer)) }
        guard let preference = books.renewalPreference, preference.isInBillingRetry, let failed = books.purchases.last,
            let due = failed.expiresDate, due <= instant
        else { return nil }
        if let graceEnd = preference.graceEnd, instant < graceEnd { return (failed, "Grace Period") }
        let days = SubscriptionLife.retryDays(failed.billingPlan)
        return instant < due.advanced(byMilliseconds: days * 86_400_000) ? (failed, "Billing Retry") : nil
    }

    private static func column(of offer: Offer?) -> String {
        guard let offer else { return "Active Standard Price Subscriptions" }
        let price =
            switch offer.discountType {
            case "FREE_TRIAL": "Free Trial"
            case "PAY_UP_FRONT": "Pay Up Front"
            default: "Pay As You Go"
            }
        return switch offer.kind {
        case .introductory: "Active \(price) Introductory Offer Subscriptions"
        case .promotional: "\(price) Promotional Offer Subscriptions"
        case .code: "\(price) Offer Code Subscriptions"
        case .winBack: "\(price) Win-Back Offers"
        }
    }

    /// A file for each day, as name and content.
    package var files: [(name: String, content: String)] {
        let entries = Dictionary(grouping: entries, by: \.day)
        return days.map { day, _ in
            let rows = Dictionary(grouping: entries[day] ?? []) { [$0.productId, $0.country, $0.currency] }
            var lines = [Self.header + Self.states]
            for (key, entries) in rows.sorted(by: { $0.key.joined() < $1.key.joined() }) {
                let (productId, country, currency) = (key[0], key[1], key[2])
                let counts = Dictionary(grouping: entries, by: \.state).mapValues(\.count)
                lines.append(
                    [
                        "Example", "1234567890", productId, SalesReports.appleId(of: productId), "20000001", "1 Month",
                        " ", " ", "", currency, "", currency, "", "", "", "iPhone", " ", SalesReports.alpha2(country),
                    ] + Self.states.map { "\(counts[$0] ?? 0)" })
            }
            let content = lines.map { $0.joined(separator: "\t") }.joined(separator: "\n") + "\n"
            return ("Subscription_\(SalesReports.vendor)_\(day)_V1_3.txt", content)
        }
    }
}

extension Purchase {
    /// Whether a period that has begun is not over, replaced by an upgrade or refunded.
    fileprivate func isHeld(at instant: Instant) -> Bool {
        guard let expiresDate else { return false }
        return [expiresDate, upgradedAt, revocation?.date].allSatisfy { $0.map { instant < $0 } ?? true }
    }
}
