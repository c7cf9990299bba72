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

    /// A period as far as it entitles to one thing.
    package struct Grant: Sendable {
        let entitlement: String
        let line: String
        let start: Instant
        let end: Instant
        let productId: String
        let position: Int64

        package init(
            entitlement: String, line: String, start: Instant, end: Instant, productId: String, position: Int64
        ) {
            self.entitlement = entitlement
            self.line = line
            self.start = start
            self.end = end
            self.productId = productId
            self.position = position
        }
    }

    /// What lines amount to by an instant, each entitlement once, in the order of their bytes: the same that SQL finds
    /// for what is known today.
    ///
    /// - Parameter entitlements: What the products entitle to; those that are not in it entitle to their own id.
    package static func all(
        of subscriptions: [Subscription], entitlements: [String: [String]], at instant: Instant
    ) -> [Entitlement] {
        var grants: [Grant] = []
        for subscription in subscriptions {
            for period in subscription.access {
                guard let product = period.productId else { continue }
                for name in entitlements[product] ?? [product] {
                    grants.append(
                        Grant(
                            entitlement: name, line: subscription.originalTransactionId, start: period.start,
                            end: period.end, productId: product, position: period.position))
                }
            }
        }
        return all(of: grants, at: instant)
    }

    /// As ``all(of:entitlements:at:)``, of periods whose entitlements are known.
    package static func all(of grants: [Grant], at instant: Instant) -> [Entitlement] {
        Dictionary(grouping: grants) { ExactText($0.entitlement) }.sorted { $0.key < $1.key }
            .compactMap { name, grants in
                lastRun(grants, at: instant).map { run in
                    Entitlement(
                        entitlement: name.text, until: run.map(\.end).max() ?? .earliest,
                        productIds: Array(Set(run.map(\.productId))), subscriptions: Array(Set(run.map(\.line))),
                        positions: Array(Set(run.map(\.position))))
                }
            }
    }

    /// The last run that began by the instant; what overlaps or touches is one.
    private static func lastRun(_ grants: [Grant], at instant: Instant) -> [Grant]? {
        var run: [Grant] = []
        var end = Instant.earliest
        for next in grants.sorted(by: { $0.start < $1.start }) {
            if next.start > end || run.isEmpty {
                if next.start > instant { break }
                run = []
                end = next.end
            }
            run.append(next)
            end = max(end, next.end)
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
