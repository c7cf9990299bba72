import Encoding
import Subscriptions

// MARK: - Several app users on one Apple Account

extension Story {
    /// A device that two users of the app share: the second one subscribes again after the subscription has expired.
    func sharedDeviceStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life(token: .given)
        let period = draw.period()
        life.subscribe(to: draw.product(.plus, period), at: draw.start())
        draw.renew(&life, 0...2)
        life.switchOff(at: draw.within(life))
        life.runOut()
        let latest = life.expiry.advanced(byMilliseconds: Int64(draw.count(5...60)) * Draw.dayMilliseconds)
        let bought = draw.between(life.expiry, latest)
        life.handOver(to: draw.otherToken())
        life.resubscribe(to: draw.product(draw.one(of: [.plus, .premium]), period), at: bought)
        draw.renew(&life, 0...2)
        draw.goOn(&life)
        let subscription = SimulatedSubscription(life)
        return RenderedStory(self, [subscription], customers: draw.buyers(of: subscription, secondFrom: bought))
    }

    /// A device that two users of the app share: the second one upgrades the plan of the first one.
    func otherUpgradeStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life(token: .given)
        let period = draw.period()
        life.subscribe(to: draw.product(draw.one(of: [.basic, .plus]), period), at: draw.start())
        draw.renew(&life, 0...2)
        let bought = draw.within(life)
        life.handOver(to: draw.otherToken())
        let longer = draw.isCompressed ? period : draw.one(of: [period, .yearly])
        life.upgrade(to: draw.product(.premium, longer), at: bought)
        if longer == period { draw.renew(&life, 0...2) }
        draw.goOn(&life)
        let subscription = SimulatedSubscription(life)
        return RenderedStory(self, [subscription], customers: draw.buyers(of: subscription, secondFrom: bought))
    }

    /// An app that set no token at first. Its server then sets the token of its user, who has owned the subscription all
    /// the time.
    func lateTokenStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life(token: .unset)
        life.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        draw.renew(&life, 1...3)
        life.setAccountToken(draw.otherToken())
        if draw.random.chance(50) {
            let off = draw.within(life)
            life.switchOff(at: off)
            life.switchOn(at: draw.between(off, life.expiry))
        }
        draw.renew(&life, 1...2)
        draw.goOn(&life)
        return RenderedStory(self, [SimulatedSubscription(life)])
    }

    /// Two subscription groups on one Apple Account, one bought by each of two users of the app.
    func twoUsersStory(_ draw: inout Draw) -> RenderedStory {
        var first = draw.life(subscription: 0, token: .given)
        var user = first.customer
        user.appAccountToken = draw.otherToken()
        var second = draw.life(subscription: 1, customer: user)
        first.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        let bought = draw.within(first)
        second.subscribe(to: draw.product(.audio, draw.period()), at: bought)
        draw.renew(&first, 0...2)
        draw.renew(&second, 0...2)
        draw.goOn(&first)
        draw.goOn(&second)
        let subscriptions = [SimulatedSubscription(first), SimulatedSubscription(second)]
        let account = SimulatedId(.appTransaction, user.appTransactionId)
        // The Apple Account itself goes with the user of its purchases.
        let (before, after) = draw.turns(secondFrom: bought)
        let accountLeads = [
            before.map { SimulatedCustomer.Lead(account, during: $0) },
            after.map { SimulatedCustomer.Lead(account, during: $0) },
        ]
        return RenderedStory(
            self, subscriptions,
            customers: zip(subscriptions.indices, accountLeads).map { number, accountLead in
                let own = subscriptions[number].ids(.v1).map { SimulatedCustomer.Lead($0) }
                return SimulatedCustomer(
                    subscriptions: [number], leads: own + [accountLead].compactMap(\.self))
            })
    }
}

extension Draw {
    /// The customers of a subscription that one app user bought and another one buys at the instant.
    fileprivate func buyers(of subscription: SimulatedSubscription, secondFrom bought: Instant) -> [SimulatedCustomer] {
        let tokens = [subscription.purchases.first, subscription.purchases.last].map { $0?.appAccountToken ?? "" }
        let others = subscription.ids(.v2).filter { $0.kind != .account }
        let (before, after) = turns(secondFrom: bought)
        return zip(tokens, [before, after]).map { token, turn in
            let otherLeads = turn.map { turn in others.map { SimulatedCustomer.Lead($0, during: turn) } } ?? []
            return SimulatedCustomer(
                subscriptions: ownership == .shared || turn != nil ? [0] : [],
                owns: turn ?? SimulatedCustomer.always,
                leads: [SimulatedCustomer.Lead(SimulatedId(.account, token))] + otherLeads)
        }
    }

    /// When the ids that two app users have in common lead to the first one, and when to the second one, who buys at the
    /// instant; nil for never. If both own everything, the ids lead to the one who bought last.
    fileprivate func turns(secondFrom bought: Instant) -> (first: Range<Instant>?, second: Range<Instant>?) {
        switch ownership {
        case .latestBuyer: (Instant.earliest..<bought, bought..<Instant.latest)
        case .firstBuyer: (SimulatedCustomer.always, nil)
        case .shared: (nil, SimulatedCustomer.always)
        }
    }

    /// The `appAccountToken` of a second user of the story's app.
    fileprivate func otherToken() -> String {
        var identifiers = Identifiers(
            seed: seed, index: index, subscription: Identifiers.storySubscriptionsMax - 1)
        return identifiers.uuid()
    }
}

// MARK: - Links that take from another customer

extension Story {
    /// A subscription without a token that two customers link, one after the other.
    func transferStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life(token: .unset)
        life.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: draw.start())
        draw.renew(&life, 0...2)
        draw.goOn(&life)
        let subscription = SimulatedSubscription(life)
        let (first, second) = (draw.backendId(1), draw.backendId(2))
        let link = subscription.link(by: .originalTransactionId)
        let sent = draw.afterFirstNotification(of: [subscription])
        let isTransfer = draw.random.chance(40)
        let isRefused = draw.ownership == .firstBuyer && !isTransfer
        let ids = subscription.ids(.v2).map { SimulatedCustomer.Lead($0) }
        return RenderedStory(
            self, [subscription],
            customers: [
                SimulatedCustomer(
                    subscriptions: isRefused || draw.ownership == .shared ? [0] : [], backendIds: [first],
                    leads: isRefused ? ids : []),
                SimulatedCustomer(
                    subscriptions: isRefused ? [] : [0], backendIds: [second], leads: isRefused ? [] : ids),
            ],
            statements: [
                SimulatedLinks(backendCustomerId: first, sentAt: sent, links: [link]),
                SimulatedLinks(
                    backendCustomerId: second, sentAt: draw.later(than: sent), links: [link], isTransfer: isTransfer,
                    isRefused: isRefused),
            ])
    }

    /// Two subscriptions of one app user on two Apple Accounts. One customer links the token, then another one links the
    /// first subscription, and takes it alone.
    func tokenAndLinkStory(_ draw: inout Draw) -> RenderedStory {
        var taken = draw.life(subscription: 0, token: .given)
        var kept = draw.life(subscription: 1, token: .of(taken.customer))
        taken.subscribe(to: draw.product(.plus, draw.period()), at: draw.start())
        draw.renew(&taken, 0...2)
        kept.subscribe(to: draw.product(draw.one(of: [.premium, .audio]), draw.period()), at: draw.within(taken))
        draw.renew(&kept, 0...2)
        draw.goOn(&taken)
        draw.goOn(&kept)
        let subscriptions = [SimulatedSubscription(taken), SimulatedSubscription(kept)]
        let (first, second) = (draw.backendId(1), draw.backendId(2))
        let tokenLink = subscriptions[0].link(by: .appAccountToken)
        let link = subscriptions[0].link(by: .originalTransactionId)
        let sent = draw.afterFirstNotification(of: subscriptions)
        // A server that has not received the purchase cannot know its token. So that the order of arrival decides nothing,
        // the first customer links the subscription too, unless the second one transfers it.
        let isTransfer = draw.random.chance(50)
        let isRefused = draw.ownership == .firstBuyer && !isTransfer
        let takenId = SimulatedCustomer.Lead(SimulatedId(.subscription, subscriptions[0].originalTransactionId))
        let tokenIds = subscriptions.flatMap { $0.ids(.v2) }.map { SimulatedCustomer.Lead($0) }
            .filter { $0 != takenId }
        return RenderedStory(
            self, subscriptions,
            customers: [
                SimulatedCustomer(
                    subscriptions: isRefused || draw.ownership == .shared ? [0, 1] : [1], backendIds: [first],
                    leads: tokenIds + (isRefused ? [takenId] : [])),
                SimulatedCustomer(
                    subscriptions: isRefused ? [] : [0], backendIds: [second], leads: isRefused ? [] : [takenId]),
            ],
            statements: [
                SimulatedLinks(
                    backendCustomerId: first, sentAt: sent, links: isTransfer ? [tokenLink] : [tokenLink, link]),
                SimulatedLinks(
                    backendCustomerId: second, sentAt: draw.later(than: sent), links: [link], isTransfer: isTransfer,
                    isRefused: isRefused),
            ])
    }
}
