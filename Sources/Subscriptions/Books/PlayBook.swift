import Encoding

/// What Google Play reported: purchases, each of which may continue another.
struct PlayBook: StoreBook {
    let facts: SubscriptionFacts

    var reportsRetries: Bool { false }
    var mayJoinOthers: Bool { true }
    var hiddenOwners: Set<CustomerKey> { Set(ownershipEvidence().edges.keys) }

    func resolve(_ products: ProductCatalog, _ rules: inout some RuleCollector) -> ResolvedBook {
        let line = PurchaseLine(facts)
        let resolved = line.resolve(&rules)
        return ResolvedBook(
            transactions: resolved.transactions, renewals: resolved.renewals, purchases: line.purchases,
            grace: resolved.grace)
    }

    func gracePeriods(
        _ resolved: ResolvedBook, _ paid: [AccessPeriod], _ rules: inout some RuleCollector
    ) -> [AccessPeriod] { resolved.grace }

    func ownershipEvidence() -> OwnershipEvidence { facts.purchaseEvidence() }
}
