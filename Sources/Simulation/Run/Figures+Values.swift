import Encoding

/// How the monthly value of customers changes.
extension Figures {
    /// Adds how the monthly value of a customer's subscriptions changes from one day to the next, in each currency, grace
    /// included.
    mutating func addValueMovements(_ subscriptions: [CountedSubscription], owned: Range<Instant>) {
        for (currency, same) in Dictionary(grouping: subscriptions, by: \.storefront.currency) {
            addBalances(of: same, owned: owned, currency)
            let boundaries = Set(same.flatMap(\.access.boundaries) + [owned.lowerBound, owned.upperBound])
            // What happens at 00:00 changes the value from the day before to that day.
            let days = Set(
                boundaries.filter { $0 > .earliest && $0 < .latest }.map {
                    ($0.milliseconds - 1) / Draw.dayMilliseconds * Draw.dayMilliseconds
                })
            var before: [String: Int64] = [:]
            var hadValue = false
            for day in days.sorted().compactMap({ Instant(milliseconds: $0) }) {
                let next = day.advanced(byMilliseconds: Draw.dayMilliseconds)
                guard next <= asOf else { break }
                let after = Self.parts(of: same, owned: owned, at: next)
                let (old, new) = (before.values.reduce(0, +), after.values.reduce(0, +))
                var movement: String?
                if old != new {
                    let name =
                        old == 0
                        ? hadValue ? "reactivation" : "new"
                        : new == 0 ? "churn" : old < new ? "expansion" : "contraction"
                    add(abs(new - old), "mrr_movements", Self.month(day), currency, name)
                    movement = name
                }
                addPartMovements(from: before, to: after, movement, Self.month(day))
                before = after
                hadValue = hadValue || new > 0
            }
        }
    }

    /// Adds the value at the start of each month, which is that at the end of the month before; of the last month, the value
    /// on the day of the figures.
    private mutating func addBalances(of same: [CountedSubscription], owned: Range<Instant>, _ currency: String) {
        func add(_ column: String, at instant: Instant, in month: String) {
            for (part, value) in Self.parts(of: same, owned: owned, at: instant) {
                self.add(value, "mrr_movement_parts", month, part, column)
                self.add(value, "mrr_movements", month, currency, column)
            }
        }
        for day in balanceDays {
            add("opening", at: day, in: Self.month(day))
            add("closing", at: day, in: Self.month(day.advanced(byMilliseconds: -1)))
        }
        guard asOf < .latest,
            let today = Instant(milliseconds: asOf.milliseconds / Draw.dayMilliseconds * Draw.dayMilliseconds)
        else { return }
        add("closing", at: today, in: Self.month(today))
    }

    /// The monthly value of a customer's subscriptions at an instant, by what it is paid for: product, length, country,
    /// currency and offer.
    private static func parts(
        of subscriptions: [CountedSubscription], owned: Range<Instant>, at instant: Instant
    ) -> [String: Int64] {
        guard owned.contains(instant) else { return [:] }
        return subscriptions.reduce(into: [:]) { parts, subscription in
            let value = subscription.monthlyValue(at: instant)
            guard value != 0, let purchase = subscription.holder(at: instant)?.purchase else { return }
            let storefront = subscription.storefront
            let offer = purchase.offer.map { " \($0.kind.rawValue)" } ?? ""
            let part =
                "\(purchase.product.id) \(purchase.planLength) \(storefront.country) \(storefront.currency)\(offer)"
            parts[part, default: 0] += value
        }
    }

    /// Adds what each part has of a change of the whole value. What parts gain while others lose has moved between them; the
    /// rest is the movement, in which those that changed in its direction have shares like their changes.
    ///
    /// - Parameter movement: Nil if the whole value stays.
    private mutating func addPartMovements(
        from before: [String: Int64], to after: [String: Int64], _ movement: String?, _ month: String
    ) {
        let changes = Set(before.keys).union(after.keys).map { part in
            (part: part, change: (after[part] ?? 0) - (before[part] ?? 0))
        }
        let gained = changes.map { max($0.change, 0) }.reduce(0, +)
        let lost = changes.map { max(-$0.change, 0) }.reduce(0, +)
        for (part, change) in changes where change != 0 {
            let all = change > 0 ? gained : lost
            let moved = Self.quotient(abs(change) * min(gained, lost), all)
            add(change > 0 ? moved : -moved, "mrr_movement_parts", month, part, "moved")
            if let movement { add(abs(change) - moved, "mrr_movement_parts", month, part, movement) }
        }
    }
}

extension Purchase {
    /// The length of the plan that it pays for. A year that is billed monthly is a year.
    fileprivate var planLength: String {
        guard let length = product.duration else { return "" }
        if length.months == 12 { return "P1Y" }
        return length.months > 0 ? "P\(length.months)M" : "P\(length.days / 7)W"
    }
}
