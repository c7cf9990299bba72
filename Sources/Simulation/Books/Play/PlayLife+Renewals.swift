import Encoding

// MARK: - Renewals

extension PlayLife {
    /// Renews at the end of the paid period.
    ///
    /// - Parameters:
    ///   - delay: The time from the end of the period to the payment, negative for an early one. Google Play needs up to
    ///     two minutes and a quarter.
    ///   - drift: How much earlier than a whole period the next one ends.
    package mutating func renew(after delay: Duration = .seconds(20), drift: Duration = .zero) {
        let charged = paidEnd.advanced(by: delay)
        guard proceed(to: charged) else { return }
        precondition(book.state == .active, "the subscription does not renew")
        pay(from: paidEnd, charged: charged, drift: drift)
        send(.renewed, at: later(100...900, than: charged))
        if book.items[0].installments != nil, lag(0...99) < 40 {
            // A charge of a commitment is sometimes announced twice.
            sendAfterLast(.renewed)
        }
    }

    /// Pays the next period of all items that renew.
    mutating func pay(from start: Instant, charged: Instant, drift: Duration = .zero) {
        // Also for the time in grace, which is paid for now.
        key.set(
            book.items.contains { $0.installments?.isCancellationPending == true } ? .activeWillEnd : .active, at: start
        )
        let orderId = current.nextOrderId
        update(at: charged) { book in
            Self.carryOutDeferredChanges(&book)
            for index in book.items.indices {
                book.items[index].phase = .basePrice
                if let change = book.items[index].priceChange, change.chargeTime <= start {
                    book.items[index].price = change.newPrice
                    book.items[index].priceChange?.state = .applied
                }
                if let left = book.items[index].installments?.remaining {
                    book.items[index].installments?.remaining = max(0, left - 1)
                }
            }
        }
        let end = terms.end(plan, from: start).advanced(by: .zero - drift)
        update(at: charged) {
            $0.state = .active
            $0.cancellation = nil
            $0.autoResumeTime = nil
            $0.latestOrderId = orderId
            for index in $0.items.indices {
                $0.items[index].expiryTime = end
                $0.items[index].successfulOrderId = orderId
            }
        }
        purchases[purchases.count - 1].payments += 1
        if let pending = orders.lastIndex(where: { $0.orderId == orderId }) {
            orders[pending].servicePeriod = start..<end
            orders[pending].become(.processed, at: charged)
        } else {
            addOrder(orderId, at: charged, period: start..<end)
        }
        charge(.renewal, from: start, to: end)
        for item in book.items {
            key.access.pay(
                Self.period(orderId, item.plan.productId), for: item.plan.product, from: start, to: end)
        }
        paidEnd = end
        graceEnd = nil
    }

    /// Replaces and removes items for which the end of the period was awaited.
    private static func carryOutDeferredChanges(_ book: inout PlayBook) {
        book.items.removeAll { $0.isRemovalDeferred || $0.deferredReplacement != nil }
        for index in book.items.indices where book.items[index].isDeferred {
            book.items[index].isDeferred = false
            book.items[index].isAutoRenewing = true
        }
    }

    /// The developer moves the end of the period.
    package mutating func `defer`(by duration: Duration, at instant: Instant) {
        guard proceed(to: instant) else { return }
        let end = paidEnd.advanced(by: duration)
        for period in currentPeriods() { key.access.extend(period, to: end) }
        changeCharges(currentPeriods()) { $0.expiresDate = end }
        update(at: instant) {
            for index in $0.items.indices { $0.items[index].expiryTime = end }
        }
        paidEnd = end
        send(.deferred, at: later(200...2000, than: instant))
    }

    /// Announces a higher price for the next period. It is sent in two forms.
    package mutating func changePrice(isConfirmed: Bool, at instant: Instant) {
        guard proceed(to: instant) else { return }
        let next = paidEnd
        update(at: instant) {
            let price = $0.items[0].price
            $0.items[0].priceChange = .init(
                newPrice: price + price / 5, chargeTime: next, state: isConfirmed ? .confirmed : .outstanding)
        }
        let sent = later(200...2000, than: instant)
        send(.priceChangeUpdated, at: sent)
        if isConfirmed { send(.priceChangeConfirmed, at: sent) }
    }

    /// Removes an item at the end of the period.
    package mutating func removeItem(_ productId: String, at instant: Instant) {
        guard proceed(to: instant) else { return }
        update(at: instant) {
            for index in $0.items.indices where $0.items[index].plan.productId == productId {
                $0.items[index].isRemovalDeferred = true
                $0.items[index].isAutoRenewing = false
            }
        }
        send(.itemsChanged, at: later(200...2000, than: instant))
    }
}

// MARK: - An end without a date

extension PlayLife {
    /// Ends the subscription before the end of what is paid. The store shows it as expired, and shows the end as before or
    /// none, so that a server can date the end only by the first such answer.
    ///
    /// - Parameter showsEnd: Whether the answers still have the end of the paid period.
    package mutating func endEarly(showsEnd: Bool, at instant: Instant) {
        guard proceed(to: instant) else { return }
        let known = min(endShownAt ?? paidEnd, paidEnd)
        for period in currentPeriods() { key.access.cut(period, at: known, .revoked) }
        // The store calls it an end for want of payment.
        changeCharges(currentPeriods()) { $0.expiresDate = known }
        fail(dueAt: known)
        end(by: .billing)
        update(at: instant) {
            $0.state = .expired
            $0.cancellation = PlayCancellation(kind: .system, at: instant)
            for index in $0.items.indices {
                $0.items[index].isAutoRenewing = false
                if !showsEnd { $0.items[index].expiryTime = nil }
            }
        }
        key.set(.expired, at: known)
        send(.expired, at: later(200...2000, than: instant))
    }
}

// MARK: - Switching renewal off and on

extension PlayLife {
    /// Cancels. Access goes on to the end of the period; in grace and hold the subscription ends at once.
    package mutating func cancel(
        by kind: PlayCancellation.Kind = .user, reason: String? = nil, at instant: Instant
    ) {
        guard proceed(to: instant) else { return }
        let cancellation = PlayCancellation(kind: kind, at: instant, surveyReason: reason)
        // On hold, the failed payment has ended access already.
        if book.state != .onHold { end(by: kind == .developer ? .other : .voluntary) }
        if [.inGracePeriod, .onHold].contains(book.state) {
            cutGrace(at: instant)
            end(at: instant, cancellation)
            send(.canceled, at: later(200...2000, than: instant))
            sendAfterLast(.expired)
            return
        }
        precondition(book.state == .active, "the subscription cannot be cancelled")
        update(at: instant) {
            $0.state = .canceled
            $0.cancellation = cancellation
            for index in $0.items.indices { $0.items[index].isAutoRenewing = false }
        }
        // Google says when a customer cancelled, not when a developer did.
        key.set(.activeWillEnd, at: instant, shownBefore: kind == .developer ? .active : nil)
        key.set(.expired, at: max(paidEnd, instant))
        send(.canceled, at: later(200...2000, than: instant))
    }

    /// Restores a cancelled subscription in Google Play before it expires.
    package mutating func restart(at instant: Instant) {
        guard proceed(to: instant) else { return }
        precondition(book.state == .canceled && instant < paidEnd, "the subscription cannot be restored")
        end(by: nil)
        update(at: instant) {
            $0.state = .active
            $0.cancellation = nil
            for index in $0.items.indices { $0.items[index].isAutoRenewing = $0.items[index].plan.isRenewing }
        }
        // `activeWillEnd` ends here, and nothing is left of it.
        key.endStatus(at: instant)
        key.forget()
        key.set(.active, at: instant, shownBefore: .activeWillEnd)
        send(.restarted, at: later(200...2000, than: instant))
    }

    /// Cancels at the end of the commitment; the payments until then go on.
    package mutating func cancelCommitment(at instant: Instant) {
        guard proceed(to: instant) else { return }
        update(at: instant) { $0.items[0].installments?.isCancellationPending = true }
        key.set(.activeWillEnd, at: instant, shownBefore: .active)
        send(.cancellationScheduled, at: later(200...2000, than: instant))
    }

    /// Ends at the end of the last paid period, after a cancellation or a prepaid plan's last top-up.
    package mutating func expire() {
        let noticed = later(1000...30_000, than: paidEnd)
        guard proceed(to: noticed) else { return }
        let end = paidEnd
        update(at: noticed) { $0.state = .expired }
        key.set(.expired, at: end)
        send(.expired, at: noticed)
    }

    /// Ends a commitment whose cancellation was planned.
    package mutating func endCommitment() {
        let end = paidEnd
        guard proceed(to: end) else { return }
        let cancellation = PlayCancellation(kind: .user, at: end)
        self.end(by: .voluntary)
        self.end(at: end, cancellation)
        send(.canceled, at: later(1000...5000, than: end))
        sendAfterLast(.expired)
    }

    /// Ends at an instant, with a date of its own as the expiry.
    mutating func end(at instant: Instant, _ cancellation: PlayCancellation) {
        update(at: instant) {
            $0.state = .expired
            $0.cancellation = cancellation
            $0.autoResumeTime = nil
            for index in $0.items.indices {
                $0.items[index].expiryTime = instant
                $0.items[index].isAutoRenewing = false
            }
        }
        if let pending = orders.lastIndex(where: { $0.orderId == current.nextOrderId }) {
            orders[pending].become(.canceled, at: instant)
        }
        key.set(.expired, at: instant)
    }
}
