import Encoding

extension ExplainedCustomers {
    /// One customer, made of parts in two joined apps, ready to be explained under one name.
    ///
    /// - Parameters:
    ///   - apps: The customers of each app, with its name if it is not the answer's.
    ///   - parts: Each with the index of its app.
    package init(
        joining apps: [(customers: ExplainedCustomers, joinedApp: String?)], _ parts: [JoinedCustomers.Part],
        as name: CustomerKey
    ) {
        var lines: [Line] = []
        var ownership: [Ownership] = []
        var rules: [AppliedRule] = []
        var skipped: [AppliedRule] = []
        var sources: [Source] = []
        for (index, app) in apps.enumerated() {
            let own = Set(parts.filter { $0.app == index }.map(\.customer))
            func marked(_ rule: AppliedRule) -> AppliedRule {
                var rule = rule
                rule.joinedApp = app.joinedApp
                if let customer = rule.customer, own.contains(customer) { rule.customer = name }
                if let customer = rule.nextCustomer, own.contains(customer) { rule.nextCustomer = name }
                return rule
            }
            lines += app.customers.lines.map { line in
                var line = line
                line.joinedApp = app.joinedApp
                line.rules = line.rules.map(marked)
                return line
            }
            let owned = app.customers.customers.ownership.map { interval in
                Ownership(
                    originalTransactionId: interval.originalTransactionId,
                    owner: own.contains(interval.owner) ? name : interval.owner, from: interval.from,
                    until: interval.until, reason: interval.reason, position: interval.position)
            }
            // What passes from one part to another stays with the customer.
            rules += app.customers.ownershipRules.map(marked).filter { rule in
                rule.rule != .latestBuyer || rule.customer != name
                    || !owned.contains { interval in
                        interval.owner == name && interval.originalTransactionId.text == rule.originalTransactionId
                            && rule.at.map { interval.isInForce(at: $0) } ?? false
                    }
            }
            skipped += app.customers.skipped.map(marked)
            ownership += owned
            sources += app.customers.sources.map { source in
                var source = source
                source.joinedApp = app.joinedApp
                source.parts = own
                source.name = name
                return source
            }
        }
        self.init(
            customers: Customers(ownership: ownership, identities: []),
            lines: lines.sorted { ByteString($0.id) < ByteString($1.id) }, ownershipRules: rules, skipped: skipped,
            sources: sources)
    }
}
