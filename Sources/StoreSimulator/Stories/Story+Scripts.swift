import Subscriptions

extension Story {
    /// Lives the story, with what chance draws for it.
    func tell(_ draw: inout Draw) -> ToldStory {
        switch self {
        case .family: return familyLines(&draw)
        case .oneTimePurchase: return oneTimeLines(&draw)
        case .sharedAccountToken: return accountTokenLines(&draw)
        case .sharedAppleAccount: return appleAccountLines(&draw)
        case .restored: return restoredLines(&draw)
        case .boughtAnew: return boughtAnewLines(&draw)
        case .linked: return linkedLines(&draw)
        case .linkMoved: return movedLines(&draw)
        default:
            var life = draw.life()
            let period = draw.period()
            begin(&life, period, &draw)
            goOn(&life, period, &draw)
            return ToldStory(self, [ToldLine(life)])
        }
    }

    /// The purchase, and some renewals where they make no difference.
    private func begin(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        let start = draw.start()
        switch self {
        case .trialConversion:
            let trial = draw.one(of: ["P3D", "P1W", "P2W", "P1M"])
            life.subscribe(
                to: draw.product(.plus, period), at: start, offer: Offer(.introductory, "FREE_TRIAL", period: trial))
        case .monthlyCommitment:
            life.isCommitted = true
            life.subscribe(to: draw.product(.premium, draw.isHasty ? .weekly : .monthly), at: start)
        case .upgrade, .upgradeThenRefund, .offerRedeemed:
            life.subscribe(to: draw.product(draw.one(of: [.basic, .plus]), period), at: start)
        case .refundOfOldPeriod:
            life.subscribe(to: draw.product(.plus, period), at: start)
            draw.renew(&life, 1...4)
        default:
            life.subscribe(to: draw.product(draw.one(of: [.plus, .premium]), period), at: start)
            draw.renew(&life, 0...2)
        }
    }

    private func goOn(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        switch self {
        case .graceRecovered, .graceExpiredThenRecovered, .retryRecovered, .retryNeverRecovered, .switchOffInGrace:
            failToPay(&life, period, &draw)
        case .refundOfOldPeriod, .refundOfCurrentPeriod, .proratedRefund, .refundDeclined, .refundReversed:
            payBack(&life, &draw)
        case .upgrade, .upgradeThenRefund, .downgrade, .crossgrade, .offerRedeemed:
            changePlan(&life, period, &draw)
        case .switchOffAndOn, .switchOffAndExpire, .resubscribeSame, .resubscribeOther, .priceRiseAccepted,
            .priceRiseRefused, .notForSale:
            endOrNot(&life, period, &draw)
        case .extension:
            life.extend(byDays: draw.count(3...30), at: draw.within(life))
            draw.renew(&life, 0...1)
        case .trialConversion, .renewals, .monthlyCommitment: draw.renew(&life, 1...5)
        case .family, .oneTimePurchase, .sharedAccountToken, .sharedAppleAccount, .restored, .boughtAnew, .linked,
            .linkMoved:
            break
        }
    }
}

extension Draw {
    /// Some renewals, a third of them charged before the end of the period before.
    mutating func renew(_ life: inout SubscriptionLife, _ times: ClosedRange<Int>) {
        for _ in 0..<count(times) {
            let early = Int64.random(in: 60...82_800, using: &random) * 1000
            life.renew(charged: random.chance(33) ? life.expiry.advanced(byMilliseconds: -early) : nil)
        }
    }
}

// MARK: - Two lines

extension Story {
    private func familyLines(_ draw: inout Draw) -> ToldStory {
        var purchaser = draw.life(line: 0)
        // What the purchaser's app named stands on the member's purchases too; the account is the member's own.
        var member = draw.life(line: 1, isFamilyMember: true, token: .of(purchaser.customer))
        let product = draw.product(.premium, draw.period())
        let start = draw.start()
        purchaser.subscribe(to: product, at: start)
        member.subscribe(to: product, at: start)
        for _ in 0..<draw.count(0...2) {
            purchaser.renew()
            member.renew()
        }
        member.revokeFamilyAccess(at: draw.within(member))
        draw.renew(&purchaser, 0...2)
        return ToldStory(self, [ToldLine(purchaser), ToldLine(member)])
    }

    private func oneTimeLines(_ draw: inout Draw) -> ToldStory {
        let products = [Product.nonConsumable(of: draw.app), .consumable(of: draw.app)]
        let lines = products.enumerated().map { line, product in
            let identifiers = Identifiers(seed: draw.seed, index: draw.index, line: line)
            let start = draw.start()
            var life = OneTimeLife(
                buying: product, quantity: product.kind == .consumable ? draw.count(1...5) : 1, at: start,
                customer: draw.customer(identifiers), identifiers: identifiers, signingLagMilliseconds: draw.lag())
            if draw.random.chance(40) { life.refund(at: draw.between(start, Draw.window.upperBound)) }
            return ToldLine(life)
        }
        return ToldStory(self, lines)
    }
}
