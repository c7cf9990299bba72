import Encoding

/// What the App Store reported: transactions and renewal info.
struct AppleBook: StoreBook {
    let facts: SubscriptionFacts

    var reportsRetries: Bool { true }
    /// A transaction may move to another subscription, but the facts about it do not.
    var mayJoinOthers: Bool { false }
    /// Transactions contain the account tokens.
    var hiddenOwners: Set<CustomerKey> { [] }

    func resolve(_ products: ProductCatalog, _ rules: inout some RuleCollector) -> ResolvedBook {
        let reported = Subscription.settleCopies(Subscription.resolve(facts, &rules), facts, products, &rules)
        let transactions = Subscription.applyAccountDeletions(
            to: Subscription.markUpgrades(reported), facts, &rules)
        return ResolvedBook(
            transactions: Subscription.refundSeats(in: transactions, facts),
            renewals: facts.orderedRenewals)
    }

    func gracePeriods(
        _ resolved: ResolvedBook, _ paid: [AccessPeriod], _ rules: inout some RuleCollector
    ) -> [AccessPeriod] {
        Subscription.gracePeriods(resolved.transactions, resolved.renewals, paid, &rules)
    }

    func ownershipEvidence() -> OwnershipEvidence { facts.transactionEvidence() }
}
