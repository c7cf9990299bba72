/// What a customer is or was entitled to: the last unbroken run of access that gives it.
package struct Entitlement: Sendable, Hashable {
    package let entitlement: String
    /// End of the run; ``Instant/latest`` for what has none.
    package let until: Instant
    /// In the order of their bytes.
    package let productIds: [String]
    /// `originalTransactionId`s of the lines behind the run, in the order of their bytes.
    package let subscriptions: [String]
    /// The first events behind the run, ascending.
    package let positions: [Int64]

    package init(
        entitlement: String, until: Instant, productIds: [String], subscriptions: [String], positions: [Int64]
    ) {
        self.entitlement = entitlement
        self.until = until
        self.productIds = productIds.sorted { ExactText($0) < ExactText($1) }
        self.subscriptions = subscriptions.sorted { ExactText($0) < ExactText($1) }
        self.positions = positions.sorted()
    }

    package func isActive(at instant: Instant) -> Bool { instant < until }

    /// What lines amount to by an instant, each entitlement once, in the order of their bytes: the same that SQL finds
    /// for what is known today.
    ///
    /// - Parameter entitlements: What the products entitle to; those that are not in it entitle to their own id.
    package static func all(
        of subscriptions: [Subscription], entitlements: [String: [String]], at instant: Instant
    ) -> [Entitlement] {
        var periods: [ExactText: [(line: String, period: AccessPeriod)]] = [:]
        for subscription in subscriptions {
            for period in subscription.access {
                guard let product = period.productId else { continue }
                for name in entitlements[product] ?? [product] {
                    periods[ExactText(name), default: []].append((subscription.originalTransactionId, period))
                }
            }
        }
        return periods.sorted { $0.key < $1.key }.compactMap { name, periods in
            lastRun(periods, at: instant).map { run in
                Entitlement(
                    entitlement: name.text, until: run.map(\.period.end).max() ?? .earliest,
                    productIds: Array(Set(run.compactMap(\.period.productId))),
                    subscriptions: Array(Set(run.map(\.line))), positions: Array(Set(run.map(\.period.position))))
            }
        }
    }

    /// The last run that began by the instant; what overlaps or touches is one.
    private static func lastRun(
        _ periods: [(line: String, period: AccessPeriod)], at instant: Instant
    ) -> [(line: String, period: AccessPeriod)]? {
        var run: [(line: String, period: AccessPeriod)] = []
        var end = Instant.earliest
        for next in periods.sorted(by: { $0.period.start < $1.period.start }) {
            if next.period.start > end || run.isEmpty {
                if next.period.start > instant { break }
                run = []
                end = next.period.end
            }
            run.append(next)
            end = max(end, next.period.end)
        }
        return run.isEmpty ? nil : run
    }

    package func write(at instant: Instant, to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("entitlement", entitlement)
            writer.member("active", isActive(at: instant))
            writer.key("until")
            if until < .latest { writer.value(until) } else { writer.value(rawJSON: "null".utf8) }
            writer.key("productIds")
            writer.array(productIds) { $0.value($1) }
            writer.key("subscriptions")
            writer.array(subscriptions) { $0.value($1) }
            writer.key("positions")
            writer.array(positions) { $0.value($1) }
        }
    }
}
