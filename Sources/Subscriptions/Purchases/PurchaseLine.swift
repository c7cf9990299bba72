import Encoding

/// A subscription of Google: its purchases in order, each of which continues the one before, and what follows from their
/// facts in the terms of Apple's.
struct PurchaseLine {
    /// In order of their start. Only those about which something is known.
    let histories: [PurchaseHistory]
    let originalTransactionId: String

    init(_ facts: SubscriptionFacts) {
        originalTransactionId = facts.originalTransactionId
        var byToken: [String: PurchaseHistory] = [:]
        for (stated, evidence) in facts.purchasesInOrder {
            let token = stated.purchase.fact.purchaseToken
            byToken[token, default: PurchaseHistory(purchaseToken: token)].add(stated, evidence)
        }
        let links = facts.succession
        var successors: [String: [String]] = [:]
        for (token, continued) in links.links {
            for previous in continued {
                // Of a loop, the links back in time do not count.
                if links.isLoop, byToken[token]?.startTime ?? .latest <= byToken[previous]?.startTime ?? .earliest {
                    continue
                }
                successors[previous, default: []].append(token)
            }
        }
        var histories: [PurchaseHistory] = []
        for (token, history) in byToken {
            var finished = history
            finished.finish(
                replacedBy: (successors[token] ?? []).compactMap { byToken[$0]?.asReplacement }.min {
                    ($0.at, $0.position) < ($1.at, $1.position)
                })
            finished.inherited = Self.inheritedAccount(of: token, links, byToken)
            histories.append(finished)
        }
        self.histories = histories.sorted { left, right in
            let (first, second) = (left.startTime ?? .latest, right.startTime ?? .latest)
            return first == second
                ? ByteString(left.purchaseToken) < ByteString(right.purchaseToken) : first < second
        }
    }

    /// The app user of the nearest purchase that this one continues: a plan change does not repeat it.
    private static func inheritedAccount(
        of token: String, _ links: PurchaseSuccession, _ histories: [String: PurchaseHistory]
    ) -> String? {
        var (seen, next): (Set<String>, String?) = ([], token)
        while let current = next, seen.insert(current).inserted {
            if let account = histories[current]?.accountId { return account }
            next = current == links.first ? nil : links.links[current]?.min { ByteString($0) < ByteString($1) }
        }
        return nil
    }
}

// MARK: - Transactions and periods

extension PurchaseLine {
    /// The purchases in Apple's terms: a transaction for each period.
    struct Resolved {
        var transactions: [Subscription.ResolvedTransaction] = []
        var grace: [AccessPeriod] = []
        var renewals: [SubscriptionFacts.RenewalStatement] = []

        /// The transaction whose period goes on in another purchase that names no order: one that a change of plan at the
        /// next renewal began.
        func paymentBefore(_ period: PurchaseTrack.Period, of history: PurchaseHistory) -> Int? {
            guard period.orderId == nil, period.item.nextProductId != nil else { return nil }
            return transactions.lastIndex { row in
                row.exactEnd?.replacement == history.purchaseToken
                    && row.transaction.productId == period.item.productKey
            }
        }

        /// Whether a period of another purchase goes on where that of a transaction was cut, with the same product.
        func isContinued(_ index: Int, by period: PurchaseTrack.Period) -> Bool {
            let known = transactions[index].transaction
            guard known.productId == period.item.productKey, let start = known.purchaseDate,
                let end = known.revocationDate ?? known.expiresDate
            else { return false }
            return start <= period.start && (known.isRefunded || period.start <= end)
        }
    }

    /// A product that an order paid for.
    fileprivate struct PaidItem: Hashable {
        let orderId: String
        let productId: String
    }

    func resolve(_ rules: inout some RuleCollector) -> Resolved {
        var resolved = Resolved()
        var used: Set<String> = []
        // The transaction of each item of an order.
        var paid: [PaidItem: Int] = [:]
        // The first transaction of each purchase, by its token.
        var first: [String: String] = [:]
        var plan: String?
        for history in histories {
            let shared = history.sharedOrders
            plan = history.plan(after: plan)
            for track in history.tracks {
                for (index, period) in track.periods.enumerated() {
                    var id = period.orderId ?? history.purchaseToken
                    if shared.contains(id) { id += ":\(track.productId)" }
                    let isLast = index == track.periods.count - 1 || period.isCutWith(track.periods.last)
                    // An order that is shown by two purchases is one payment. The later purchase goes on with its period.
                    let item = period.orderId.map { PaidItem(orderId: $0, productId: track.productId) }
                    let payment =
                        item.flatMap { paid[$0] } ?? (index == 0 ? resolved.paymentBefore(period, of: history) : nil)
                    let continued = payment.flatMap { resolved.isContinued($0, by: period) ? $0 : nil }
                    let isPaidBefore = continued == nil && !used.insert(id).inserted
                    if let continued {
                        id = resolved.transactions[continued].transaction.transactionId
                    } else if isPaidBefore {
                        id = history.purchaseToken
                        while !used.insert(id).inserted { id += ":\(track.productId)" }
                    }
                    if first[history.purchaseToken] == nil { first[history.purchaseToken] = id }
                    var transaction = transaction(id, period, history, isFirst: index == 0, isLast: isLast)
                    let isProrated = history.phase(of: period) == "PRORATION_PERIOD"
                    // A change of plan within a free trial costs nothing either, and the trial goes on.
                    let before = index == 0 ? resolved.transactions.last?.transaction : nil
                    if isProrated, transaction.price == 0, before?.isFreeTrial == true {
                        transaction.offerType = before?.offerType
                        transaction.offerDiscountType = before?.offerDiscountType
                    }
                    // What an order paid for counts once, unless it has an item for this product as well.
                    if isPaidBefore, item.flatMap({ paid[$0] }) != nil || !history.hasItem(of: item) {
                        (transaction.price, transaction.currency) = (nil, nil)
                    }
                    if let continued {
                        transaction.continuePeriod(of: resolved.transactions[continued].transaction)
                    }
                    resolved.grace += grace(of: id, transaction, period, track, history, &rules)
                    for move in period.moves { rules.collect(.moving(transaction, move)) }
                    let row = Subscription.ResolvedTransaction(
                        boxed: Boxed(transaction), settledByCopy: nil, positions: positions(of: period, history),
                        isSigned: false, exactEnd: exactEnd(of: transaction, period, history),
                        isAddOn: track.productId != plan && history.isBesideOthers(period, of: track),
                        isProrated: isProrated)
                    if let continued {
                        resolved.transactions[continued].goOn(as: row)
                    } else {
                        if let item, paid[item] == nil { paid[item] = resolved.transactions.count }
                        resolved.transactions.append(row)
                    }
                }
                for empty in track.periods.isEmpty ? track.withoutDuration : [] {
                    rules.collect(
                        AppliedRule(
                            .noDuration, transactionId: empty.orderId ?? history.purchaseToken,
                            productId: empty.productKey, at: empty.start, positions: [empty.position]))
                }
            }
            resolved.transactions += products(of: history, &used)
        }
        for (item, index) in paid { state(item.orderId, item.productId, in: &resolved.transactions[index]) }
        for index in resolved.transactions.indices {
            guard let token = resolved.transactions[index].exactEnd?.replacement else { continue }
            resolved.transactions[index].exactEnd?.replacement = first[token]
        }
        resolved.transactions.sort { left, right in
            (left.transaction.purchaseDate ?? .earliest, left.transaction.transactionId)
                < (right.transaction.purchaseDate ?? .earliest, right.transaction.transactionId)
        }
        resolved.renewals = renewals
        return resolved
    }

    private func positions(of period: PurchaseTrack.Period, _ history: PurchaseHistory) -> [Int64] {
        Set([period.position] + voidPositions(of: period, history)).sorted()
    }

    private func voidPositions(of period: PurchaseTrack.Period, _ history: PurchaseHistory) -> [Int64] {
        voids(of: period, history).map(\.position)
    }

    /// The voids of what paid for a period, also of other purchases that show the order.
    private func voids(
        of period: PurchaseTrack.Period, _ history: PurchaseHistory
    ) -> [(void: PurchaseVoid, position: Int64)] {
        var found = history.voids(of: period.orderId, isNewest: history.newestOrder == period.orderId)
        guard let orderId = period.orderId else { return found }
        for other in histories where other.purchaseToken != history.purchaseToken {
            found += other.voids(of: orderId, isNewest: false)
        }
        return found
    }

    /// The event of the void whose time and reason count.
    private func decisiveVoidPositions(of period: PurchaseTrack.Period, _ history: PurchaseHistory) -> [Int64] {
        let voids = history.voids(of: period.orderId, isNewest: history.newestOrder == period.orderId)
        let decisive = voids.map(\.void).decisive
        return voids.first { $0.void == decisive }.map { [$0.position] } ?? []
    }

    /// The events that ended the period early. The replacement is the token of the purchase.
    private func exactEnd(
        of transaction: Transaction, _ period: PurchaseTrack.Period, _ history: PurchaseHistory
    ) -> Subscription.ResolvedTransaction.ExactEnd {
        if transaction.isRefunded {
            return .init(positions: decisiveVoidPositions(of: period, history))
        }
        return .init(
            positions: period.cutPosition.map { [$0] } ?? [],
            replacement: transaction.isUpgraded ? history.replacement?.purchaseToken : nil)
    }

    private func transaction(
        _ id: String, _ period: PurchaseTrack.Period, _ history: PurchaseHistory, isFirst: Bool, isLast: Bool
    ) -> Transaction {
        var transaction = Transaction(transactionId: id, originalTransactionId: originalTransactionId)
        transaction.productId = period.item.productKey
        transaction.quantity = 1
        transaction.purchaseDate = period.start
        transaction.originalPurchaseDate = histories.first?.startTime ?? period.start
        transaction.expiresDate = period.endBeforeCut ?? period.end
        transaction.type =
            (period.item.isPrepaid ? Transaction.ProductType.nonRenewing : .autoRenewable).rawValue
        transaction.appAccountToken = history.accountId ?? history.inherited
        transaction.storefront = period.region
        transaction.transactionReason =
            isFirst && PurchaseOrder.number(of: period.orderId) == 0 ? "PURCHASE" : "RENEWAL"
        history.setPrice(of: &transaction, period)
        if period.endBeforeCut != nil { transaction.revocationDate = period.end }
        if let replacedAt = history.replacedAt, period.end >= replacedAt, period.endBeforeCut != nil {
            transaction.isUpgraded = true
        } else if period.endBeforeCut != nil {
            if isLast, history.isReplaced {
                transaction.isUpgraded = true
            } else {
                transaction.revocationType = Transaction.earlyEnd
            }
        }
        if let void = voids(of: period, history).map(\.void).decisive {
            transaction.revocationDate = void.voidedAt
            transaction.revocationType = Transaction.fullRefund
            transaction.revocationReason = void.reason
        }
        return transaction
    }

    private func grace(
        of id: String, _ transaction: Transaction, _ period: PurchaseTrack.Period, _ track: PurchaseTrack,
        _ history: PurchaseHistory, _ rules: inout some RuleCollector
    ) -> [AccessPeriod] {
        var periods: [AccessPeriod] = []
        for grace in track.graces where grace.start == period.end {
            guard !transaction.isRefunded else {
                rules.collect(
                    .takingBackGrace(
                        of: transaction, grace.start..<grace.end, decisiveVoidPositions(of: period, history)))
                continue
            }
            let isReplaced = history.replacedAt.map { grace.end >= $0 } ?? false
            let given = AccessPeriod(
                start: grace.start, end: grace.end, cause: .grace,
                cut: isReplaced ? .upgraded : grace.isCut ? .switchedOff : nil, transactionId: id,
                productId: period.item.productKey, position: grace.position)
            var whole = given
            whole.end = grace.endBeforeCut ?? grace.end
            rules.collect(.giving(.graceGranted, whole))
            if let cut = given.cut {
                rules.collect(.cutting(whole, at: given.end, cut, grace.cutPosition.map { [$0] } ?? []))
            }
            periods.append(given)
        }
        return periods
    }
}

extension [PurchaseVoid] {
    /// The one that takes back the whole order, with the exact time if one is known.
    var decisive: PurchaseVoid? {
        let whole = filter { !$0.isPartial && $0.quantity == nil }
        return whole.min { left, right in
            if left.isExactTime != right.isExactTime { return left.isExactTime }
            return (left.voidedAt, left.reason ?? -1) < (right.voidedAt, right.reason ?? -1)
        }
    }
}

extension Transaction {
    /// Begins where the period of another purchase began that the same order paid for.
    fileprivate mutating func continuePeriod(of earlier: Transaction) {
        purchaseDate = earlier.purchaseDate
        transactionReason = earlier.transactionReason
        (price, currency) = (earlier.price ?? price, earlier.currency ?? currency)
        (offerType, offerIdentifier) = (earlier.offerType, earlier.offerIdentifier)
        (offerDiscountType, offerPeriod) = (earlier.offerDiscountType, earlier.offerPeriod)
        appAccountToken = appAccountToken ?? earlier.appAccountToken
        guard earlier.isRefunded, !isRefunded else { return }
        revocationDate = earlier.revocationDate
        revocationType = earlier.revocationType
        revocationReason = earlier.revocationReason
        isUpgraded = false
    }
}

extension Subscription.ResolvedTransaction {
    /// Ends as another purchase says that the same order paid for.
    fileprivate mutating func goOn(as row: Subscription.ResolvedTransaction) {
        let known = positions
        let voids = exactEnd?.positions ?? []
        let wasRefunded = transaction.isRefunded
        self = row
        positions = Set(known + row.positions).sorted()
        if wasRefunded, exactEnd?.positions.isEmpty ?? true { exactEnd?.positions = voids }
    }
}

extension PurchaseTrack.Period {
    /// Whether the same answer cut this period and the last one of its product.
    fileprivate func isCutWith(_ last: PurchaseTrack.Period?) -> Bool {
        cutPosition != nil && cutPosition == last?.cutPosition
    }
}

extension PurchaseHistory {
    /// The orders that paid for several products.
    fileprivate var sharedOrders: Set<String> {
        var (once, twice): (Set<String>, Set<String>) = ([], [])
        for track in tracks {
            for order in Set(track.periods.map { $0.orderId ?? purchaseToken }) where !once.insert(order).inserted {
                twice.insert(order)
            }
        }
        return twice
    }

    /// The product of the plan, to which other items of the purchase are add-ons: the one that the purchase before had, if
    /// this one has it too, otherwise the one that began first, of several the first in the answer.
    func plan(after earlier: String?) -> String? {
        let held = tracks.filter { !$0.periods.isEmpty }
        if let earlier, held.contains(where: { $0.productId == earlier }) { return earlier }
        let named = answers.first?.snapshot.items.map(\.productId) ?? []
        func place(_ track: PurchaseTrack) -> (Instant, Int, String) {
            (track.periods[0].start, named.firstIndex(of: track.productId) ?? named.endIndex, track.productId)
        }
        return held.min { place($0) < place($1) }?.productId ?? earlier
    }

    /// Whether the customer held another product of the purchase as the period began.
    fileprivate func isBesideOthers(_ period: PurchaseTrack.Period, of track: PurchaseTrack) -> Bool {
        tracks.contains { other in
            other.productId != track.productId
                && other.periods.contains { $0.start <= period.start && period.start < $0.end }
        }
    }

    /// The order of the period that started last.
    var newestOrder: String? {
        tracks.compactMap(\.periods.last).max { ($0.start, $0.orderId ?? "") < ($1.start, $1.orderId ?? "") }?.orderId
    }

    /// True if an answer says that another purchase replaced this one.
    fileprivate var isReplaced: Bool { answers.contains { $0.snapshot.cancelReason == .replaced } }

    /// Whether an order is known to have an item for the product.
    fileprivate func hasItem(of item: PurchaseLine.PaidItem?) -> Bool {
        guard let item, let order = orders[item.orderId] else { return false }
        return order.items.contains { $0.productId == item.productId }
    }

    /// The voids of an order. One that names no order is of the newest.
    func voids(of orderId: String?, isNewest: Bool) -> [(void: PurchaseVoid, position: Int64)] {
        voids.filter { entry in entry.void.orderId.map { $0 == orderId } ?? isNewest }
    }

    /// Google's name of the phase of a period, by the answer or by the order; nil if neither names one.
    fileprivate func phase(of period: PurchaseTrack.Period) -> String? {
        let item = period.item
        return item.phase
            ?? period.orderId.flatMap { orders[$0] }?.items.first { $0.productId == item.productId }?.phase
    }

    /// Sets what was paid as far as it is known: by the order, or the list price if no offer can have lowered it.
    fileprivate func setPrice(of transaction: inout Transaction, _ period: PurchaseTrack.Period) {
        let item = period.item
        transaction.planPrice = item.price
        let phase = phase(of: period)
        // Answers name the offer for years after its phases.
        if phase != "BASE_PRICE" { transaction.offerIdentifier = item.offerId }
        switch phase {
        case "FREE_TRIAL":
            transaction.offerType = 1
            transaction.offerDiscountType = "FREE_TRIAL"
        case "INTRODUCTORY_PRICE":
            transaction.offerType = 1
            transaction.offerPeriod = length(of: period)
        default: break
        }
        setPrice(of: &transaction, orderId: period.orderId, productId: item.productId)
        guard transaction.price == nil else { return }
        // Without an order, such as by a promotion code, nothing was paid, whatever the list price is.
        if phase == "FREE_TRIAL" || (period.orderId == nil && !item.isOrderUnknown) {
            transaction.price = 0
            transaction.currency = item.currency
        } else if phase == "BASE_PRICE" || (phase == nil && item.offerId == nil) {
            transaction.price = item.price
            transaction.currency = item.currency
        }
    }

    /// What the price of a period paid for. Later answers move its end, which changes no order.
    private func length(of period: PurchaseTrack.Period) -> String? {
        let paid = period.orderId.flatMap { orders[$0] }?.items.first { $0.productId == period.item.productId }
        let end = paid?.periodEnd ?? period.moves.first?.from ?? period.endBeforeCut ?? period.end
        return (paid?.periodStart ?? period.start).isoDuration(until: end)
    }

    func setPrice(of transaction: inout Transaction, orderId: String?, productId: String) {
        guard let order = orderId.flatMap({ orders[$0] }) else { return }
        // An order with one item paid for that product only, whatever else shows the order.
        let item = order.items.first { $0.productId == productId }
        transaction.price =
            item?.total ?? (order.items.isEmpty || order.items.count == 1 && item != nil ? order.total : nil)
        transaction.currency = transaction.price == nil ? nil : order.currency
    }
}
