import Encoding

extension Story {
    /// The purchaser of a group's seats, and two members to whom one seat is assigned, one after the other. Each member
    /// has a transaction of his own, with the purchaser's account token and seats.
    func seatsStory(_ draw: inout Draw) -> RenderedStory {
        var purchaser = draw.life(subscription: 0)
        var first = draw.member(of: purchaser, subscription: 1)
        var second = draw.member(of: purchaser, subscription: 2)
        let product = draw.product(.premium, draw.period())
        let price = purchaser.customer.storefront.price(product)
        let start = draw.start()
        let large = Seats.Tier(price: price, quantity: draw.count(2...10))
        let small = Seats.Tier(price: price * 4 / 5, quantity: draw.count(1...20))
        purchaser.subscribe(to: product, at: start, seats: Seats(draw.random.chance(50) ? [large, small] : [large]))
        let (end, seats) = (purchaser.expiry, purchaser.current.seats)
        let assigned = draw.between(start, end)
        first.subscribe(to: product, at: assigned, until: end, seats: seats)
        let takenBack = draw.between(assigned, end)
        first.revokeMember(at: takenBack)
        second.subscribe(to: product, at: draw.between(takenBack, end), until: end, seats: seats)
        var changed = start
        if draw.random.chance(60) {
            changed = draw.between(changed, end)
            purchaser.addSeats([Seats.Tier(price: price, quantity: draw.count(1...5))], at: changed)
        }
        if draw.random.chance(50) {
            purchaser.chooseSeats([Seats.Tier(price: price, quantity: 2)], at: draw.between(changed, end))
        }
        for _ in 0..<draw.count(0...2) {
            second.updatePreference { $0.seats = purchaser.currentPreference.seats }
            purchaser.renew()
            second.renew()
        }
        return RenderedStory(self, [purchaser, first, second].map { SimulatedSubscription($0) })
    }

    /// The purchaser of seats, of whose members nothing is known.
    func purchaserStory(_ draw: inout Draw) -> RenderedStory {
        var life = draw.life()
        let product = draw.product(.plus, draw.period())
        // The store does not say which of several prices it refunds, so the seats have one.
        func tiers(_ quantity: Int) -> [Seats.Tier] {
            [Seats.Tier(price: life.customer.storefront.price(product), quantity: quantity)]
        }
        let start = draw.start()
        let bought = tiers(draw.count(3...12))
        life.subscribe(to: product, at: start, seats: Seats(bought, self == .seatsUnclaimed ? .developer : .apple))
        draw.renew(&life, 0...1)
        guard self == .seatsRefunded else {
            life.unclaimSeats(draw.count(1...3), at: draw.within(life))
            draw.renew(&life, 1...2)
            return RenderedStory(self, [SimulatedSubscription(life)])
        }
        var changed = life.current.purchaseDate
        if draw.random.chance(60) {
            changed = draw.between(changed, life.expiry)
            life.addSeats(tiers(draw.count(2...5)), at: changed)
            // Sometimes all of the added ones.
            let count = draw.random.chance(40) ? life.current.quantity : 1
            life.refundSeats(count, at: draw.between(changed, life.expiry))
        } else {
            life.refundSeats(draw.count(1...2), at: draw.within(life))
        }
        draw.renew(&life, 0...1)
        return RenderedStory(self, [SimulatedSubscription(life)])
    }
}

extension Draw {
    /// A member to whom a seat of the purchaser can be assigned.
    fileprivate mutating func member(of purchaser: SubscriptionLife, subscription: Int) -> SubscriptionLife {
        var life = life(subscription: subscription, token: .of(purchaser.customer))
        life.customer.isAssigned = true
        return life
    }
}
