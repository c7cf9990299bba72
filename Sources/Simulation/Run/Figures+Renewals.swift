import Encoding

extension Figures {
    /// The renewals of which all subscriptions of a run in the standard window know the outcome are due before this month of
    /// the calendar.
    private static let renewalsUntil = 2026 * 12 + 6

    /// Adds the outcome of each renewal, by the month of the first payment at the standard price for the product.
    mutating func addRenewalRuns(_ subscription: CountedSubscription) {
        let purchases = subscription.purchases.filter { !$0.isAddition }
        var run: (start: Instant, payments: Int)?
        for (index, purchase) in purchases.enumerated() {
            if index > 0, purchase.isNewRun(after: purchases[index - 1]) { run = nil }
            guard !purchase.isTrial, run != nil || purchase.offer == nil else { continue }
            let start = run?.start ?? purchase.purchaseDate
            let number = (run?.payments ?? 0) + 1
            run = (start, number)
            let cohort = start.calendarDate
            guard !purchase.isYear, purchase.heldEnd <= asOf,
                asOf < .latest || cohort.year * 12 + cohort.month + number < Self.renewalsUntil
            else { continue }
            let next = index + 1 < purchases.count ? purchases[index + 1] : nil
            for outcome in subscription.outcomes(ofRenewing: purchase, by: next) + ["due"] {
                add(1, "renewal_retention", Self.month(start), purchase.product.id, String(number), outcome)
            }
        }
    }
}

extension Purchase {
    /// True if the purchase pays for a year at once.
    fileprivate var isYear: Bool { product.duration == Period.yearly.duration && billingPlan != .monthly }

    /// When the customer no longer held it: at its end, an upgrade or a refund.
    fileprivate var heldEnd: Instant {
        [expiresDate, upgradedAt, revocation?.date].compactMap(\.self).min() ?? .latest
    }

    /// Whether the renewal of the purchase before it was lost.
    fileprivate func isBoughtAgain(after previous: Purchase) -> Bool {
        let gap = purchaseDate.milliseconds - previous.heldEnd.milliseconds
        let retried = SubscriptionLife.retryDays(billingPlan) * Draw.dayMilliseconds
        return gap > 0 && (reason == .purchase || gap > retried)
    }

    fileprivate func isNewRun(after previous: Purchase) -> Bool {
        product != previous.product || isBoughtAgain(after: previous)
    }
}

extension CountedSubscription {
    /// The columns in which the renewal of a purchase counts.
    fileprivate func outcomes(ofRenewing purchase: Purchase, by next: Purchase?) -> [String] {
        // A purchase within grace follows without a gap.
        let isInGrace = failures.contains { $0.transactionId == purchase.transactionId && $0.recovery == .inGrace }
        if let next, isInGrace || !next.isBoughtAgain(after: purchase) {
            guard next.product == purchase.product else { return ["changed_plan"] }
            switch failures.first(where: { $0.transactionId == purchase.transactionId })?.recovery {
            case .inGrace: return ["in_grace"]
            case .later: return ["later"]
            // After a pause.
            case nil: return purchase.heldEnd < next.purchaseDate ? ["later"] : ["on_time"]
            }
        }
        let lost = next == nil ? ["lost"] : ["lost", "resubscribed"]
        switch reason(endOf: purchase, at: purchase.heldEnd) {
        case "voluntary", "price": return lost + ["lost_voluntary"]
        case "billing": return lost + ["lost_involuntary"]
        default: return lost
        }
    }
}
