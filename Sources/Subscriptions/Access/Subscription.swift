import Encoding

/// What the facts about one subscription amount to: its transactions as they stand, and the periods of access they
/// give.
package struct Subscription: Sendable, Hashable {
    package let originalTransactionId: String
    /// In the order of their purchase.
    package let transactions: [ResolvedTransaction]
    /// Oldest statement first.
    package let renewals: [SubscriptionFacts.RenewalStatement]
    /// In the order of their start. They may overlap: a renewal charged early, a row and its restored copy.
    package let access: [AccessPeriod]
    private let products: ProductCatalog

    /// A transaction with all that was stated about it laid over each other, the latest on top.
    package struct ResolvedTransaction: Sendable, Hashable {
        let boxed: Boxed<Transaction>
        /// See ``settled``; nil if it is the transaction itself.
        var settledByCopy: Boxed<Transaction>?
        /// The first event behind each statement that counted, ascending.
        package var positions: [Int64]
        /// Some statement about it was signed.
        package var isSigned: Bool

        package var transaction: Transaction {
            _read { yield boxed.value }
        }

        /// The transaction, with its revocation by the latest statement about any copy of the purchase.
        package var settled: Transaction {
            _read {
                let settled = settledByCopy ?? boxed
                yield settled.value
            }
        }
    }

    /// - Parameter products: The app's products, as far as they are configured; decides about rows that have no
    ///   expiry.
    package init(_ facts: SubscriptionFacts, products: ProductCatalog = .empty) {
        self.products = products
        originalTransactionId = facts.originalTransactionId
        transactions = Self.settleCopies(Self.resolve(facts), facts, products)
        renewals = facts.orderedRenewals
        var paid: [AccessPeriod] = []
        for row in transactions {
            let period = AccessPeriod(
                of: row.settled, kind: Self.kind(of: row.transaction, in: facts, products),
                position: row.positions.first ?? 0,
                replacedAt: Self.replacement(of: row.settled, in: transactions))
            if let period { paid.append(period) }
        }
        let grace = Self.gracePeriods(transactions, renewals, paid)
        access = (paid + grace).sorted { left, right in
            (left.start, left.end, left.transactionId) < (right.start, right.end, right.transactionId)
        }
    }

    /// The kind of a row's product: as Apple signed it, else as configured. V1 states none, so for what is not
    /// configured the row itself decides: only subscriptions have order line ids, groups and renewal info. Anything
    /// else was bought once.
    static func kind(
        of transaction: Transaction, in facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> ProductCatalog.Kind? {
        let configured = products.kind(of: transaction.productId)
        if let type = transaction.type {
            switch Transaction.ProductType(rawValue: type) {
            case .autoRenewable: return .autoRenewable
            case .consumable: return .consumable
            case .nonConsumable: return .nonConsumable
            // How long it lasts is in no transaction. It ends some day, so it must not be taken for owned.
            case .nonRenewing:
                if case .nonRenewing = configured { return configured }
                return nil
            // A type that this version does not know may end some day, too. The configuration can say what it is.
            case nil: return configured
            }
        }
        if let configured { return configured }
        let isSubscription =
            transaction.expiresDate != nil || transaction.webOrderLineItemId != nil
            || transaction.subscriptionGroupIdentifier != nil || !facts.renewals.isEmpty
        return isSubscription ? .autoRenewable : .nonConsumable
    }

    /// How many of a consumable were bought by the instant and not taken back; nil if the subscription has none. What
    /// was used up of them is the app's own record.
    package func consumables(at instant: Instant) -> Int? {
        let bought = transactions.filter { row in
            row.transaction.type.map { $0 == Transaction.ProductType.consumable.rawValue }
                ?? (products.kind(of: row.transaction.productId) == .consumable)
        }
        guard !bought.isEmpty else { return nil }
        return bought.filter { ($0.transaction.purchaseDate ?? .latest) <= instant }
            .reduce(0) { sum, row in
                let (more, overflow) = sum.addingReportingOverflow(row.settled.unitsLeft(at: instant))
                return overflow ? .max : more
            }
    }

    private static func resolve(_ facts: SubscriptionFacts) -> [ResolvedTransaction] {
        var resolved: [String: ResolvedTransaction] = [:]
        for (transaction, statement) in facts.orderedTransactions {
            let id = transaction.value.transactionId
            guard let earlier = resolved[id] else {
                resolved[id] = ResolvedTransaction(
                    boxed: transaction, positions: [statement.position], isSigned: statement.isSigned)
                continue
            }
            resolved[id] = ResolvedTransaction(
                boxed: Boxed(transaction.value.completed(by: earlier.transaction)),
                positions: (earlier.positions + [statement.position]).sorted(),
                isSigned: earlier.isSigned || statement.isSigned)
        }
        return resolved.values.sorted { left, right in
            (left.transaction.purchaseDate ?? .earliest, left.transaction.transactionId)
                < (right.transaction.purchaseDate ?? .earliest, right.transaction.transactionId)
        }
    }

    /// Where another product took the place of a row that still ran.
    ///
    /// V1 says so in the row itself. V2 reports an upgrade by the new transaction alone: it is of another product
    /// of the subscription, and was bought while this one ran.
    private static func replacement(of transaction: Transaction, in all: [ResolvedTransaction]) -> Instant? {
        guard let own = transaction.purchaseDate else { return nil }
        // They are in the order of their purchase, so the first that fits is the earliest.
        if transaction.isUpgraded {
            for other in all {
                if let bought = other.transaction.purchaseDate, bought > own { return bought }
            }
            return nil
        }
        guard let end = transaction.expiresDate else { return nil }
        for other in all {
            guard let bought = other.transaction.purchaseDate, bought > own else { continue }
            guard bought < end else { return nil }
            if other.isSigned, other.transaction.transactionReason != "RENEWAL", other.transaction.expiresDate != nil,
                other.transaction.productId != transaction.productId
            {
                return bought
            }
        }
        return nil
    }

    /// Grace runs from the expiry of the period whose renewal failed: of those that had begun when grace was stated
    /// and were not replaced by an upgrade, the last one to expire before it ends.
    ///
    /// Every grace end that was ever stated is kept, because Apple's later statements leave it out once the
    /// subscription has recovered. The failed period is looked for among all rows, so that its refund takes its grace
    /// with it instead of tying the grace to an older row.
    private static func gracePeriods(
        _ transactions: [ResolvedTransaction], _ renewals: [SubscriptionFacts.RenewalStatement],
        _ paid: [AccessPeriod]
    ) -> [AccessPeriod] {
        var byFailedTransaction: [String: AccessPeriod] = [:]
        for statement in renewals {
            guard let end = statement.renewal.gracePeriodExpiresDate else { continue }
            let candidates = transactions.filter { row in
                !row.settled.isUpgraded && replacement(of: row.settled, in: transactions) == nil
                    && (row.transaction.expiresDate ?? .latest) < end
                    && (row.transaction.purchaseDate ?? .latest) <= statement.statedAt
            }
            guard
                let failed = candidates.max(by: {
                    ($0.transaction.expiresDate ?? .earliest, $0.transaction.transactionId)
                        < ($1.transaction.expiresDate ?? .earliest, $1.transaction.transactionId)
                }),
                let start = failed.transaction.expiresDate, failed.settled.revocationDate == nil
            else { continue }
            let id = failed.transaction.transactionId
            if let known = byFailedTransaction[id], known.end >= end { continue }
            byFailedTransaction[id] = AccessPeriod(
                start: start, end: end, cause: .grace, cut: nil, transactionId: id,
                productId: failed.transaction.productId, position: statement.position)
        }
        return byFailedTransaction.values.compactMap { cut($0, bySwitchOffIn: renewals, paid) }
    }

    /// A switch-off ends grace only while grace is what gives access. After a recovery the subscription is paid for
    /// beyond the grace, and the switch-off ends nothing.
    private static func cut(
        _ grace: AccessPeriod, bySwitchOffIn renewals: [SubscriptionFacts.RenewalStatement], _ paid: [AccessPeriod]
    ) -> AccessPeriod? {
        let switchedOff = renewals.filter { $0.renewal.autoRenewStatus == false }
            .map { $0.renewal.autoRenewStatusChangeDate ?? $0.statedAt }
            .filter { grace.contains($0) && (paid.unbroken(at: $0).last?.end ?? $0) < grace.end }
            .min()
        guard let switchedOff else { return grace }
        guard switchedOff > grace.start else { return nil }
        var shortened = grace
        shortened.end = switchedOff
        shortened.cut = .switchedOff
        return shortened
    }
}
