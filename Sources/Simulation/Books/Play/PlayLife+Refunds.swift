import Encoding

// MARK: - Refunds

extension PlayLife {
    /// Refunds a payment and takes back what it paid for. The newest one ends the subscription; an older one leaves it.
    ///
    /// - Parameters:
    ///   - orderId: Nil for the newest one.
    ///   - staysActive: The store goes on showing an active subscription, and sends the void alone.
    package mutating func refund(
        _ orderId: String? = nil, source: PlayVoid.Source = .developer, reason: PlayVoid.Reason = .remorse,
        staysActive: Bool = false, at instant: Instant
    ) {
        guard proceed(to: instant) else { return }
        guard let newest = book.items[0].successfulOrderId else { preconditionFailure("nothing was paid") }
        let orderId = orderId ?? newest
        if orderId == newest, !staysActive { awaitVoid(of: orderId, at: instant) }
        takeBack(orderId, at: instant, source: source, reason: reason)
        if orderId == newest {
            key.set(.refunded, at: instant)
            if !staysActive {
                // Shown as if the user had cancelled, whether the merchant or Google refunded.
                end(at: instant, PlayCancellation(kind: .user, at: instant))
                key.set(.refunded, at: instant)
                send(.revoked, at: later(200...2000, than: instant))
                sendAfterLast(.expired)
            }
        }
        sendVoid(of: orderId, at: later(3000...9000, than: instant))
    }

    /// Ends at the end of the paid period, after a void that did not end the subscription. Its status stays.
    package mutating func runOutAfterVoid() {
        let noticed = later(1000...30_000, than: paidEnd)
        guard proceed(to: noticed) else { return }
        update(at: noticed) {
            $0.state = .expired
            $0.cancellation = PlayCancellation(kind: .system, at: noticed)
            for index in $0.items.indices { $0.items[index].isAutoRenewing = false }
        }
        send(.expired, at: noticed)
    }

    /// Refunds a payment and lets its access go on. Nothing is sent, and the list of voided purchases does not have it.
    package mutating func refundWithoutRevoke(_ orderId: String, at instant: Instant) {
        guard proceed(to: instant) else { return }
        updateOrder(orderId) { $0.refund(at: instant) }
    }

    /// Refunds a part of a payment and lets its access go on. Nothing is sent: only the order shows it.
    ///
    /// - Parameter amount: In thousandths of the currency's unit.
    package mutating func refund(amount: Int64, of orderId: String, at instant: Instant) {
        guard proceed(to: instant) else { return }
        updateOrder(orderId) { $0.refund(amount, at: instant) }
    }

    /// Asks the developer about a charge-back of the newest payment.
    package mutating func askAboutChargeBack(at instant: Instant) {
        guard proceed(to: instant), let orderId = lastOrderId else { return }
        send(.refundReview(orderId: orderId, account: book.account), at: instant, token: current.token)
    }

    /// Takes back what a payment paid for, and enters the void in the books.
    mutating func takeBack(
        _ orderId: String, at instant: Instant, source: PlayVoid.Source, reason: PlayVoid.Reason
    ) {
        guard let order = orders.last(where: { $0.orderId == orderId }) else { preconditionFailure("unknown order") }
        updateOrder(orderId) { $0.refund(nil, reason == .chargeBack ? .chargeBack : .other, at: instant) }
        let periods = order.items.map { Self.period(orderId, $0.productId) }
        for period in periods { key.access.takeBack(period, at: instant) }
        changeCharges(periods) {
            $0.revocation = Revocation(date: instant, kind: .full, reason: 0, percentage: 100_000)
        }
        voids.append(
            PlayVoid(
                purchaseToken: order.purchaseToken, orderId: orderId, purchaseTime: order.createTime,
                voidedTime: instant, seenAt: later(1000...3_600_000, than: instant), source: source, reason: reason,
                isSubscription: true))
    }

    /// Records that the store ends what the payment paid for, as long as nothing says that it was refunded. Call it before
    /// the payment is taken back.
    mutating func awaitVoid(of orderId: String, at instant: Instant) {
        var shown = key.access
        for item in orders.last(where: { $0.orderId == orderId })?.items ?? [] {
            shown.cut(Self.period(orderId, item.productId), at: instant, .revoked)
        }
        accessBeforeVoid = shown
    }

    mutating func sendVoid(of orderId: String, at instant: Instant) {
        accessBeforeVoid = nil
        guard let void = voids.last(where: { $0.orderId == orderId }) else { return }
        send(
            .voided(orderId: orderId, isSubscription: true, isPartial: false), at: instant,
            token: void.purchaseToken)
    }
}
