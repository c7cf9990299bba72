import Encoding

// MARK: - Many purchases with one account id

extension PlayStory {
    /// Google names no store account, so the ten consumables say nothing about how many people use the account id.
    func loyalCustomer(_ draw: inout PlayDraw, _ drawOfCoins: PlayDraw) -> RenderedPlayStory {
        var second = drawOfCoins
        var life = draw.newLife()
        let start = draw.start()
        life.buy(draw.plan(), at: start)
        draw.renew(&life, 1...3)
        let end = max(life.paidEnd, start.advanced(byMilliseconds: Draw.dayMilliseconds))
        if !hasEnded(life) { draw.finish(&life) }
        let product = Product.consumable(of: draw.settings.bundleId)
        let coins = (0..<10).map { number in
            let bought = second.between(start, end)
            var coins = PlayOneTimeLife(
                buying: product, at: bought, customer: life.customer, identifiers: second.identifiers(part: number),
                isAcknowledgedByApp: second.isAcknowledgedByApp, acknowledged: second.acknowledged,
                lagSeed: second.random.next())
            coins.pay(at: bought)
            coins.finish(at: draw.window.end)
            return coins
        }
        return RenderedPlayStory(self, [life], oneTimePurchases: coins)
    }

    /// Twelve people who have the same plan at once, and an app that gives one account id to everybody.
    func accountOfEverybody(_ draw: inout PlayDraw) -> RenderedPlayStory {
        let plan = draw.plan()
        let start = draw.start()
        let account = PlayAccount(obfuscatedAccountId: draw.userId())
        let lives = (0..<12).map { number in
            var customer = draw.customer()
            customer.account = account
            customer.hasAccountOfEverybody = true
            var life = draw.newLife(customer: customer, part: number)
            life.buy(plan, at: start.advanced(byMilliseconds: Int64(number) * 60_000))
            // Each has a part of the ids of a subscription.
            draw.finish(&life, renewals: 3)
            return life
        }
        return RenderedPlayStory(self, lives)
    }
}
