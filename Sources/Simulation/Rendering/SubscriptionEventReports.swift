import Encoding

/// Apple's Subscription Event reports about a run, from the simulator's own books.
///
/// Source: Apple, App Store Connect Help, "Subscription Event Report" and "Subscription events".
package struct SubscriptionEventReports: Sendable {
    package struct Entry: Sendable, Hashable {
        package var at: Instant
        /// Apple's name of the event.
        package let event: String
        package let productId: String
        /// ISO 3166-1 alpha-3.
        package let country: String
    }

    package var entries: [Entry] = []

    private static let header = [
        "Event Date", "Event", "App Name", "App Apple ID", "Subscription Name", "Subscription Apple ID",
        "Subscription Group ID", "Standard Subscription Duration", "Subscription Offer Type", "Country", "Quantity",
    ]

    package init(_ simulation: Simulation) {
        for index in 0..<simulation.settings.subscriptions {
            for subscription in simulation.storyteller.story(at: index).subscriptions {
                guard !subscription.customer.isMember else { continue }
                add(subscription.purchases, subscription.customer.storefront.country)
            }
        }
        entries.sort { ($0.at, $0.event, $0.productId) < ($1.at, $1.event, $1.productId) }
    }

    private mutating func add(_ purchases: [Purchase], _ country: String) {
        var previous: Purchase?
        for purchase in purchases where purchase.expiresDate != nil && !purchase.addsSeats {
            defer { previous = purchase }
            // Counts with the subscription that it was copied from.
            guard !purchase.isRestored else { continue }
            entries.append(
                Entry(
                    at: purchase.purchaseDate, event: Self.event(purchase, after: previous),
                    productId: purchase.product.id, country: country))
            if let refundedAt = purchase.refundedAt, purchase.price > 0 {
                entries.append(
                    Entry(at: refundedAt, event: "Refund", productId: purchase.product.id, country: country))
            }
        }
    }

    private static func event(_ purchase: Purchase, after previous: Purchase?) -> String {
        guard let previous else {
            return switch purchase.offer?.kind {
            case nil: "Subscribe"
            case .introductory: "Start Introductory Offer"
            default: "Start Offer Code"
            }
        }
        let hadEnded = previous.expiresDate.map { $0 < purchase.purchaseDate } ?? false
        if hadEnded, purchase.reason == .purchase { return "Reactivate" }
        if purchase.product.id != previous.product.id {
            return purchase.reason == .renewal ? "Downgrade" : "Upgrade"
        }
        if purchase.offer != nil { return "Promotional Offer from Paid Subscription" }
        if previous.offer != nil { return "Paid Subscription from Introductory Offer" }
        return hadEnded ? "Renewal from Billing Retry" : "Renew"
    }

    /// A file for each day with events, as name and content.
    package var files: [(name: String, content: String)] {
        let days = Dictionary(grouping: entries) { SalesReports.day($0.at) }
        return days.sorted { $0.key < $1.key }.map { day, entries in
            var counts: [Entry: Int] = [:]
            for var entry in entries {
                entry.at = .earliest
                counts[entry, default: 0] += 1
            }
            var lines = [Self.header]
            for (entry, count) in counts.sorted(by: { "\($0.key)" < "\($1.key)" }) {
                lines.append([
                    "\(day.prefix(4))-\(day.dropFirst(4).prefix(2))-\(day.suffix(2))", entry.event, "Example",
                    "1234567890", entry.productId, SalesReports.appleId(of: entry.productId), "20000001", "1 Month",
                    "", SalesReports.alpha2(entry.country), "\(count)",
                ])
            }
            let content = lines.map { $0.joined(separator: "\t") }.joined(separator: "\n") + "\n"
            return ("Subscription_Event_\(SalesReports.vendor)_\(day)_V1_3.txt", content)
        }
    }
}
