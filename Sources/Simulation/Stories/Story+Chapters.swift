import Encoding

// MARK: - Failed renewals

extension Story {
    func runBillingIssue(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        let due = life.expiry
        let lastTry = due.advanced(byMilliseconds: 59 * Draw.dayMilliseconds)
        var graceEnd = due
        if self != .retryRecovered, self != .retryNeverRecovered || draw.random.chance(50) {
            life.failToRenew(graceDays: draw.graceDays(period))
            graceEnd = life.currentPreference.graceEnd ?? due
        } else {
            life.failToRenew()
        }
        switch self {
        case .graceRecovered:
            let shown = draw.one(of: SubscriptionLife.RecoveryDate.allCases)
            life.recover(at: draw.between(due, graceEnd), shownAs: shown)
            draw.renew(&life, 0...2)
        case .switchOffInGrace: life.switchOff(at: draw.between(due, graceEnd))
        case .planBoughtInGrace:
            let others = [Product.Tier.basic, .plus, .premium].map { draw.product($0, period) }
            life.buyInGrace(
                draw.one(of: others.filter { $0 != life.current.product }), at: draw.between(due, graceEnd))
            draw.renew(&life, 0...2)
        case .graceEndedEarly:
            let ended = draw.between(due, graceEnd)
            life.endGraceEarly(at: ended, statesEnd: draw.random.chance(60))
            guard draw.random.chance(60) else { return life.giveUp() }
            life.recover(at: draw.between(ended, lastTry))
            draw.renew(&life, 0...1)
        case .retryNeverRecovered:
            if graceEnd > due { life.endGrace() }
            life.giveUp()
        default:
            if graceEnd > due { life.endGrace() }
            life.recover(at: draw.between(graceEnd, lastTry))
            draw.renew(&life, 0...1)
        }
    }
}

// MARK: - Refunds

extension Story {
    func runRefund(_ life: inout SubscriptionLife, _ draw: inout Draw) {
        let current = life.current
        switch self {
        case .refundOfOldPeriod:
            let old = draw.one(of: life.purchases.dropLast().map(\.transactionId))
            life.refund(old, at: draw.within(life), wasRequestedInApp: draw.random.chance(30))
            draw.renew(&life, 0...1)
        case .refundAtOnce: life.refundAtOnce(at: draw.within(life))
        case .refundOfCurrentPeriod:
            life.refund(at: draw.within(life), wasRequestedInApp: draw.random.chance(50))
        case .proratedRefund: life.refundRest(at: draw.within(life), percentage: 1000 * draw.count(10...90))
        case .refundDeclined:
            let requested = draw.within(life)
            life.declineRefund(requested: requested, declined: draw.between(requested, life.expiry))
            draw.renew(&life, 0...1)
        default:
            let refunded = draw.within(life)
            life.refund(at: refunded)
            let latest = refunded.advanced(byMilliseconds: 30 * Draw.dayMilliseconds)
            let reversed = draw.between(refunded, latest)
            life.reverseRefund(of: current.transactionId, at: reversed)
            if reversed < life.expiry { life.runOut() }
        }
    }
}

// MARK: - Plan changes

extension Story {
    func runPlanChange(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        switch self {
        case .upgrade:
            life.upgrade(to: draw.product(.premium, period), at: draw.within(life))
            draw.renew(&life, 0...2)
        case .upgradeThenRefund:
            life.upgrade(to: draw.product(.premium, period), at: draw.within(life))
            life.refund(at: draw.within(life), wasRequestedInApp: draw.random.chance(30))
        case .downgrade:
            let was = life.current.product
            let chosen = draw.within(life)
            life.chooseNext(draw.product(.basic, period), at: chosen)
            if draw.random.chance(25) { life.chooseNext(was, at: draw.between(chosen, life.expiry)) }
            draw.renew(&life, 1...2)
        case .crossgrade:
            if draw.random.chance(50) {
                life.upgrade(to: draw.product(.sport, period), at: draw.within(life))
            } else {
                life.chooseNext(
                    draw.product(.sport, period == .weekly ? .monthly : .weekly), at: draw.within(life))
            }
            draw.renew(&life, 1...2)
        default:
            let kind = draw.one(of: [Offer.Kind.promotional, .code])
            let offer = Offer(kind, "PAY_UP_FRONT", period: "P2W", identifier: "spring")
            if draw.random.chance(50) {
                life.upgrade(to: draw.product(.premium, period), at: draw.within(life), offer: offer)
            } else {
                life.redeem(offer, at: draw.within(life))
            }
            draw.renew(&life, 1...2)
        }
    }
}

// MARK: - Expiry and resubscription

extension Story {
    func runExpiry(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        switch self {
        case .switchOffAndOn:
            let off = draw.within(life)
            life.switchOff(at: off)
            life.switchOn(at: draw.between(off, life.expiry))
            draw.renew(&life, 1...2)
        case .priceRiseAccepted:
            let asked = draw.within(life)
            life.announcePriceIncrease(at: asked)
            life.acceptPriceIncrease(at: draw.between(asked, life.expiry))
            draw.renew(&life, 1...2)
        case .priceRiseRefused:
            life.announcePriceIncrease(at: draw.within(life))
            life.endForPrice()
        case .notForSale: life.goOffSale()
        default:
            life.switchOff(at: draw.within(life))
            life.runOut()
            guard self != .switchOffAndExpire else { return }
            let latest = life.expiry.advanced(byMilliseconds: Int64(draw.count(5...90)) * Draw.dayMilliseconds)
            let product = self == .resubscribeSame ? life.current.product : draw.product(.basic, period)
            let offer = Offer(.winBack, "PAY_UP_FRONT", period: period.durationText, identifier: "come-back")
            life.resubscribe(
                to: product, at: draw.between(life.expiry, latest), offer: draw.random.chance(30) ? offer : nil)
            draw.renew(&life, 0...1)
        }
    }
}
