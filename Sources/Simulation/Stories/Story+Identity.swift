import Encoding

// MARK: - Purchases that are reported under another subscription

extension Story {
    /// A customer who comes back gets a new original transaction id. Later the store reports the same purchases under the
    /// old one, and perhaps under the new one again.
    func movedStory(_ draw: inout Draw) -> RenderedStory {
        var former = draw.life(subscription: 0)
        let period = draw.period()
        former.subscribe(to: draw.product(.plus, period), at: draw.start())
        draw.renew(&former, 0...1)
        former.switchOff(at: draw.within(former))
        former.runOut()
        let ended = former.currentPreference
        let latest = former.expiry.advanced(byMilliseconds: Int64(draw.count(5...60)) * Draw.dayMilliseconds)
        var life = draw.life(subscription: 1, customer: former.customer)
        let product = draw.product(draw.one(of: [.plus, .premium]), period)
        life.subscribe(to: product, at: draw.between(former.expiry, latest))
        let moved = draw.within(life)
        let transactionIds = Set(life.purchases.map(\.transactionId))
        life.move(transactionIds, to: &former, leaving: nil, at: moved)
        former.switchOff(at: moved)
        if self == .moved {
            continueMoved(&former, from: moved, &draw)
        } else {
            var last = moved
            let isRefunded = draw.random.chance(50)
            if isRefunded {
                last = draw.between(last, former.expiry)
                former.refund(at: last)
            }
            let back = draw.between(last, former.expiry)
            former.move(transactionIds, to: &life, leaving: ended, at: back)
            if isRefunded {
                life.repeatRefund(at: back)
            } else {
                life.switchOn(at: back)
                draw.renew(&life, 0...1)
            }
        }
        let subscriptions = [SimulatedSubscription(former), SimulatedSubscription(life)]
        // The new id leads nowhere once nothing is left under it.
        let leads = subscriptions.prefix(self == .moved ? 1 : 2).flatMap { $0.ids(.v2) }
        return RenderedStory(
            self, subscriptions,
            customers: [SimulatedCustomer(subscriptions: [0, 1], leads: leads.map { SimulatedCustomer.Lead($0) })])
    }

    private func continueMoved(_ life: inout SubscriptionLife, from moved: Instant, _ draw: inout Draw) {
        switch draw.count(0...2) {
        case 0: life.refund(at: draw.between(moved, life.expiry))
        case 1:
            life.switchOn(at: draw.between(moved, life.expiry))
            draw.renew(&life, 1...2)
        default: life.runOut()
        }
    }
}

// MARK: - Many purchases with one account token

extension Story {
    /// The purchases of consumables say nothing about how many people use a token. Half of the customers have purchases
    /// that do not name their Apple Account, as older ones.
    func loyalCustomerStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life(subscription: 0, token: .given)
        life.customer.statesAppTransaction = draw.random.chance(50)
        let start = draw.start()
        life.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), draw.period()), at: start)
        draw.renew(&life, 1...3)
        // They share a range of ids.
        var identifiers = Identifiers(seed: draw.seed, index: draw.index, subscription: 1)
        let coins = (0..<10).map { _ in
            let bought = draw.between(start, life.expiry)
            var purchase = OneTimeLife(
                buying: .consumable(of: draw.app), quantity: draw.count(1...3), at: bought, customer: life.customer,
                identifiers: identifiers, signingLagMilliseconds: draw.lag())
            if draw.random.chance(20) {
                purchase.refund(at: draw.between(bought, bought.advanced(byMilliseconds: 30 * Draw.dayMilliseconds)))
            }
            identifiers = purchase.identifiers
            return SimulatedSubscription(purchase)
        }
        draw.goOn(&life)
        let subscriptions = [SimulatedSubscription(life)] + coins
        return RenderedStory(
            self, subscriptions, customers: [SimulatedCustomer(subscriptions: Array(subscriptions.indices))])
    }

    /// Twelve people who have the same plan at once, and an app that gives one token to everybody.
    func sharedTokenStory(_ draw: inout Draw) -> RenderedStory {
        let product = draw.product(draw.one(of: [.plus, .premium]), draw.period())
        let start = draw.start()
        var everybody: Customer?
        let subscriptions = (0..<12).map { number in
            var life = draw.life(subscription: number, token: everybody.map { Draw.Token.of($0) } ?? .given)
            life.customer.hasTokenOfEverybody = true
            everybody = life.customer
            life.subscribe(to: product, at: start.advanced(byMilliseconds: Int64(number) * 60_000))
            if draw.random.chance(40) {
                life.switchOff(at: draw.within(life))
                life.runOut()
            }
            return SimulatedSubscription(life)
        }
        return RenderedStory(self, subscriptions)
    }
}

// MARK: - Commitments

extension Story {
    /// A yearly plan that is billed monthly, with what differs from other plans.
    func longCommitmentStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life()
        life.billingPlan = .monthly
        life.subscribe(to: draw.product(.premium, .yearly), at: draw.start())
        guard self != .commitmentCancelled else {
            let before = draw.count(0...4)
            draw.renew(&life, before...before)
            life.cancelCommitment(at: draw.within(life))
            // The commitment is fulfilled with the twelfth charge.
            draw.renew(&life, (11 - before)...(11 - before))
            life.endCommitment()
            return RenderedStory(self, [SimulatedSubscription(life)])
        }
        draw.renew(&life, 0...3)
        let due = life.expiry
        if draw.random.chance(50) {
            life.failToRenew(graceDays: draw.graceDays(.monthly))
            life.endGrace()
        } else {
            life.failToRenew()
        }
        guard self == .commitmentRecovered else {
            life.giveUp()
            return RenderedStory(self, [SimulatedSubscription(life)])
        }
        let others = SubscriptionLife.retryDays(nil) * Draw.dayMilliseconds
        let own = life.retryDays * Draw.dayMilliseconds
        life.recover(at: draw.between(due.advanced(byMilliseconds: others), due.advanced(byMilliseconds: own)))
        draw.renew(&life, 0...1)
        return RenderedStory(self, [SimulatedSubscription(life)])
    }
}
