import Encoding

/// What one store reported about a subscription, in the terms that all stores share.
///
/// This is a store's door to the core: a further store has a book of its own, which ``SubscriptionFacts/book`` opens.
protocol StoreBook: Sendable {
    /// Whether reports about renewal say that the store retries one. If not, the times of suspension are all that is known.
    var reportsRetries: Bool { get }

    /// Whether facts about the subscription may belong to another one, or those about others to it.
    var mayJoinOthers: Bool { get }

    /// Merges the reports about each purchase.
    func resolve(_ products: ProductCatalog, _ rules: inout some RuleCollector) -> ResolvedBook

    /// The periods of grace.
    ///
    /// - Parameters:
    ///   - resolved: The result of ``resolve(_:_:)``.
    ///   - paid: The periods of its transactions.
    func gracePeriods(
        _ resolved: ResolvedBook, _ paid: [AccessPeriod], _ rules: inout some RuleCollector
    ) -> [AccessPeriod]

    /// The evidence of who owns the subscription.
    func ownershipEvidence() -> OwnershipEvidence

    /// The ids in that evidence, as far as no transaction shows them.
    var hiddenOwners: Set<CustomerKey> { get }
}

/// The reports of a store, merged.
struct ResolvedBook {
    var transactions: [Subscription.ResolvedTransaction]
    /// Oldest report first.
    var renewals: [SubscriptionFacts.RenewalStatement]
    /// See ``Subscription/purchases``.
    var purchases: [PlayPurchase] = []
    /// See ``StoreBook/gracePeriods(_:_:_:)``; empty if they follow from the periods.
    var grace: [AccessPeriod] = []
}

extension SubscriptionFacts {
    /// The book of the store that reported the facts: an id is one store's.
    var book: any StoreBook {
        purchases.isEmpty && line == nil ? AppleBook(facts: self) : PlayBook(facts: self)
    }

    /// Returns the evidence of who owns the subscription.
    package func ownershipEvidence() -> OwnershipEvidence { book.ownershipEvidence() }

    /// Whether facts about the subscription may belong to another one, or those about others to it.
    package var mayJoinOthers: Bool { book.mayJoinOthers }
}
