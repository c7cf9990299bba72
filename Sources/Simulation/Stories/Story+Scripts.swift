import Encoding

extension Story {
    /// Runs the story with the random choices of the draw.
    func render(_ draw: inout Draw) -> RenderedStory {
        switch self {
        case .family: return familyStory(&draw)
        case .monthlyCommitment: return commitmentStory(&draw)
        case .oneTimePurchase: return oneTimeStory(&draw)
        case .sharedAccountToken: return accountTokenStory(&draw)
        case .sharedAppleAccount: return appleAccountStory(&draw)
        case .restored: return restoredStory(&draw)
        case .boughtAgain: return boughtAgainStory(&draw)
        case .linked: return linkedStory(&draw)
        case .linkMoved: return movedLinkStory(&draw)
        case .sharedDevice: return sharedDeviceStory(&draw)
        case .upgradeByAnotherUser: return otherUpgradeStory(&draw)
        case .accountTokenSetLate: return lateTokenStory(&draw)
        case .usersOfAppleAccount: return twoUsersStory(&draw)
        case .transfer: return transferStory(&draw)
        case .tokenAndLink: return tokenAndLinkStory(&draw)
        case .seats: return seatsStory(&draw)
        case .seatsRefunded, .seatsUnclaimed: return purchaserStory(&draw)
        case .commitmentCancelled, .commitmentRecovered, .commitmentLost: return longCommitmentStory(&draw)
        case .moved, .movedBack: return movedStory(&draw)
        case .loyalCustomer: return loyalCustomerStory(&draw)
        case .tokenOfEverybody: return sharedTokenStory(&draw)
        default:
            var life = draw.life()
            let period = draw.period()
            begin(&life, period, &draw)
            if draw.renewsUntilStory(&life) { run(&life, period, &draw) }
            draw.goOn(&life)
            return RenderedStory(self, [SimulatedSubscription(life)])
        }
    }

    /// Makes the first purchase, and some renewals if the story allows them.
    private func begin(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        let start = draw.start()
        switch self {
        case .trialConversion:
            let trial = draw.one(of: ["P3D", "P1W", "P2W", "P1M"])
            life.subscribe(
                to: draw.product(.plus, period), at: start, offer: Offer(.introductory, "FREE_TRIAL", period: trial))
        case .switchOffAndExpire:
            let trial = draw.random.chance(40) ? Offer(.introductory, "FREE_TRIAL", period: "P1W") : nil
            life.subscribe(to: draw.product(.plus, period), at: start, offer: trial)
            if trial == nil { draw.renew(&life, 0...2) }
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

    private func run(_ life: inout SubscriptionLife, _ period: Period, _ draw: inout Draw) {
        switch self {
        case .graceRecovered, .graceExpiredThenRecovered, .retryRecovered, .retryNeverRecovered, .switchOffInGrace,
            .planBoughtInGrace, .graceEndedEarly:
            runBillingIssue(&life, period, &draw)
        case .refundOfOldPeriod, .refundOfCurrentPeriod, .proratedRefund, .refundDeclined, .refundReversed,
            .refundAtOnce:
            runRefund(&life, &draw)
        case .upgrade, .upgradeThenRefund, .downgrade, .crossgrade, .offerRedeemed:
            runPlanChange(&life, period, &draw)
        case .switchOffAndOn, .switchOffAndExpire, .resubscribeSame, .resubscribeOther, .priceRiseAccepted,
            .priceRiseRefused, .notForSale:
            runExpiry(&life, period, &draw)
        case .extension:
            life.extend(byDays: draw.count(3...30), at: draw.within(life))
            draw.renew(&life, 0...1)
        case .trialConversion, .renewals: draw.renew(&life, 1...5)
        case .family, .monthlyCommitment, .oneTimePurchase, .sharedAccountToken, .sharedAppleAccount, .restored,
            .boughtAgain, .linked, .linkMoved, .sharedDevice, .upgradeByAnotherUser, .accountTokenSetLate,
            .usersOfAppleAccount, .transfer, .tokenAndLink, .seats, .seatsRefunded, .seatsUnclaimed,
            .commitmentCancelled, .commitmentRecovered, .commitmentLost, .moved, .movedBack, .loyalCustomer,
            .tokenOfEverybody:
            break
        }
    }
}

extension Draw {
    /// Renews a random number of times, a third of them charged before the end of the previous period.
    mutating func renew(_ life: inout SubscriptionLife, _ times: ClosedRange<Int>) {
        for _ in 0..<count(times) {
            let early = Int64.random(in: 60...82_800, using: &random) * 1000
            life.renew(charged: random.chance(33) ? life.expiry.advanced(byMilliseconds: -early) : nil)
        }
    }
}

// MARK: - Stories with two subscriptions or purchases

extension Story {
    private func familyStory(_ draw: inout Draw) -> RenderedStory {
        var purchaser = draw.life(subscription: 0)
        // The member's purchases have the purchaser's `appAccountToken`, but the member's own `appTransactionId`.
        var member = draw.life(subscription: 1, isFamilyMember: true, token: .of(purchaser.customer))
        let product = draw.product(.premium, draw.period())
        let start = draw.start()
        purchaser.subscribe(to: product, at: start)
        member.subscribe(to: product, at: start)
        for _ in 0..<draw.count(0...2) {
            purchaser.renew()
            member.renew()
        }
        member.revokeMember(at: draw.within(member))
        draw.renew(&purchaser, 0...2)
        draw.goOn(&purchaser)
        return RenderedStory(self, [SimulatedSubscription(purchaser), SimulatedSubscription(member)])
    }

    private func commitmentStory(_ draw: inout Draw) -> RenderedStory {
        let product = draw.product(.premium, .yearly)
        var monthly = draw.life(subscription: 0)
        monthly.billingPlan = .monthly
        monthly.subscribe(to: product, at: draw.start())
        // The commitment is fulfilled with the twelfth charge.
        draw.renew(&monthly, 11...11)
        var upFront = draw.life(subscription: 1)
        upFront.billingPlan = .upFront
        upFront.subscribe(to: product, at: draw.start())
        return RenderedStory(self, [SimulatedSubscription(monthly), SimulatedSubscription(upFront)])
    }

    private func oneTimeStory(_ draw: inout Draw) -> RenderedStory {
        let products = [Product.nonConsumable(of: draw.app), .consumable(of: draw.app)]
        let purchases = products.enumerated().map { number, product in
            let identifiers = Identifiers(seed: draw.seed, index: draw.index, subscription: number)
            let start = draw.start()
            var life = OneTimeLife(
                buying: product, quantity: product.kind == .consumable ? draw.count(1...5) : 1, at: start,
                customer: draw.customer(identifiers), identifiers: identifiers, signingLagMilliseconds: draw.lag())
            if draw.random.chance(40) { life.refund(at: draw.between(start, draw.window.end)) }
            return SimulatedSubscription(life)
        }
        return RenderedStory(self, purchases)
    }
}
