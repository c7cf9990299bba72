import Encoding

// MARK: - Plan changes

extension PlayLife {
    /// When the newest purchase takes effect for what is paid.
    package enum Replacement: Sendable, Hashable {
        /// The first period ends near the old billing date.
        case prorated
        /// A whole period is paid at once, as for a top-up.
        case fullPeriod
    }

    /// Buys another plan with a new token that is linked to the newest one, which ends at once.
    package mutating func replace(
        with plans: [PlayPlan], _ replacement: Replacement = .prorated, at instant: Instant,
        _ details: Details = Details()
    ) {
        guard proceed(to: instant) else { return }
        precondition([.active, .canceled, .inGracePeriod].contains(book.state), "the subscription has ended")
        let old = purchases.count - 1
        let billingDate = max(paidEnd, instant)
        if !details.isPending { retire(old, at: instant) }
        open(plans, at: instant, details, linkedToken: purchases[old].token)
        guard !details.isPending else { return }
        grant(at: instant, until: replacement == .prorated ? billingDate.advanced(byMilliseconds: 3000) : nil)
        sendRetired(old)
    }

    package mutating func replace(
        with plan: PlayPlan, _ replacement: Replacement = .prorated, at instant: Instant, _ details: Details = Details()
    ) {
        replace(with: [plan], replacement, at: instant, details)
    }

    /// Tops up a prepaid plan: the new token's period is added to what is left.
    package mutating func topUp(at instant: Instant) {
        guard proceed(to: instant) else { return }
        let plan = plan
        precondition(plan.kind == .prepaid && instant < paidEnd, "the plan cannot be topped up")
        let old = purchases.count - 1
        let end = self.terms.end(plan, from: paidEnd)
        retire(old, at: instant)
        open([plan], at: instant, Details(), linkedToken: purchases[old].token)
        grant(at: instant, until: end)
        sendRetired(old)
    }

    /// Chooses another plan for the next period. The new token has both items from now on, and nothing is sent until the
    /// new one is paid.
    ///
    /// - Parameter showsExpiry: Whether the item of the new plan has an expiry.
    package mutating func replaceLater(with plan: PlayPlan, showsExpiry: Bool, at instant: Instant) {
        guard proceed(to: instant) else { return }
        precondition(book.state == .active, "the subscription does not renew")
        let old = purchases.count - 1
        guard var item = book.items.first else { return }
        let orderId = item.successfulOrderId
        retire(old, at: instant, keepsPayment: true)
        open([plan], at: instant, Details(), linkedToken: purchases[old].token)
        item.deferredReplacement = plan.productId
        item.isAutoRenewing = false
        item.expiryTime = paidEnd
        let end = paidEnd
        update(at: instant) {
            $0.state = .active
            $0.startTime = instant
            $0.latestOrderId = orderId
            $0.items[0].isDeferred = true
            $0.items[0].expiryTime = showsExpiry ? end : nil
            $0.items.insert(item, at: 0)
        }
        // The old plan's payment counts for the new token, which grants the rest of its period.
        key.access.pay(
            Self.period(orderId ?? current.token, item.plan.productId), for: item.plan.product, from: instant, to: end)
        key.set(.active, at: instant)
        key.buy(customer.owner(book.account.obfuscatedAccountId), at: instant)
        expectAcknowledgement(from: instant, end: end)
        recordAccess(at: instant)
    }

    /// Ends a token that another one replaces. The end that the store shows lies a tenth of a second before.
    ///
    /// - Parameter keepsPayment: Whether the new token goes on with what was paid for.
    mutating func retire(_ number: Int, at instant: Instant, keepsPayment: Bool = false) {
        let shown = instant.advanced(byMilliseconds: -lag(100...150))
        let periods = currentPeriods(purchases[number])
        if !keepsPayment { changeCharges(periods) { $0.upgradedAt = instant } }
        // Another plan that is bought in grace makes up for the failed renewal.
        if graceEnd != nil { failures[failures.count - 1].recovery = .inGrace }
        for period in periods {
            key.access.cut(period, at: instant, .upgraded)
            if graceEnd != nil { key.access.cutGrace(after: period, at: instant) }
        }
        update(number, at: instant) {
            $0.state = .expired
            $0.cancellation = PlayCancellation(kind: .replacement, at: instant)
            for index in $0.items.indices {
                $0.items[index].expiryTime = shown
                $0.items[index].isAutoRenewing = false
            }
        }
        // What is replaced need no longer be acknowledged.
        purchases[number].deadline = nil
    }

    /// Sends the end of a replaced token, two to four seconds after the message about the new one.
    mutating func sendRetired(_ number: Int) {
        guard let last = messages.last else { preconditionFailure("there is no message") }
        let retired = purchases[number]
        send(
            .expired, at: later(2000...4000, than: last.eventTime), token: retired.token,
            productId: retired.history[0].book.items[0].plan.productId)
    }
}
