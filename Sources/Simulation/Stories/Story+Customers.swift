import Encoding

// MARK: - One customer with several subscriptions

extension Story {
    /// One user of the app on two Apple Accounts: both subscriptions belong to the app user of the `appAccountToken`.
    func accountTokenStory(_ draw: inout Draw) -> RenderedStory {
        var first = draw.life(subscription: 0, token: .given)
        var second = draw.life(subscription: 1, token: .of(first.customer))
        let start = draw.start()
        first.subscribe(to: draw.product(draw.one(of: [.basic, .plus]), draw.period()), at: start)
        draw.renew(&first, 0...2)
        second.subscribe(to: draw.product(draw.one(of: [.premium, .audio]), draw.period()), at: draw.within(first))
        draw.renew(&second, 0...2)
        draw.end(&second, chance: 50)
        draw.goOn(&first)
        draw.goOn(&second)
        return RenderedStory(
            self, [SimulatedSubscription(first), SimulatedSubscription(second)],
            customers: [SimulatedCustomer(subscriptions: [0, 1])])
    }

    /// Two subscription groups on one Apple Account: one receipt in version 1, one `appTransactionId` in version 2.
    func appleAccountStory(_ draw: inout Draw) -> RenderedStory {
        var first = draw.life(subscription: 0)
        var second = draw.life(subscription: 1, customer: first.customer)
        first.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        second.subscribe(to: draw.product(.audio, draw.period()), at: draw.within(first))
        draw.renew(&first, 0...2)
        draw.renew(&second, 0...2)
        draw.end(&first, chance: 50)
        draw.goOn(&first)
        draw.goOn(&second)
        return RenderedStory(
            self, [SimulatedSubscription(first), SimulatedSubscription(second)],
            customers: [SimulatedCustomer(subscriptions: [0, 1])])
    }

    /// A restore under another original transaction id: two subscriptions, one account.
    func restoredStory(_ draw: inout Draw) -> RenderedStory {
        var first = draw.life(subscription: 0)
        var second = draw.life(subscription: 1, customer: first.customer)
        first.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        draw.renew(&first, 0...2)
        second.restore(first, at: first.current.purchaseDate.advanced(byMilliseconds: 60_000))
        // The store sends no notification for a restore. The next notification contains the copy.
        let off = draw.within(second)
        second.switchOff(at: off)
        if draw.random.chance(60) {
            second.switchOn(at: draw.between(off, second.expiry))
            draw.renew(&second, 1...2)
            draw.goOn(&second)
        } else {
            second.runOut()
        }
        return RenderedStory(
            self, [SimulatedSubscription(first), SimulatedSubscription(second)],
            customers: [SimulatedCustomer(subscriptions: [0, 1])])
    }

    /// Bought again after expiry, from another Apple Account: a new subscription of the same user.
    func boughtAgainStory(_ draw: inout Draw) -> RenderedStory {
        var first = draw.life(subscription: 0, token: .given)
        var second = draw.life(subscription: 1, token: .of(first.customer))
        let period = draw.period()
        first.subscribe(to: draw.product(.plus, period), at: draw.start())
        first.switchOff(at: draw.within(first))
        first.runOut()
        let latest = first.expiry.advanced(byMilliseconds: Int64(draw.count(5...60)) * Draw.dayMilliseconds)
        second.subscribe(to: draw.product(.plus, period), at: draw.between(first.expiry, latest))
        draw.renew(&second, 0...2)
        draw.goOn(&second)
        return RenderedStory(
            self, [SimulatedSubscription(first), SimulatedSubscription(second)],
            customers: [SimulatedCustomer(subscriptions: [0, 1])])
    }
}

// MARK: - Links by a backend

extension Story {
    /// Two unrelated accounts that a backend links to one customer.
    func linkedStory(_ draw: inout Draw) -> RenderedStory {
        let subscriptions = draw.unrelatedSubscriptions(2)
        let backendId = draw.backendId(1)
        let keys = [draw.linkKey(subscriptions[0]), draw.linkKey(subscriptions[1])]
        let links = zip(subscriptions, keys).map { $0.link(by: $1) }
        let first = draw.afterFirstNotification(of: subscriptions)
        // The first statement contains one of the final links or none.
        let early = draw.one(of: [[], [links[0]], [links[1]]])
        return RenderedStory(
            self, subscriptions, customers: [SimulatedCustomer(subscriptions: [0, 1], backendIds: [backendId])],
            statements: [
                SimulatedLinks(backendCustomerId: backendId, sentAt: first, links: early),
                SimulatedLinks(backendCustomerId: backendId, sentAt: draw.later(than: first), links: links),
            ])
    }

    /// A subscription linked to the wrong customer and then moved to the right one.
    func movedLinkStory(_ draw: inout Draw) -> RenderedStory {
        let subscriptions = draw.unrelatedSubscriptions(3)
        let (wrong, right) = (draw.backendId(1), draw.backendId(2))
        let links = subscriptions.map { $0.link(by: draw.linkKey($0)) }
        let first = draw.afterFirstNotification(of: subscriptions)
        let second = draw.later(than: first)
        // The wrong customer keeps another subscription, or none.
        let keepsOne = draw.random.chance(60)
        return RenderedStory(
            self, subscriptions,
            customers: [
                SimulatedCustomer(subscriptions: [0], backendIds: keepsOne ? [wrong] : []),
                SimulatedCustomer(subscriptions: [1, 2], backendIds: [right]),
            ] + (keepsOne ? [] : [SimulatedCustomer(subscriptions: [], backendIds: [wrong])]),
            statements: [
                SimulatedLinks(backendCustomerId: wrong, sentAt: first, links: [links[0], links[1]]),
                SimulatedLinks(backendCustomerId: right, sentAt: first, links: [links[2]]),
                SimulatedLinks(backendCustomerId: wrong, sentAt: second, links: keepsOne ? [links[0]] : []),
                // A server that has not folded yet that the wrong customer dropped the link accepts a transfer only.
                SimulatedLinks(
                    backendCustomerId: right, sentAt: second, links: [links[1], links[2]], isTransfer: true),
            ])
    }
}

extension Draw {
    /// Subscriptions of unrelated accounts, each with some renewals.
    fileprivate mutating func unrelatedSubscriptions(_ count: Int) -> [SimulatedSubscription] {
        (0..<count).map { subscription in
            var life = life(subscription: subscription)
            life.subscribe(to: product(one(of: [.basic, .plus, .premium, .audio]), period()), at: start())
            renew(&life, 0...2)
            end(&life, chance: 40)
            goOn(&life)
            return SimulatedSubscription(life)
        }
    }

    /// A kind of id that makes the customer that links it the owner, whatever id the subscription is asked by. The token
    /// of a purchase is stronger than a link on its `appTransactionId`, and a link on the subscription says nothing about
    /// its token.
    fileprivate mutating func linkKey(_ subscription: SimulatedSubscription) -> SimulatedLink.Key {
        let hasToken = subscription.customer.appAccountToken != nil
        return one(of: hasToken ? [.appAccountToken] : [.originalTransactionId, .appTransactionId])
    }

    /// An instant after the first notification of each subscription.
    mutating func afterFirstNotification(of subscriptions: [SimulatedSubscription]) -> Instant {
        later(than: subscriptions.compactMap(\.notifications.first?.signedDate).max() ?? window.start)
    }

    mutating func later(than instant: Instant) -> Instant {
        between(instant, instant.advanced(byMilliseconds: 20 * Self.dayMilliseconds))
    }

    /// A backend's id of a customer, one for each number in a story.
    func backendId(_ number: Int) -> String {
        "user-\(seed % 100_000)-\(index)-\(number)"
    }

    /// With the given probability, switches auto-renewal off and lets the subscription expire.
    fileprivate mutating func end(_ life: inout SubscriptionLife, chance percent: Int) {
        guard random.chance(percent) else { return }
        life.switchOff(at: within(life))
        life.runOut()
    }
}
