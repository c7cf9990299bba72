import Encoding

// MARK: - Purchases

extension PlayLife {
    /// How a purchase is made.
    package struct Details: Sendable {
        package var offer: PlayOffer?
        /// The app user; nil for the customer's.
        package var account: PlayAccount?
        /// A purchase with a promotion code has no order.
        package var isPromotion = false
        /// A resubscription in Google Play's subscription centre, after the expiry of another subscription.
        package var isOutsideApp = false
        /// The token that expired, where the store says it.
        package var expiredToken: String?
        package var expiredAccount = PlayAccount.none
        package var isPending = false

        package init() {}
    }

    /// Buys the plans with a new token. The items of one token have periods of one length.
    ///
    /// A pending purchase gives no access, and nothing is sent until it is paid or cancelled.
    package mutating func buy(_ plans: [PlayPlan], at instant: Instant, _ details: Details = Details()) {
        precondition(purchases.isEmpty, "the subscription already exists")
        open(plans, at: instant, details, linkedToken: nil)
        if !details.isPending { grant(at: instant) }
    }

    package mutating func buy(_ plan: PlayPlan, at instant: Instant, _ details: Details = Details()) {
        buy([plan], at: instant, details)
    }

    /// Adds a pending purchase to the books.
    mutating func open(_ plans: [PlayPlan], at instant: Instant, _ details: Details, linkedToken: String?) {
        let items = plans.map { plan in
            var item = PlayItem(
                plan: plan, isAutoRenewing: plan.isRenewing, price: customer.storefront.price(plan.product))
            item.offer = details.offer
            item.phase = details.offer?.phase ?? .basePrice
            if case .installments(let count) = plan.kind {
                item.installments = .init(committed: count, remaining: count)
            }
            return item
        }
        var book = PlayBook(state: .pending, items: items, account: details.account ?? customer.account)
        book.linkedToken = linkedToken
        book.isPromotion = details.isPromotion
        if details.isOutsideApp {
            book.outOfApp = .init(expiredToken: details.expiredToken, expiredAccount: details.expiredAccount)
        }
        let token = identifiers.token()
        purchases.append(
            PlayPurchaseToken(token: token, orderId: identifiers.order, history: [.init(at: instant, book: book)]))
        graceEnd = nil
        if linkedToken == nil, details.isPending { key.set(.pending, at: instant, shownBefore: .never) }
    }

    /// Pays the newest token, which gives access from then on.
    ///
    /// - Parameter end: The end of the first period; nil for a whole one.
    mutating func grant(at instant: Instant, until end: Instant? = nil) {
        let token = current.token
        let isPromotion = book.isPromotion
        // Periods are counted from a moment before the start that is shown.
        let counted = instant.advanced(byMilliseconds: -lag(400...700))
        let end = end ?? terms.end(plan, from: counted, book.items[0].offer)
        let orderId = isPromotion ? nil : current.orderId
        update(at: instant) {
            $0.state = .active
            $0.startTime = instant
            $0.latestOrderId = orderId
            for index in $0.items.indices {
                $0.items[index].expiryTime = end
                $0.items[index].successfulOrderId = orderId
                $0.items[index].installments?.remaining -= 1
            }
        }
        if let orderId {
            addOrder(orderId, at: instant, period: instant..<end)
            purchases[purchases.count - 1].payments = 1
        }
        charge(.purchase, from: instant, to: end)
        for item in book.items {
            key.access.pay(
                Self.period(orderId ?? token, item.plan.productId), for: item.plan.product, from: instant, to: end)
        }
        paidEnd = end
        key.set(plan.isRenewing ? .active : .activeWillEnd, at: instant)
        let account = book.account.obfuscatedAccountId ?? book.outOfApp?.expiredAccount.obfuscatedAccountId
        key.buy(customer.owner(account), at: instant)
        if !plan.isRenewing { key.set(.expired, at: end) }
        expectAcknowledgement(from: instant, end: end)
        send(.purchased, at: later(200...2000, than: instant))
    }

    /// Adds the order of a payment for all items of the newest token.
    mutating func addOrder(
        _ orderId: String, at instant: Instant, period: Range<Instant>?, state: PlayOrder.State = .processed
    ) {
        let items = book.items.filter { !$0.isDeferred && !$0.isRemovalDeferred }.map { item in
            PlayOrder.Item(
                productId: item.plan.productId, basePlanId: item.plan.basePlanId, offerId: item.offer?.offerId,
                phase: item.phase, price: item.paidPrice)
        }
        orders.append(
            PlayOrder(
                orderId: orderId, purchaseToken: current.token, createTime: instant,
                currency: customer.storefront.currency, items: items, servicePeriod: period,
                changes: [.init(at: instant, state: state)]))
    }
}

extension PlayItem {
    /// The price of the current phase.
    fileprivate var paidPrice: Int64 {
        switch phase {
        case .basePrice: price
        case .freeTrial: 0
        case .introductoryPrice, .prorationPeriod: price / 2
        }
    }
}

// MARK: - Pending purchases

extension PlayLife {
    /// Pays the pending purchase of the newest token. One that changes the plan then replaces the token before it.
    package mutating func payPending(at instant: Instant) {
        precondition(book.state == .pending, "the purchase is not pending")
        if book.linkedToken != nil {
            retire(purchases.count - 2, at: instant)
            grant(at: instant, until: max(paidEnd, instant.advanced(byMilliseconds: 1)).advanced(byMilliseconds: 3000))
            sendRetired(purchases.count - 2)
        } else {
            grant(at: instant)
        }
    }

    /// Cancels the pending purchase of the newest token. A subscription that it would have changed goes on.
    package mutating func cancelPending(at instant: Instant) {
        precondition(book.state == .pending, "the purchase is not pending")
        update(at: instant) { $0.state = .pendingPurchaseCanceled }
        send(.pendingPurchaseCanceled, at: later(200...2000, than: instant))
        guard book.linkedToken != nil else { return key.set(.never, at: instant, shownBefore: .pending) }
        // The token before it is the newest one that counts.
        withdrawn.append(purchases.removeLast())
    }
}
