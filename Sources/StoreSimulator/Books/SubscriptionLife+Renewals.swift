import Subscriptions

// MARK: - Switching renewal

extension SubscriptionLife {
    /// The customer switches renewal off: access goes on to the end of the period. After a failed renewal it ends at
    /// once, grace included.
    package mutating func switchOff(at instant: Instant) {
        let hadFailed = intended.isInBillingRetry
        let isExpired = hadFailed || instant >= expiry
        setRenewal(false, at: instant)
        if hadFailed {
            access.cutGrace(after: current.transactionId, at: instant)
            intend {
                $0.isInBillingRetry = false
                $0.expiration = .switchedOff
            }
        }
        tell(
            Telling.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"), version1: "DID_CHANGE_RENEWAL_STATUS",
            at: instant, isExpired ? .expired : .active, isPrompt: true)
        if hadFailed { tell(Telling.Name("EXPIRED", "VOLUNTARY"), version1: nil, at: instant, .expired) }
    }

    package mutating func switchOn(at instant: Instant) {
        setRenewal(true, at: instant)
        tell(
            Telling.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED"), version1: "DID_CHANGE_RENEWAL_STATUS",
            at: instant, .active, isPrompt: true)
    }
}

// MARK: - Running out

extension SubscriptionLife {
    /// The end of a period whose renewal was switched off. The date itself ends access; version 1 does not even tell.
    package mutating func runOut() {
        precondition(!intended.isOn, "renewal is on")
        intend { $0.expiration = .switchedOff }
        tell(Telling.Name("EXPIRED", "VOLUNTARY"), version1: nil, at: expiry, .expired)
    }

    /// The end of a period whose product is not sold any more.
    package mutating func goOffSale() {
        intend { $0.expiration = .notForSale }
        tell(Telling.Name("EXPIRED", "PRODUCT_NOT_FOR_SALE"), version1: nil, at: expiry, .expired)
    }
}

// MARK: - Failing to renew

extension SubscriptionLife {
    /// How long the store tries again, in days from the end of the last period paid for.
    static let retryDays: Int64 = 60

    /// The renewal at the end of the current period fails for lack of payment.
    ///
    /// - Parameter graceDays: For how long access goes on; nil when the app grants no grace.
    package mutating func failToRenew(graceDays: Int? = nil) {
        let failed = current
        failures.append(FailedRenewal(transactionId: failed.transactionId, product: failed.product, due: expiry))
        let graceEnd = graceDays.map { expiry.advanced(byMilliseconds: Int64($0) * 86_400_000) }
        if let graceEnd { access.grantGrace(after: failed.transactionId, from: expiry, to: graceEnd) }
        intend {
            $0.isInBillingRetry = true
            $0.expiration = .billing
            $0.graceEnd = graceEnd
        }
        tell(
            Telling.Name("DID_FAIL_TO_RENEW", graceEnd == nil ? nil : "GRACE_PERIOD"), version1: "DID_FAIL_TO_RENEW",
            at: expiry, graceEnd == nil ? .billingRetry : .grace)
    }

    /// Grace is over, and the store goes on trying. Version 1 does not tell.
    package mutating func endGrace() {
        guard let graceEnd = intended.graceEnd else { preconditionFailure("there was no grace") }
        tell(Telling.Name("GRACE_PERIOD_EXPIRED"), version1: nil, at: graceEnd, .billingRetry)
    }

    /// What the store shows as the purchase date of a charge within grace; it is not known which.
    package enum RecoveryDate: Sendable, CaseIterable {
        case payment, endOfFailedPeriod
    }

    /// The charge succeeds after all. Within grace the cycle goes on as if it had succeeded in time, later a new one
    /// begins.
    package mutating func recover(at instant: Instant, shownAs date: RecoveryDate = .payment) {
        let due = expiry
        let product = intended.nextProduct
        precondition(intended.isInBillingRetry && instant > due, "no renewal failed")
        let isInTime = intended.graceEnd.map { instant < $0 } ?? false
        let start = isInTime && date == .endOfFailedPeriod ? due : instant
        failures[failures.count - 1].recovery = isInTime ? .inGrace : .later
        if !isInTime { intend { $0.streakStart = instant } }
        charge(product, from: start, to: Self.end(of: product, from: isInTime ? due : instant), .renewal)
        tell(Telling.Name("DID_RENEW", "BILLING_RECOVERY"), version1: "DID_RECOVER", at: instant, .active)
    }

    /// The store stops trying, after 60 days.
    package mutating func giveUp() {
        let instant = expiry.advanced(byMilliseconds: Self.retryDays * 86_400_000)
        setRenewal(false, at: instant)
        intend {
            $0.isInBillingRetry = false
            $0.expiration = .billing
        }
        tell(
            Telling.Name("EXPIRED", "BILLING_RETRY"), version1: "DID_CHANGE_RENEWAL_STATUS", at: instant, .expired)
    }
}

// MARK: - Rises in price

extension SubscriptionLife {
    /// The store asks whether the customer agrees to a higher price from the next renewal on.
    package mutating func announcePriceIncrease(at instant: Instant) {
        intend {
            $0.priceConsent = 0
            $0.price += $0.price / 5
        }
        tell(Telling.Name("PRICE_INCREASE", "PENDING"), version1: "PRICE_INCREASE_CONSENT", at: instant, .active)
    }

    package mutating func acceptPriceIncrease(at instant: Instant) {
        intend { $0.priceConsent = 1 }
        tell(Telling.Name("PRICE_INCREASE", "ACCEPTED"), version1: nil, at: instant, .active)
    }

    /// The end of a period whose customer refused the price or did not answer.
    package mutating func endForPrice() {
        let instant = expiry
        setRenewal(false, at: instant)
        intend { $0.expiration = .price }
        tell(
            Telling.Name("EXPIRED", "PRICE_INCREASE"), version1: "DID_CHANGE_RENEWAL_STATUS", at: instant, .expired)
    }
}
