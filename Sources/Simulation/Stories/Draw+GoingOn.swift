import Encoding

// MARK: - Subscriptions that go on until the end of the window

extension Draw {
    /// The numbers of purchases from which on a subscription is cancelled; its ids are limited.
    private static let purchasesMax = 50
    /// An event is in the books at most this long after it is due.
    private static let lagMilliseconds: Int64 = 60_000

    /// Lets a new subscription renew before its story, if subscriptions go on: for months, or not at all.
    ///
    /// - Returns: Whether the story begins before the end of the window.
    mutating func renewsUntilStory(_ life: inout SubscriptionLife) -> Bool {
        guard window.goesOn, !isCompressed, life.current.offer == nil else { return true }
        while life.purchases.count < Self.purchasesMax, !isLeft(life, StoryWindow.storiesPerEnd) {
            guard isInWindow(life.expiry) else { return false }
            renew(&life, 1...1)
        }
        return true
    }

    /// Goes on with a subscription after its story, until it is cancelled or the window ends. Nothing happens if the
    /// subscription does not renew, or every story ends within the window.
    mutating func goOn(_ life: inout SubscriptionLife) {
        guard window.goesOn, life.isRenewing else { return }
        while isInWindow(life.expiry) {
            renew(&life, 1...1)
            guard life.purchases.count < Self.purchasesMax, !isLeft(life) else { return leave(&life) }
        }
        raisePrice(&life)
    }

    /// Asks for consent to a price increase in the last period of the window, in two of five stories. Half of the customers
    /// consent at once.
    private mutating func raisePrice(_ life: inout SubscriptionLife) {
        guard index % 5 < 2, let preference = life.renewalPreference, preference.nextProduct == life.current.product,
            preference.offer == nil, preference.seats == nil, !life.customer.isMember, !life.isRestored
        else { return }
        let events = [life.current.purchaseDate, life.history.last?.at, life.notifications.last?.signedDate]
        let last = events.compactMap(\.self).max() ?? window.end
        let end = min(life.expiry, window.end)
        guard isInWindow(last.advanced(byMilliseconds: Self.lagMilliseconds)) else { return }
        let asked = between(last, end)
        guard isInWindow(asked) else { return }
        life.announcePriceIncrease(at: asked)
        guard random.chance(50) else { return }
        let agreed = between(asked, end)
        if isInWindow(agreed) { life.acceptPriceIncrease(at: agreed) }
    }

    /// Whether an event that is due at the instant is in the window.
    private func isInWindow(_ due: Instant) -> Bool {
        due.advanced(byMilliseconds: Self.lagMilliseconds) <= window.end
    }

    /// - Parameter times: How many times as often as a subscription is cancelled.
    private mutating func isLeft(_ life: SubscriptionLife, _ times: Double = 1) -> Bool {
        guard let period = life.current.product.duration else { return true }
        return random.fraction() < window.churn(in: period) * times
    }

    /// Ends a subscription with the current period, as far as the window contains it.
    private mutating func leave(_ life: inout SubscriptionLife) {
        let given = life.expiry.advanced(byMilliseconds: life.retryDays * Self.dayMilliseconds)
        if random.chance(StoryWindow.billingPercent), isInWindow(given) {
            life.failToRenew()
            return life.giveUp()
        }
        let off = within(life)
        guard isInWindow(off) else { return }
        life.switchOff(at: off)
        if isInWindow(life.expiry) { life.runOut() }
    }
}

extension SubscriptionLife {
    /// Whether the current period would be followed by another one, for all that has happened.
    fileprivate var isRenewing: Bool {
        guard let preference = renewalPreference, let last = history.last?.at else { return false }
        return preference.isOn && preference.expiration == nil && !preference.isInBillingRetry
            && preference.priceConsent != 0 && current.revocation == nil && billingPlan == nil && last < expiry
    }
}
