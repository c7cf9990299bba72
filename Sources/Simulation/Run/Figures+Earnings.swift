import Encoding

/// What customers were worth, and who left with which price.
extension Figures {
    /// The months after the first payment whose revenue is computed.
    private static let monthsMax = 6

    /// Adds each price that a subscription paid, and whether the subscription ended with it.
    mutating func addPrices(_ subscription: CountedSubscription) {
        let boundaries = subscription.access.boundaries.sorted()
        let held = Set(
            boundaries.compactMap { boundary in
                subscription.holder(at: boundary).flatMap { $0.isGrace ? nil : $0.purchase.transactionId }
            })
        let paid = subscription.purchases.filter {
            held.contains($0.transactionId) && $0.isOfRenewing && !$0.isTrial && $0.paid != 0 && !$0.isAddition
                && $0.revocation?.kind != .full
        }
        let ended = Set(
            boundaries.filter { $0 <= asOf }.compactMap { boundary -> String? in
                let before = boundary.advanced(byMilliseconds: -1)
                guard subscription.access.isHeld(at: before), !subscription.access.isHeld(at: boundary) else {
                    return nil
                }
                return subscription.holder(at: before)?.purchase.transactionId
            })
        let prices = paid.flatMap { purchase -> [HeldPrice] in
            let added = subscription.purchases.filter {
                $0.addsSeats && $0.revocation == nil && $0.expiresDate == purchase.expiresDate
            }
            let starts = [purchase.purchaseDate] + added.map(\.purchaseDate).sorted()
            return starts.enumerated().map { index, start in
                let amount =
                    index == 0
                    ? purchase.paid + subscription.addOns(of: purchase).map(\.paid).reduce(0, +)
                    : subscription.payments(ofPeriodOf: purchase, at: start).map(\.paid).reduce(0, +)
                let isLeft = index == added.count && ended.contains(purchase.transactionId)
                return HeldPrice(
                    key: Self.place(of: purchase, paying: amount, subscription), start: start, isLeft: isLeft,
                    isLeftForPrice: isLeft && subscription.endings[purchase.transactionId] == .price)
            }
        }
        let last = prices.map(\.start).max()
        let isActive = subscription.access.isHeld(at: asOf)
        for (key, same) in Dictionary(grouping: prices, by: \.key) {
            guard let latest = same.max(by: { $0.start < $1.start }) else { continue }
            add(1, "price_cohorts", key, "subscriptions")
            let state = latest.isLeft ? "churned" : latest.start != last ? "moved" : isActive ? "active" : "churned"
            add(1, "price_cohorts", key, state)
            if state == "active" { add(subscription.monthlyValue(at: asOf), "price_cohorts", key, "mrr") }
            let asked = state == "active" ? subscription.renewal?.increase?.rawValue : nil
            guard let increase = latest.isLeftForPrice ? "increase_left" : asked else { continue }
            add(1, "price_cohorts", key, "increase_asked")
            add(1, "price_cohorts", key, increase)
        }
    }

    /// A price from an instant on; seats that are added to a period raise it.
    private struct HeldPrice {
        let key: String
        let start: Instant
        /// Whether access ended with it.
        let isLeft: Bool
        /// Whether that was because a higher one was not accepted.
        let isLeftForPrice: Bool
    }

    private static func place(
        of purchase: Purchase, paying amount: Int64, _ subscription: CountedSubscription
    ) -> String {
        let storefront = subscription.storefront
        let offer = purchase.offer.map { " \($0.kind.rawValue)\($0.identifier.map { " \($0)" } ?? "")" } ?? ""
        return "\(purchase.product.id) \(storefront.country) \(storefront.currency) \(amount)\(offer)"
    }

    /// Adds what a customer paid and kept in the months after the first payment.
    ///
    /// - Parameter subscriptions: Without those of members.
    mutating func addLifetimeValue(_ subscriptions: [CountedSubscription], owned: Range<Instant>) {
        let payments = subscriptions.flatMap { subscription in
            subscription.purchases.filter { $0.isPayment && owned.contains($0.purchaseDate) }
                .map { (purchase: $0, storefront: subscription.storefront) }
        }.sorted { left, right in
            let (earlier, later) = (left.purchase, right.purchase)
            return (earlier.purchaseDate, earlier.transactionId) < (later.purchaseDate, later.transactionId)
        }
        addPaymentNumbers(payments)
        guard let first = payments.first else { return }
        let cohort = "\(Self.month(first.purchase.purchaseDate)) \(first.storefront.country)"
        add(1, "ltv_in", cohort, "customers")
        // Of no customer of the cohort, more months have begun.
        let known = Self.calendarMonths(from: first.purchase.purchaseDate, to: asOf)
        let last = min(known, Self.monthsMax)
        for payment in payments {
            let kept = (payment.purchase.paid - payment.purchase.refunded) * Self.euros(payment.storefront.currency)
            let passed = Self.months(from: first.purchase.purchaseDate, to: payment.purchase.purchaseDate)
            guard passed <= last else { continue }
            for months in passed...last {
                add(kept, "ltv_in", cohort, String(months), "revenue")
            }
        }
    }

    /// Adds which payments are the first ones of a customer, and who paid in which month.
    ///
    /// - Parameter payments: Those of the customer, in order.
    private mutating func addPaymentNumbers(_ payments: [(purchase: Purchase, storefront: Storefront)]) {
        for (purchase, storefront) in payments {
            let place = "\(purchase.product.id) \(storefront.country) \(storefront.currency)"
            // One order is one payment, however many products it pays for.
            let isNew = purchase.purchaseDate == payments[0].purchase.purchaseDate
            add(purchase.paid, "revenue", Self.month(purchase.purchaseDate), place, isNew ? "new" : "renewal")
            let kept = (purchase.paid - purchase.refunded) * Self.euros(storefront.currency)
            add(kept, "arppu_in", Self.month(purchase.purchaseDate), "revenue")
        }
        for month in Set(payments.map { Self.month($0.purchase.purchaseDate) }) {
            add(1, "arppu_in", month, "customers")
        }
    }

    /// The whole months between the days of two instants.
    private static func months(from: Instant, to: Instant) -> Int {
        calendarMonths(from: from, to: to) - (to.calendarDate.day < from.calendarDate.day ? 1 : 0)
    }

    private static func calendarMonths(from: Instant, to: Instant) -> Int {
        let (start, end) = (from.calendarDate, to.calendarDate)
        return (end.year - start.year) * 12 + end.month - start.month
    }
}
