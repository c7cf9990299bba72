import Encoding

// MARK: - Failed payments

extension PlayLife {
    /// Fails the payment at the end of the paid period. Access goes on for the grace period of the base plan. Without
    /// one, the charge is tried again for a day, in which the store still shows an active subscription.
    package mutating func failToRenew() {
        let noticed = later(5000...35_000, than: paidEnd)
        guard proceed(to: noticed) else { return }
        fail(dueAt: paidEnd)
        self.end(by: .billing)
        guard terms.grace > .zero else {
            graceEnd = nil
            key.set(.hold, at: paidEnd, shownBefore: .retry)
            return
        }
        let end = paidEnd.advanced(by: terms.grace)
        graceEnd = end
        let pending = current.nextOrderId
        addOrder(pending, at: noticed, period: nil, state: .pending)
        update(at: noticed) {
            $0.state = .inGracePeriod
            $0.latestOrderId = pending
            for index in $0.items.indices { $0.items[index].expiryTime = end }
        }
        for period in currentPeriods() { key.access.grantGrace(after: period, from: paidEnd, to: end) }
        key.set(.grace, at: paidEnd)
        key.set(.hold, at: end)
        send(.inGracePeriod, at: noticed)
    }

    /// Begins the account hold at the end of the grace period.
    package mutating func enterHold() {
        let begin = graceEnd ?? paidEnd.advanced(by: terms.silentDay)
        let noticed = later(1000...31_000, than: begin)
        guard proceed(to: noticed) else { return }
        let expiry = graceEnd ?? paidEnd
        update(at: noticed) {
            $0.state = .onHold
            for index in $0.items.indices { $0.items[index].expiryTime = expiry }
        }
        if key.status(at: expiry) != .hold { key.set(.hold, at: expiry) }
        send(.onHold, at: noticed)
    }

    /// When the hold ends if the payment never succeeds.
    package var holdEnd: Instant { (graceEnd ?? paidEnd).advanced(by: terms.hold) }

    /// Pays after a failed payment. In grace the billing cycle goes on as if paid in time; after a hold a new one begins.
    package mutating func recover(at instant: Instant) {
        guard proceed(to: instant) else { return }
        switch book.state {
        case .inGracePeriod:
            for period in currentPeriods() { key.access.payGrace(after: period, at: instant) }
            failures[failures.count - 1].recovery = .inGrace
            pay(from: paidEnd, charged: instant)
            send(.renewed, at: later(200...2000, than: instant))
        case .onHold, .paused:
            if book.state == .onHold { recoverLater(at: instant) }
            pay(from: instant, charged: instant)
            send(.recovered, at: later(200...2000, than: instant))
        default: preconditionFailure("no payment has failed")
        }
    }

    /// Ends the subscription because the hold is over.
    package mutating func endHold() {
        let instant = holdEnd
        guard proceed(to: instant) else { return }
        precondition(book.state == .onHold, "the subscription is not on hold")
        end(at: instant, PlayCancellation(kind: .system, at: instant))
        // The end of the hold was never paid. It has been without access since the hold began.
        send(.canceled, at: later(500...3000, than: instant))
        sendAfterLast(.expired)
    }
}

// MARK: - Pauses

extension PlayLife {
    /// Plans a pause that begins at the end of the paid period; nil withdraws it.
    package mutating func planPause(_ length: CalendarDuration?, at instant: Instant) {
        guard proceed(to: instant) else { return }
        pauseLength = length
        send(.pauseScheduleChanged, at: later(200...2000, than: instant))
    }

    /// Begins the planned pause at the end of the paid period.
    ///
    /// - Parameter showsResume: Whether the store shows the end of the pause as the expiry, which it does not document.
    package mutating func pause(showsResume: Bool = false) {
        let noticed = later(1000...30_000, than: paidEnd)
        guard proceed(to: noticed) else { return }
        guard let pauseLength else { preconditionFailure("no pause is planned") }
        let resume = paidEnd.advanced(by: pauseLength)
        update(at: noticed) {
            $0.state = .paused
            $0.autoResumeTime = resume
            guard showsResume else { return }
            for index in $0.items.indices { $0.items[index].expiryTime = resume }
        }
        key.set(.paused, at: paidEnd)
        send(.paused, at: noticed)
    }

    /// When the pause ends by itself.
    package var resumeTime: Instant { book.autoResumeTime ?? paidEnd }

    /// Fails the payment at the end of the pause.
    package mutating func failToResume() {
        let resume = resumeTime
        let noticed = later(1000...31_000, than: resume)
        guard proceed(to: noticed) else { return }
        update(at: noticed) {
            $0.state = .onHold
            $0.autoResumeTime = nil
            for index in $0.items.indices { $0.items[index].expiryTime = resume }
        }
        graceEnd = resume
        // The last period ended as the pause began.
        fail(dueAt: paidEnd)
        self.end(by: .billing)
        key.set(.hold, at: resume)
        send(.onHold, at: noticed)
    }
}
