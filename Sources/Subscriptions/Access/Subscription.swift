import Encoding

/// The state of a subscription, computed from its facts: its current transactions and the periods of access that they
/// give.
package struct Subscription: Sendable, Hashable {
    package let originalTransactionId: String
    /// Ordered by purchase date.
    package let transactions: [ResolvedTransaction]
    /// Oldest report first.
    package let renewals: [SubscriptionFacts.RenewalStatement]
    /// Ordered by start. Periods may overlap, for example if a renewal was charged early or a transaction was restored.
    package internal(set) var access: [AccessPeriod]
    /// The periods of fully refunded transactions until their refund. They give no access: reports count them.
    package let refunded: [AccessPeriod]
    package let reports: ReportSummary
    /// The purchases on Google Play, oldest first; empty for other stores.
    package let purchases: [PlayPurchase]
    private let products: ProductCatalog
    /// See ``StoreBook/reportsRetries``.
    let reportsRetries: Bool

    /// A transaction merged from all reports about it; later reports take precedence.
    package struct ResolvedTransaction: Sendable, Hashable {
        /// Set by the extensions that settle what several reports say.
        var boxed: Boxed<Transaction>
        /// See ``settled``; nil if that equals the transaction itself.
        var settledByCopy: Boxed<Transaction>?
        /// The position of the first event of each report that contributed, ascending.
        package var positions: [Int64]
        /// True if any report about the transaction was signed.
        package var isSigned: Bool
        /// Set if no other transaction shortens the period: Google's answers say when it ended.
        var exactEnd: ExactEnd?

        /// What Google says of a one-time purchase beyond the transaction; nil for other purchases.
        var oneTime: OneTime?
        /// True if it pays for an item that the customer holds beside the plan, in the same purchase.
        var isAddOn = false
        /// True if it pays for the rest of a period after a change of plan: its price is not that of the plan.
        var isProrated = false
        /// The seats that it pays for; nil for a purchase without seats.
        var seats: Transaction.Seats?
        /// What was paid back while the purchase stands and nothing else ended it, oldest first.
        var amountRefunds: [AmountRefund] = []
        /// What the store states that was paid back, oldest first.
        var statedRefunds: [AmountRefund] = []
        /// What the configuration has to say about the product before the purchase counts as it should; nil if nothing is
        /// missing.
        package internal(set) var gap: ConfigurationGap?

        struct OneTime: Sendable, Hashable {
            /// Of the answer that first shows that it was paid for.
            let position: Int64
            var isConsumed = false
            /// How it was bought, such as for a rental.
            var purchaseOptionId: String?
            /// The refunds of units, oldest first.
            var refunds: [UnitRefund] = []
        }

        /// A refund of some units.
        struct UnitRefund: Sendable, Hashable {
            let at: Instant
            /// The units that it leaves.
            let left: Int
            /// Of the event that states it.
            let position: Int64
        }

        /// A refund of an amount, which changes no access.
        package struct AmountRefund: Sendable, Hashable {
            package let at: Instant
            /// In thousandths.
            package let amount: Int64
            /// Of the event that states it.
            let position: Int64
        }

        /// What was paid back, oldest first: as the store states it, otherwise the share of the refunded units. Empty if it is
        /// not known, and for a purchase that counts as never made, unless it was paid back in parts.
        package var paidBack: [AmountRefund] {
            guard let price = settled.price, settled.revocationDate != nil,
                !settled.isRefunded || statedRefunds.count > 1
            else { return [] }
            var left = price
            if !statedRefunds.isEmpty {
                return statedRefunds.map { refund in
                    let amount = min(refund.amount, left)
                    left -= amount
                    return AmountRefund(at: refund.at, amount: amount, position: refund.position)
                }
            }
            guard settled.revocation == .unitsRefunded, price > 0 else { return [] }
            let seats = Transaction.Seats(bought: settled.quantity ?? 1)
            return (oneTime?.refunds ?? []).compactMap { refund in
                guard let kept = seats.share(of: price, for: refund.left) else { return nil }
                defer { left = kept }
                return AmountRefund(at: refund.at, amount: left - kept, position: refund.position)
            }
        }

        /// The units of a consumable that remain at an instant after the purchase.
        func unitsLeft(at instant: Instant) -> Int {
            guard let refunds = oneTime?.refunds, !refunds.isEmpty, settled.revocation == .unitsRefunded else {
                return settled.unitsLeft(at: instant)
            }
            return refunds.last { $0.at <= instant }?.left ?? settled.quantity ?? 1
        }

        /// How a period ended early.
        struct ExactEnd: Sendable, Hashable {
            /// The events that say so, ascending; empty if it did not.
            var positions: [Int64] = []
            /// The first transaction of the purchase that replaced it.
            var replacement: String?
        }

        package var transaction: Transaction {
            _read { yield boxed.value }
        }

        /// The transaction, with the revocation from the latest report about any copy of the purchase.
        package var settled: Transaction {
            _read {
                let settled = settledByCopy ?? boxed
                yield settled.value
            }
        }
    }

    /// - Parameter products: The app's configured products, which determine the kind of transactions without an expiry.
    package init(_ facts: SubscriptionFacts, products: ProductCatalog = .empty) {
        var none = NoRules()
        self.init(facts, products: products, collecting: &none)
    }

    /// Like ``init(_:products:)``, and records each rule where it is applied.
    package init(_ facts: SubscriptionFacts, products: ProductCatalog = .empty, explaining rules: inout AppliedRules) {
        var own = AppliedRules(about: facts)
        self.init(facts, products: products, collecting: &own)
        rules.append(own, statedIn: facts)
    }

    private init(
        _ all: SubscriptionFacts, products: ProductCatalog, collecting rules: inout some RuleCollector
    ) {
        let moves = all.moves
        let facts = all.without(moves)
        for (_, move) in moves.sorted(by: { $0.key < $1.key }) { rules.collect(.movingAway(move)) }
        self.products = products
        originalTransactionId = facts.originalTransactionId
        let book = facts.book
        let resolved = book.resolve(products, &rules)
        var transactions = resolved.transactions
        renewals = resolved.renewals
        purchases = resolved.purchases
        reportsRetries = book.reportsRetries
        reports = ReportSummary(facts)
        var paid: [AccessPeriod] = []
        var refunded: [AccessPeriod] = []
        for index in transactions.indices {
            let kind = Self.kind(of: transactions[index], in: facts, products)
            transactions[index].gap = Self.gap(of: transactions[index], kind, products)
            let row = transactions[index]
            // A refund may have been stored before the answer that shows the purchase.
            let position = row.oneTime?.position ?? row.positions.first ?? 0
            let end =
                row.exactEnd.map(AccessPeriod.End.exact)
                ?? .replacement(
                    Self.replacement(of: row.settled, in: transactions))
            if row.settled.isRefunded {
                let period = AccessPeriod(refunded: row.settled, kind: kind, position: position, end: end, &rules)
                if let period { refunded.append(period) }
                rules.collect(.takingBack(row.settled, row.exactEnd?.positions ?? []))
            } else {
                if row.gap == .consumed {
                    rules.collect(.withoutAccess(.consumed, row.transaction, position))
                } else if let period = AccessPeriod(
                    of: row.settled, kind: kind, position: position, end: end, &rules)
                {
                    paid.append(period)
                }
                for refund in row.oneTime?.refunds ?? [] { rules.collect(.refundingUnits(of: row.settled, refund)) }
                for refund in row.amountRefunds { rules.collect(.refundingAmount(of: row.settled, refund)) }
            }
        }
        self.transactions = transactions
        self.refunded = refunded
        paid = Self.cut(paid, byStatusIn: renewals, transactions, &rules)
        let settled = ResolvedBook(transactions: transactions, renewals: renewals, grace: resolved.grace)
        let grace = book.gracePeriods(settled, paid, &rules)
        access = (paid + grace).sorted { left, right in
            (left.start, left.end, left.transactionId) < (right.start, right.end, right.transactionId)
        }
    }

    /// The kind of a transaction's product: as signed by Apple, otherwise as configured. V1 contains none, so for a
    /// product that is not configured it is inferred: only subscriptions have order line ids, groups and renewal info;
    /// all others are one-time purchases.
    static func kind(
        of transaction: Transaction, in facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> ProductCatalog.Kind? {
        let configured = products.kind(of: transaction.productId)
        if let type = transaction.type {
            switch Transaction.ProductType(rawValue: type) {
            case .autoRenewable: return .autoRenewable
            case .consumable: return .consumable
            case .nonConsumable: return .nonConsumable
            // Transactions do not contain its duration. It ends at some time, so it must not count as owned.
            case .nonRenewing:
                if case .nonRenewing = configured { return configured }
                return nil
            // A type that this version does not know may end, too. The configuration can declare its kind.
            case nil: return configured
            }
        }
        if let configured { return configured }
        let isSubscription =
            transaction.expiresDate != nil || transaction.webOrderLineItemId != nil
            || transaction.subscriptionGroupIdentifier != nil || !facts.renewals.isEmpty
        return isSubscription ? .autoRenewable : .nonConsumable
    }

    /// True if the App Store does not renew the purchase, although its access ends.
    func isNonRenewing(_ transaction: borrowing Transaction) -> Bool {
        switch transaction.type.flatMap({ Transaction.ProductType(rawValue: $0) }) {
        case .nonRenewing: return true
        case .autoRenewable, .consumable, .nonConsumable: return false
        case nil:
            if case .nonRenewing = products.kind(of: transaction.productId) { return true }
            return false
        }
    }

    /// Like ``kind(of:in:_:)-(Transaction,_,_)``. A purchase that Google reports as consumed, of a product that nobody has
    /// declared, is one of a consumable. A product may be rented in several ways, each with a duration of its own.
    private static func kind(
        of row: ResolvedTransaction, in facts: SubscriptionFacts, _ products: ProductCatalog
    ) -> ProductCatalog.Kind? {
        guard let oneTime = row.oneTime else { return kind(of: row.transaction, in: facts, products) }
        if isConsumable(row, products) { return .consumable }
        let (productId, option) = (row.transaction.productId, oneTime.purchaseOptionId)
        if row.transaction.type == Transaction.ProductType.nonRenewing.rawValue, let productId, let option,
            case let rented? = products.kind(of: "\(productId):\(option)"), case .nonRenewing = rented
        {
            return rented
        }
        return kind(of: row.transaction, in: facts, products)
    }

    private static func isConsumable(_ row: ResolvedTransaction, _ products: ProductCatalog) -> Bool {
        if let type = row.transaction.type { return type == Transaction.ProductType.consumable.rawValue }
        return products.kind(of: row.transaction.productId).map { $0 == .consumable } ?? row.oneTime?.isConsumed
            ?? false
    }

    private static func gap(
        of row: ResolvedTransaction, _ kind: ProductCatalog.Kind?, _ products: ProductCatalog
    ) -> ConfigurationGap? {
        guard !row.settled.isRefunded, row.transaction.purchaseDate != nil, row.transaction.expiresDate == nil else {
            return nil
        }
        if kind == nil {
            return row.transaction.type == Transaction.ProductType.nonRenewing.rawValue ? .duration : .kind
        }
        let isDeclared = row.transaction.type != nil || products.kind(of: row.transaction.productId) != nil
        return kind == .consumable && !isDeclared ? .consumed : nil
    }

    /// The number of units of a consumable that were bought by the instant and not refunded; nil if the subscription
    /// has none. The app keeps its own record of the units that were used.
    package func consumables(at instant: Instant) -> Int? {
        let bought = transactions.filter { Self.isConsumable($0, products) }
        guard !bought.isEmpty else { return nil }
        return bought.filter { ($0.transaction.purchaseDate ?? .latest) <= instant }
            .reduce(0) { sum, row in
                let (more, overflow) = sum.addingReportingOverflow(row.unitsLeft(at: instant))
                return overflow ? .max : more
            }
    }

    static func resolve(
        _ facts: SubscriptionFacts, _ rules: inout some RuleCollector
    ) -> [ResolvedTransaction] {
        var resolved: [String: ResolvedTransaction] = [:]
        var statements = StatementRules()
        for (transaction, statement) in judgedTransactions(facts, &rules) {
            let id = transaction.value.transactionId
            guard let earlier = resolved[id] else {
                resolved[id] = ResolvedTransaction(
                    boxed: transaction, positions: [statement.position], isSigned: statement.isSigned)
                statements.add(transaction, statement, &rules)
                continue
            }
            let merged = Boxed(
                transaction.value.completed(by: earlier.transaction).withFreeDays(after: earlier.transaction))
            resolved[id] = ResolvedTransaction(
                boxed: merged, positions: (earlier.positions + [statement.position]).sorted(),
                isSigned: earlier.isSigned || statement.isSigned)
            statements.merge(transaction, statement, into: earlier.transaction, giving: merged.value, &rules)
        }
        for (id, row) in resolved {
            guard let seats = row.transaction.seats else { continue }
            resolved[id]?.seats = seats
            guard let price = seats.price else { continue }
            var transaction = row.transaction
            transaction.price = price
            resolved[id]?.boxed = Boxed(transaction)
        }
        return resolved.values.sorted { left, right in
            (left.transaction.purchaseDate ?? .earliest, left.transaction.transactionId)
                < (right.transaction.purchaseDate ?? .earliest, right.transaction.transactionId)
        }
    }

    /// The reports about each transaction, oldest first. One that does not take a cancellation back, although it is ordered
    /// after it, says nothing about it.
    private static func judgedTransactions(
        _ facts: SubscriptionFacts, _ rules: inout some RuleCollector
    ) -> [SubscriptionFacts.OrderedTransaction] {
        var ordered = facts.orderedTransactions
        guard StandingCancellations.areNeeded(for: facts) else { return ordered }
        for (_, places) in Dictionary(grouping: ordered.indices, by: { ordered[$0].transaction.value.transactionId }) {
            let judged = StandingCancellations(places.map { StandingCancellations.Report(ordered[$0]) })
            for place in judged.overruled.map({ places[$0] }) {
                let (transaction, statement) = ordered[place]
                if !transaction.value.isCancelled { rules.collect(.tie(transaction.value, statement)) }
                ordered[place].transaction = Boxed(transaction.value.withoutRevocation)
            }
        }
        return ordered
    }

    /// Grace starts at the expiry of the period whose renewal failed: among the periods that had begun when grace was
    /// reported and were not replaced by an upgrade, the last one to expire before the end of grace.
    ///
    /// Every end of grace that was ever reported is kept, because Apple omits it after the subscription has recovered.
    /// The search for the failed period includes refunded transactions, so that a refund also removes the grace period
    /// instead of attaching it to an older transaction.
    static func gracePeriods(
        _ transactions: [ResolvedTransaction], _ renewals: [SubscriptionFacts.RenewalStatement],
        _ paid: [AccessPeriod], _ rules: inout some RuleCollector
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
                let start = failed.transaction.expiresDate
            else { continue }
            let id = failed.transaction.transactionId
            if failed.settled.revocationDate != nil, failed.settled.revocation != .amountRefunded,
                failed.settled.cutOfGrace(from: start) == nil
            {
                rules.collect(.takingBackGrace(of: failed.settled, start..<end))
                continue
            }
            if let known = byFailedTransaction[id], known.end >= end { continue }
            byFailedTransaction[id] = AccessPeriod(
                start: start, end: end, cause: .grace, cut: nil, transactionId: id,
                productId: failed.transaction.productId, position: statement.position)
        }
        var periods: [AccessPeriod] = []
        for period in byFailedTransaction.values.sorted(by: { $0.start < $1.start }) {
            rules.collect(.giving(.graceGranted, period))
            let failed = transactions.first { $0.transaction.transactionId == period.transactionId }
            var given = period
            if let (instant, reason) = failed?.settled.cutOfGrace(from: period.start), instant < period.end {
                var cutting = AppliedRule.cutting(period, at: instant, reason, [])
                cutting.unknownValue = failed?.settled.unknownValueText
                rules.collect(cutting)
                given.end = instant
                given.cut = reason
            }
            if let other = planAfter(given, in: transactions) {
                rules.collect(.cutting(period, at: other.at, .upgraded, [other.position], by: other.transactionId))
                given.end = other.at
                given.cut = .upgraded
                if given.end <= given.start { continue }
            }
            guard let rest = cut(given, bySwitchOffIn: renewals, paid, &rules) else { continue }
            if let period = cut(rest, byStatusIn: renewals, &rules) { periods.append(period) }
        }
        return periods
    }

    /// The first purchase of another product within the grace period: it replaces the plan whose renewal failed.
    private static func planAfter(_ grace: AccessPeriod, in transactions: [ResolvedTransaction]) -> Replacement? {
        for row in transactions {
            guard let bought = row.transaction.purchaseDate, let end = row.transaction.expiresDate, bought < end,
                grace.contains(bought), row.transaction.productId != grace.productId
            else { continue }
            return Replacement(row, at: bought)
        }
        return nil
    }

    /// Switching renewal off ends grace, unless paid access lasts at least until the end of grace, as it does after a
    /// recovery.
    private static func cut(
        _ grace: AccessPeriod, bySwitchOffIn renewals: [SubscriptionFacts.RenewalStatement], _ paid: [AccessPeriod],
        _ rules: inout some RuleCollector
    ) -> AccessPeriod? {
        let switchedOff = renewals.lazy.filter { $0.renewal.autoRenewStatus == false }
            .map { (at: $0.renewal.autoRenewStatusChangeDate ?? $0.statedAt, position: $0.position) }
            .filter { grace.contains($0.at) && (paid.unbroken(at: $0.at).last?.end ?? $0.at) < grace.end }
            .min { ($0.at, $0.position) < ($1.at, $1.position) }
        guard let switchedOff else { return grace }
        rules.collect(.cutting(grace, at: switchedOff.at, .switchedOff, [switchedOff.position]))
        guard switchedOff.at > grace.start else { return nil }
        var shortened = grace
        shortened.end = switchedOff.at
        shortened.cut = .switchedOff
        return shortened
    }
}
