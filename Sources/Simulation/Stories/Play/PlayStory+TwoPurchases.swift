import Encoding

// MARK: - Two purchases

extension PlayStory {
    func resubscription(_ draw: inout PlayDraw, _ drawOfSecond: PlayDraw) -> RenderedPlayStory {
        var second = drawOfSecond
        let plan = draw.plan()
        var former = draw.newLife()
        former.buy(plan, at: draw.start())
        draw.renew(&former, 0...1)
        former.cancel(at: draw.within(former))
        former.expire()
        let ended = former.key.statusChanges.last ?? former.paidEnd
        let latest = ended.advanced(byMilliseconds: Int64(draw.count(5...50)) * Draw.dayMilliseconds)
        var life = second.newLife(customer: former.customer)
        var details = PlayLife.Details()
        if self == .resubscribedInPlay {
            details.account = PlayAccount.none
            details.isOutsideApp = true
            let namesToken = second.random.chance(60) || former.customer.account.isEmpty
            details.expiredToken = namesToken ? former.current.token : nil
            details.expiredAccount = former.customer.account
        }
        life.buy(plan, at: second.between(ended, latest), details)
        second.renew(&life, 0...1)
        if !hasEnded(life) { second.finish(&life) }
        return RenderedPlayStory(self, [former, life])
    }

    func oneTime(_ draw: (_ life: Int) -> PlayDraw) -> RenderedPlayStory {
        let purchases = (0..<2).map { number in
            var draw = draw(number)
            let app = draw.settings.bundleId
            let product = number == 0 ? Product.nonConsumable(of: app) : .consumable(of: app)
            let start = draw.start()
            var life = PlayOneTimeLife(
                buying: product, quantity: number == 0 ? 1 : draw.count(3...10), at: start,
                customer: draw.customer(), identifiers: draw.identifiers(),
                isAcknowledgedByApp: draw.isAcknowledgedByApp, acknowledged: draw.acknowledged,
                lagSeed: draw.random.next())
            let later = start.advanced(byMilliseconds: 2 * Draw.dayMilliseconds)
            if self == .oneTimePending, number == 1 {
                life.cancelPending(at: draw.between(start, later))
                return life
            }
            let paid = self == .oneTimePending ? draw.between(start, later) : start
            life.pay(at: paid)
            use(&life, paid, &draw)
            life.finish(at: draw.window.end)
            return life
        }
        return RenderedPlayStory(self, [], oneTimePurchases: purchases)
    }

    private func use(_ life: inout PlayOneTimeLife, _ paid: Instant, _ draw: inout PlayDraw) {
        let month = paid.advanced(byMilliseconds: 30 * Draw.dayMilliseconds)
        guard life.product.kind == .consumable else {
            if draw.random.chance(40) { life.refund(at: draw.between(paid, month)) }
            return
        }
        let refunded = draw.between(paid, month)
        life.refund(units: 2, at: refunded)
        guard draw.random.chance(50) else { return life.consume(at: draw.between(refunded, month)) }
        life.refund(units: life.quantity - 2, at: draw.between(refunded, month))
    }
}
