import Encoding

/// What all facts about one purchase say: its periods, and when its access was suspended.
struct PurchaseHistory {
    /// A time without access that may end without a new purchase.
    struct Suspension: Hashable {
        let kind: Kind
        var start: Instant
        /// ``Instant/latest`` until it is known.
        var end: Instant

        enum Kind: Hashable {
            case pending, hold, paused
            /// The renewal is late, or the answer is.
            case retry
        }
    }

    struct Answer {
        let snapshot: PurchaseSnapshot
        let statedAt: Instant
        let receivedAt: Instant
        let position: Int64
    }

    /// A purchase that continues the subscription.
    struct Replacement: Hashable {
        let purchaseToken: String
        let at: Instant
        /// The position of the event that says when it began.
        let position: Int64
    }

    let purchaseToken: String
    /// Oldest first.
    private(set) var answers: [Answer] = []
    private(set) var voids: [(void: PurchaseVoid, position: Int64)] = []
    private(set) var tracks: [PurchaseTrack] = []
    private(set) var suspensions: [Suspension] = []
    private(set) var orders: [String: PurchaseOrder] = [:]
    /// The purchase that replaced this one; nil if none did.
    private(set) var replacement: Replacement?
    /// The app user that an earlier purchase of the subscription states.
    var inherited: String?

    /// When the latest answer about each order was given.
    private var ordersStatedAt: [String: Instant] = [:]
    private var orderPositions: [String: Int64] = [:]
    /// By order: the first event that stated each of its refunds.
    private var refundPositions: [String: [PurchaseOrder.Refund: Int64]] = [:]
    private var notices: [(notice: PurchaseNotice, position: Int64)] = []

    init(purchaseToken: String) {
        self.purchaseToken = purchaseToken
    }

    /// Adds the next fact. Call ``finish(replacedBy:)`` after the last one.
    mutating func add(_ stated: SubscriptionFacts.StatedPurchase, _ evidence: SubscriptionFacts.Provenance) {
        switch stated.purchase.fact {
        case .snapshot(let snapshot):
            answers.append(
                Answer(
                    snapshot: snapshot, statedAt: stated.statedAt, receivedAt: evidence.receivedAt,
                    position: evidence.position))
        case .order(let order):
            // The latest answer counts.
            orders[order.orderId] = order
            ordersStatedAt[order.orderId] = stated.statedAt
            orderPositions[order.orderId] = min(orderPositions[order.orderId] ?? .max, evidence.position)
            for refund in order.refunds {
                let known = refundPositions[order.orderId]?[refund] ?? .max
                refundPositions[order.orderId, default: [:]][refund] = min(known, evidence.position)
            }
        case .void(let void): voids.append((void, evidence.position))
        case .notice(let notice): notices.append((notice, evidence.position))
        }
    }

    /// When the purchase began; nil while it is pending, or if only its token is known.
    var startTime: Instant? { start?.at }

    /// ``startTime``, and the position of the event that says it.
    private var start: (at: Instant, position: Int64)? {
        let paid = answers.lazy.filter { !$0.snapshot.isPending }
        let stated = paid.compactMap { answer in answer.snapshot.startTime.map { (at: $0, position: answer.position) } }
        return stated.first ?? paid.first.map { ($0.statedAt, $0.position) }
    }

    /// The purchase as what replaces the one that it continues; nil if it has not begun.
    var asReplacement: Replacement? {
        start.map { Replacement(purchaseToken: purchaseToken, at: $0.at, position: $0.position) }
    }

    /// When another purchase replaced this one; nil if none did.
    var replacedAt: Instant? { replacement?.at }

    /// The app user as stated at the purchase.
    var accountId: String? { answers.last { $0.snapshot.accountId != nil }?.snapshot.accountId }

    /// The app user of the expired purchase that this one continues, as stated at the purchase.
    var expiredAccountId: String? { answers.last { $0.snapshot.expiredAccountId != nil }?.snapshot.expiredAccountId }

    /// Whether Google said, after its last answer, that it answers no more.
    var isGone: Bool {
        guard let last = answers.last else { return false }
        return notices.contains { $0.notice.kind == .gone && $0.notice.at >= last.statedAt }
    }

    var isProduct: Bool { answers.last?.snapshot.kind == .product }

    /// Whether an answer about an order, later than an instant, says that a part of it was paid back.
    func isRefundedInPart(_ order: PurchaseOrder, statedAfter instant: Instant?) -> Bool {
        guard order.stateName == PurchaseOrder.partiallyRefunded, let instant else { return false }
        return ordersStatedAt[order.orderId].map { instant <= $0 } ?? false
    }

    func position(of refund: PurchaseOrder.Refund, of orderId: String) -> Int64? { refundPositions[orderId]?[refund] }

    // MARK: Folding

    /// Computes the periods from all facts.
    ///
    /// - Parameter replacement: The purchase that continued the subscription; nil if none did.
    mutating func finish(replacedBy replacement: Replacement?) {
        let recoveries = notices.map(\.notice).filter { $0.kind == .recovered }.map(\.at).sorted()
        for answer in answers {
            for item in answer.snapshot.items where !isDeferred(item, in: answer.snapshot) {
                let index = trackIndex(of: item.productId)
                tracks[index].add(
                    PurchaseTrack.Report(
                        snapshot: answer.snapshot, item: item, statedAt: answer.statedAt, position: answer.position,
                        orders: orders, recoveries: recoveries, firstStart: firstStart(of: item, answer)))
            }
            if answer.snapshot.state == .expired { closeOthers(answer) }
            addSuspension(answer)
        }
        addMissingOrders()
        endRevoked()
        self.replacement = replacement
        guard let replacement else { return }
        for index in tracks.indices {
            tracks[index].end(at: replacement.at, isReplacement: true, position: replacement.position)
        }
        suspensions = suspensions.compactMap { suspension in
            var cut = suspension
            cut.end = min(cut.end, replacement.at)
            return cut.start < cut.end ? cut : nil
        }
    }

    /// Ends the products of a purchase that has ended which the answer does not list.
    private mutating func closeOthers(_ answer: Answer) {
        let listed = Set(answer.snapshot.items.map(\.productId))
        for index in tracks.indices where !listed.contains(tracks[index].productId) {
            tracks[index].close(at: answer.statedAt, answer.position)
        }
    }

    private mutating func trackIndex(of productId: String) -> Int {
        if let index = tracks.firstIndex(where: { $0.productId == productId }) { return index }
        tracks.append(PurchaseTrack(productId: productId))
        return tracks.count - 1
    }

    /// True for an item that replaces another one at the next renewal: it is not paid for yet.
    private func isDeferred(_ item: PurchaseSnapshot.Item, in snapshot: PurchaseSnapshot) -> Bool {
        guard snapshot.items.count > 1 else { return false }
        if let orderId = item.orderId {
            // It may name the order of the one that it will replace.
            return snapshot.items.contains { $0.nextProductId == item.productId && $0.orderId == orderId && $0 != item }
        }
        return item.basePlanId == nil || snapshot.items.contains { $0.nextProductId == item.productId }
    }

    /// Where the first period of a product starts: with the purchase, or where the product ended that it replaces.
    private func firstStart(of item: PurchaseSnapshot.Item, _ answer: Answer) -> Instant {
        let start = answer.snapshot.startTime ?? startTime ?? answer.statedAt
        let announcing = answers.last { earlier in
            earlier.statedAt < answer.statedAt
                && earlier.snapshot.items.contains { $0.nextProductId == item.productId }
        }
        guard let announcing,
            let previous = announcing.snapshot.items.first(where: { $0.nextProductId == item.productId }),
            let end = tracks.first(where: { $0.productId == previous.productId })?.paidEnd
        else { return start }
        return max(start, end)
    }

    private mutating func addMissingOrders() {
        let sorted = orders.values.sorted {
            ($0.createTime ?? .earliest, PurchaseOrder.number(of: $0.orderId), $0.orderId)
                < ($1.createTime ?? .earliest, PurchaseOrder.number(of: $1.orderId), $1.orderId)
        }
        guard !sorted.isEmpty else { return }
        for index in tracks.indices {
            let productId = tracks[index].productId
            tracks[index].addMissing(
                sorted.compactMap { order in
                    order.items.first { $0.productId == productId }
                        .map { (order, $0, orderPositions[order.orderId] ?? 0) }
                })
        }
    }

    /// Ends the purchase when a notification said that it was revoked, if Google does not answer any more and no answer
    /// is later than that.
    private mutating func endRevoked() {
        guard let gone = notices.filter({ $0.notice.kind == .gone }).map(\.position).min(),
            let revoked = notices.map(\.notice).filter({ $0.kind == .revoked }).map(\.at).max(),
            !answers.contains(where: { $0.statedAt >= revoked })
        else { return }
        for index in tracks.indices { tracks[index].end(at: revoked, isReplacement: false, position: gone) }
    }

    // MARK: Suspensions

    /// Access, where there is some, takes precedence over these, so they end with the first answer that has another state.
    private mutating func addSuspension(_ answer: Answer) {
        let kind = suspensionKind(answer)
        if let last = suspensions.indices.last, suspensions[last].end == .latest {
            if suspensions[last].kind == kind { return }
            var end = answer.statedAt
            if answer.snapshot.state == .expired || (suspensions[last].kind == .paused && kind == .hold) {
                // The answers move the expiry to the end of account hold, and to that of a pause without payment.
                let ends = answer.snapshot.items.compactMap(\.expiryTime).filter { $0 > suspensions[last].start }
                end = min(ends.max() ?? end, end)
            }
            suspensions[last].end = max(end, suspensions[last].start)
        }
        guard let kind else { return }
        let start: Instant =
            switch kind {
            case .pending: answer.statedAt
            case .hold, .paused: tracks.compactMap(\.interruptedSince).max() ?? answer.statedAt
            case .retry: answer.snapshot.items.compactMap(\.expiryTime).max() ?? answer.statedAt
            }
        suspensions.append(Suspension(kind: kind, start: max(start, suspensions.last?.end ?? start), end: .latest))
    }

    private func suspensionKind(_ answer: Answer) -> Suspension.Kind? {
        switch answer.snapshot.state {
        case .pending: return .pending
        case .onHold: return .hold
        case .paused: return .paused
        case .active:
            guard answer.snapshot.kind == .subscription else { return nil }
            let renewing = answer.snapshot.items.filter { $0.isAutoRenewing == true }.compactMap(\.expiryTime)
            return renewing.max().map { $0 <= answer.statedAt } == true ? .retry : nil
        case .inGracePeriod, .canceled, .expired, .pendingPurchaseCanceled, .purchased, .cancelled, nil: return nil
        }
    }
}
