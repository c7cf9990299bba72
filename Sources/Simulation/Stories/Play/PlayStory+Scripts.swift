import Encoding

extension PlayStory {
    /// Runs the story.
    ///
    /// - Parameter draw: Makes the random choices of a subscription or one-time purchase by its number.
    func render(_ draw: (_ life: Int) -> PlayDraw) -> RenderedPlayStory {
        var first = draw(0)
        switch self {
        case .resubscribed, .resubscribedInPlay: return resubscription(&first, draw(1))
        case .oneTimePurchase, .oneTimePending: return oneTime(draw)
        case .loyalCustomer: return loyalCustomer(&first, draw(1))
        case .accountOfEverybody: return accountOfEverybody(&first)
        default: break
        }
        var life = begin(&first)
        guard !life.isClosed else { return RenderedPlayStory(self, [life]) }
        // A chain of tokens begins with the purchase.
        if self == .tokenChain || first.renewsUntilStory(&life) { run(&life, &first) }
        if !hasEnded(life) { first.finish(&life) }
        return RenderedPlayStory(self, [life])
    }

    private func run(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        switch self {
        case .graceRecovered, .graceNotRecovered, .cancelledInGrace, .holdRecovered, .holdEnded, .holdWithoutGrace,
            .cancelledInHold:
            failPayment(&life, &draw)
        case .paused, .pauseWithdrawn, .resumeFailed: pause(&life, &draw)
        case .upgrade, .upgradeFullPeriod, .downgradeDeferred, .tokenChain, .upgradeByAnotherUser, .accountMissing,
            .pendingChangePaid, .pendingChangeCancelled:
            changePlan(&life, &draw)
        case .refundOfNewest, .refundOfOlder, .refundWithoutRevoke, .voidedWhileActive, .chargeBack, .refundByAmount:
            refund(&life, &draw)
        case .prepaid, .installments, .addOns, .priceChange, .deferral: useTerms(&life, &draw)
        case .pendingPaid, .pendingCancelled: awaitPayment(&life, &draw)
        case .cancelled, .restarted: cancel(&life, &draw)
        case .endedEarly:
            draw.renew(&life, 0...2)
            let ended = draw.within(life)
            life.endEarly(showsEnd: draw.random.chance(60), at: ended)
        case .renewals, .trial, .introductoryPrice, .promotion, .testPurchase, .unacknowledged:
            draw.renew(&life, self == .testPurchase ? 2...6 : 1...4)
        case .resubscribed, .resubscribedInPlay, .oneTimePurchase, .oneTimePending, .loyalCustomer,
            .accountOfEverybody:
            break
        }
    }

    func hasEnded(_ life: PlayLife) -> Bool {
        guard let state = life.purchases.last?.history.last?.book.state else { return true }
        return ![.active, .canceled].contains(state)
    }

    /// Makes the first purchase, and some renewals if the story allows them.
    private func begin(_ draw: inout PlayDraw) -> PlayLife {
        let plan = firstPlan(&draw)
        var details = PlayLife.Details()
        switch self {
        case .trial: details.offer = .freeTrial(draw.one(of: [.weekly, .monthly]))
        case .introductoryPrice: details.offer = .introductoryPrice(.monthly)
        case .promotion: details.isPromotion = true
        case .pendingPaid, .pendingCancelled: details.isPending = true
        default: break
        }
        let graceDays = self == .holdWithoutGrace || self == .holdEnded ? 0 : draw.graceDays(plan.period)
        var life = draw.newLife(isTest ? .test : PlayTerms(graceDays: graceDays))
        let start = draw.start()
        switch self {
        case .addOns: life.buy([plan, PlayPlan(.audio, plan.period)], at: start, details)
        default: life.buy(plan, at: start, details)
        }
        switch self {
        case .graceRecovered, .graceNotRecovered, .cancelledInGrace, .holdRecovered, .holdEnded, .holdWithoutGrace,
            .cancelledInHold, .paused, .pauseWithdrawn, .resumeFailed, .upgrade, .upgradeFullPeriod,
            .downgradeDeferred, .refundOfNewest, .chargeBack, .cancelled, .restarted, .voidedWhileActive:
            draw.renew(&life, 0...2)
        case .refundOfOlder, .refundWithoutRevoke, .refundByAmount: draw.renew(&life, 1...4)
        default: break
        }
        return life
    }

    private func firstPlan(_ draw: inout PlayDraw) -> PlayPlan {
        switch self {
        case .prepaid: PlayPlan(.plus, draw.one(of: [.weekly, .monthly]), .prepaid)
        case .installments: PlayPlan(.premium, .yearly, .installments(draw.one(of: [3, 6, 12])))
        case .downgradeDeferred: PlayPlan(.premium, draw.period())
        case .upgrade, .upgradeFullPeriod, .upgradeByAnotherUser, .accountMissing, .pendingChangePaid,
            .pendingChangeCancelled, .tokenChain:
            PlayPlan(.plus, draw.period())
        default: draw.plan()
        }
    }
}

// MARK: - Failed payments

extension PlayStory {
    private func failPayment(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let due = life.paidEnd
        life.failToRenew()
        if self == .graceRecovered || self == .cancelledInGrace {
            let at = draw.between(due.advanced(byMilliseconds: 60_000), life.graceEnd ?? due)
            if self == .cancelledInGrace { return life.cancel(at: at) }
            life.recover(at: at)
            return draw.renew(&life, 0...2)
        }
        life.enterHold()
        let begin = (life.graceEnd ?? due).advanced(byMilliseconds: 2 * Draw.dayMilliseconds)
        switch self {
        case .holdRecovered, .holdWithoutGrace:
            life.recover(at: draw.between(begin, life.holdEnd))
            draw.renew(&life, 0...1)
        case .cancelledInHold: life.cancel(at: draw.between(begin, life.holdEnd))
        default: life.endHold()
        }
    }

    private func pause(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let planned = draw.within(life)
        let length = life.plan.period == .weekly ? Period.weekly : .monthly
        life.planPause(length.duration, at: planned)
        if self == .pauseWithdrawn {
            life.planPause(nil, at: draw.between(planned, life.paidEnd))
            return draw.renew(&life, 1...2)
        }
        life.pause(showsResume: draw.random.chance(50))
        guard !life.isClosed else { return }
        let resume = life.resumeTime
        if self == .resumeFailed {
            life.failToResume()
            life.recover(at: draw.between(resume.advanced(byMilliseconds: Draw.dayMilliseconds), life.holdEnd))
        } else {
            // By the user, or by itself.
            life.recover(at: draw.random.chance(50) ? resume : draw.between(life.paidEnd, resume))
        }
        draw.renew(&life, 0...1)
    }
}

// MARK: - Changes of the plan

extension PlayStory {
    private func changePlan(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let period = life.plan.period
        let upgrade = PlayPlan(.premium, period)
        var details = PlayLife.Details()
        switch self {
        case .upgradeFullPeriod:
            life.replace(with: upgrade, .fullPeriod, at: draw.within(life))
        case .downgradeDeferred:
            let at = draw.within(life)
            life.replaceLater(with: PlayPlan(.plus, period), showsExpiry: draw.random.chance(50), at: at)
        case .tokenChain:
            for number in 0..<draw.count(10...50) {
                let start = life.book.startTime ?? life.paidEnd
                let left = life.paidEnd.milliseconds - start.milliseconds
                let at = start.advanced(byMilliseconds: max(60_000, left / 60))
                life.replace(with: number % 2 == 0 ? upgrade : PlayPlan(.plus, period), at: at)
            }
        case .pendingChangePaid, .pendingChangeCancelled:
            let asked = draw.within(life)
            let decided = draw.between(asked, life.paidEnd)
            details.isPending = true
            life.replace(with: upgrade, at: asked, details)
            guard !life.isClosed else { return }
            if self == .pendingChangePaid { life.payPending(at: decided) } else { life.cancelPending(at: decided) }
        case .upgradeByAnotherUser:
            details.account = PlayAccount(obfuscatedAccountId: draw.userId())
            life.replace(with: upgrade, at: draw.within(life), details)
        case .accountMissing:
            details.account = PlayAccount.none
            life.replace(with: upgrade, at: draw.within(life), details)
        default: life.replace(with: upgrade, at: draw.within(life))
        }
        draw.renew(&life, 1...2)
    }

    private func cancel(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let at = draw.within(life)
        life.cancel(by: draw.random.chance(20) ? .developer : .user, reason: "TECHNICAL_ISSUES", at: at)
        guard self == .restarted else { return life.expire() }
        life.restart(at: draw.between(at, life.paidEnd))
        draw.renew(&life, 1...2)
    }
}

// MARK: - Refunds

extension PlayStory {
    private func refund(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let paid = life.orders.filter { $0.state(at: .latest) == .processed }.map(\.orderId)
        switch self {
        case .refundOfOlder:
            life.refund(draw.one(of: Array(paid.dropLast())), at: draw.within(life))
            draw.renew(&life, 0...1)
        case .refundWithoutRevoke:
            life.refundWithoutRevoke(draw.one(of: paid), at: draw.within(life))
            draw.renew(&life, 0...1)
        case .refundByAmount:
            // The audit compares the newest two.
            let order = draw.one(of: Array(paid.suffix(2)))
            let price = life.orders.first { $0.orderId == order }?.total ?? 0
            var at = draw.within(life)
            for _ in 0..<draw.count(1...2) {
                life.refund(amount: price / Int64(draw.count(4...9)), of: order, at: at)
                at = draw.between(at, life.paidEnd)
            }
            if order == paid.last { draw.renew(&life, 0...1) }
        case .voidedWhileActive:
            life.refund(source: .google, reason: .fraud, staysActive: true, at: draw.within(life))
            life.runOutAfterVoid()
        case .chargeBack:
            let asked = draw.within(life)
            life.askAboutChargeBack(at: asked)
            life.refund(source: .user, reason: .chargeBack, at: draw.between(asked, life.paidEnd))
        default: life.refund(at: draw.within(life))
        }
    }
}

// MARK: - Terms

extension PlayStory {
    private func useTerms(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        switch self {
        case .prepaid:
            for _ in 0..<draw.count(1...3) { life.topUp(at: draw.within(life)) }
            life.expire()
        case .installments:
            let count = life.book.items[0].installments?.committed ?? 1
            draw.renew(&life, (count - 2)...(count - 2))
            life.cancelCommitment(at: draw.within(life))
            draw.renew(&life, 1...1)
            life.endCommitment()
        case .addOns:
            draw.renew(&life, 0...1)
            life.removeItem(Product.Tier.audio.rawValue, at: draw.within(life))
            draw.renew(&life, 1...2)
        case .priceChange:
            let asked = draw.within(life)
            life.changePrice(isConfirmed: false, at: asked)
            life.changePrice(isConfirmed: true, at: draw.between(asked, life.paidEnd))
            draw.renew(&life, 1...2)
        default:
            life.defer(by: .seconds(86_400 * draw.count(2...30)), at: draw.within(life))
            draw.renew(&life, 0...1)
        }
    }

    private func awaitPayment(_ life: inout PlayLife, _ draw: inout PlayDraw) {
        let asked = life.current.history[0].at
        let decided = draw.between(asked, asked.advanced(byMilliseconds: 3 * Draw.dayMilliseconds))
        guard self == .pendingPaid else { return life.cancelPending(at: decided) }
        life.payPending(at: decided)
        draw.renew(&life, 1...2)
    }
}
