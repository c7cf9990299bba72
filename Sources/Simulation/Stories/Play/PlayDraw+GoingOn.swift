import Encoding

// MARK: - Subscriptions that go on until the end of the window

extension PlayDraw {
    /// An event is in the books at most this long after it is due.
    private static let lagMilliseconds: Int64 = 240_000

    /// Lets a new subscription renew before its story, if subscriptions go on: for months, or not at all.
    ///
    /// - Returns: Whether the story begins before the end of the window.
    mutating func renewsUntilStory(_ life: inout PlayLife) -> Bool {
        guard window.goesOn, !isCompressed, life.isRenewing else { return true }
        while !isLeft(life, StoryWindow.storiesPerEnd) {
            guard isInWindow(life.paidEnd) else { return false }
            renew(&life, 1...1)
            guard !life.isClosed else { return false }
        }
        return true
    }

    /// Renews a subscription until it is cancelled, or the window ends.
    mutating func goOn(_ life: inout PlayLife, _ renewals: Int) {
        var left = renewals
        while isInWindow(life.paidEnd) {
            renew(&life, 1...1)
            left -= 1
            guard !life.isClosed else { return }
            guard left > 0, !isLeft(life) else { return leave(&life) }
        }
        raisePrice(&life)
    }

    /// Announces a price increase in the last period of the window, in two of five stories. Half of the customers agree.
    private mutating func raisePrice(_ life: inout PlayLife) {
        let end = min(life.paidEnd, window.end)
        let last = Self.next(life)
        guard story % 5 < 2, life.isRenewing, life.book.items.count == 1,
            isInWindow(last.advanced(byMilliseconds: Self.lagMilliseconds))
        else { return }
        let asked = between(last, end)
        guard isInWindow(asked) else { return }
        life.changePrice(isConfirmed: false, at: asked)
        guard random.chance(50) else { return }
        let agreed = between(asked, end)
        if isInWindow(agreed) { life.changePrice(isConfirmed: true, at: agreed) }
    }

    /// - Parameter times: How many times as often as a subscription is cancelled.
    private mutating func isLeft(_ life: PlayLife, _ times: Double = 1) -> Bool {
        random.fraction() < window.churn(in: life.plan.period.duration) * times
    }

    /// Ends a subscription with the current period, as far as the window contains it.
    private mutating func leave(_ life: inout PlayLife) {
        let given = life.paidEnd.advanced(by: life.terms.grace + life.terms.silentDay + life.terms.hold)
        if random.chance(StoryWindow.billingPercent), isInWindow(given) {
            life.failToRenew()
            life.enterHold()
            return life.endHold()
        }
        let reason = one(of: [nil, "COST_RELATED", "NOT_ENOUGH_USAGE", "OTHERS"])
        let off = within(life)
        guard isInWindow(off) else { return }
        life.cancel(reason: reason, at: off)
        if isInWindow(life.paidEnd) { life.expire() }
    }

    private func isInWindow(_ due: Instant) -> Bool {
        due.advanced(byMilliseconds: Self.lagMilliseconds) <= window.end
    }
}

extension PlayLife {
    /// Whether the paid period would be followed by another one, for all that has happened.
    var isRenewing: Bool {
        !isClosed && !terms.isTest && book.state == .active && plan.isRenewing && book.items[0].installments == nil
    }
}
