import Encoding

// MARK: - Auto-renewal

extension SubscriptionLife {
    /// Switches auto-renewal off. Access continues to the end of the period; after a failed renewal it ends at once,
    /// including grace.
    package mutating func switchOff(at instant: Instant) {
        let hadFailed = currentPreference.isInBillingRetry
        let isExpired = hadFailed || instant >= expiry
        setRenewal(false, at: instant)
        if hadFailed {
            access.cutGrace(after: current.transactionId, at: instant)
            updatePreference {
                $0.isInBillingRetry = false
                $0.expiration = .switchedOff
            }
        }
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"),
            version1: "DID_CHANGE_RENEWAL_STATUS", at: instant, isExpired ? .expired : .active, isPrompt: true)
        if hadFailed { send(StoreNotification.Name("EXPIRED", "VOLUNTARY"), version1: nil, at: instant, .expired) }
    }

    package mutating func switchOn(at instant: Instant) {
        setRenewal(true, at: instant)
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED"),
            version1: "DID_CHANGE_RENEWAL_STATUS", at: instant, .active, isPrompt: true)
    }
}

// MARK: - Expiry

extension SubscriptionLife {
    /// Expires a subscription whose auto-renewal is off. The date itself ends access; version 1 sends no notification.
    package mutating func runOut() {
        precondition(!currentPreference.isOn, "auto-renewal is on")
        updatePreference { $0.expiration = .switchedOff }
        send(StoreNotification.Name("EXPIRED", "VOLUNTARY"), version1: nil, at: expiry, .expired)
    }

    /// Expires a subscription whose product is no longer sold.
    package mutating func goOffSale() {
        end(by: .unavailable)
        updatePreference { $0.expiration = .notForSale }
        send(StoreNotification.Name("EXPIRED", "PRODUCT_NOT_FOR_SALE"), version1: nil, at: expiry, .expired)
    }
}

// MARK: - Billing retry

extension SubscriptionLife {
    /// How long the store retries a charge, in days from the end of the last paid period.
    var retryDays: Int64 { Self.retryDays(billingPlan) }

    static func retryDays(_ plan: BillingPlan?) -> Int64 { plan == .monthly ? 90 : 60 }

    /// Fails the renewal at the end of the current period because of a billing issue.
    ///
    /// - Parameter graceDays: The length of the grace period; nil if the app grants none.
    package mutating func failToRenew(graceDays: Int? = nil) {
        let failed = current
        failures.append(FailedRenewal(transactionId: failed.transactionId, product: failed.product, due: expiry))
        let graceEnd = graceDays.map { expiry.advanced(byMilliseconds: Int64($0) * 86_400_000) }
        end(by: .billing)
        if let graceEnd { access.grantGrace(after: failed.transactionId, from: expiry, to: graceEnd) }
        updatePreference {
            $0.isInBillingRetry = true
            $0.expiration = .billing
            $0.graceEnd = graceEnd
        }
        send(
            StoreNotification.Name("DID_FAIL_TO_RENEW", graceEnd == nil ? nil : "GRACE_PERIOD"),
            version1: "DID_FAIL_TO_RENEW", at: expiry, graceEnd == nil ? .billingRetry : .grace)
    }

    /// Ends the grace period; the store keeps retrying. Version 1 sends no notification.
    package mutating func endGrace() {
        guard let graceEnd = currentPreference.graceEnd else { preconditionFailure("there is no grace period") }
        send(StoreNotification.Name("GRACE_PERIOD_EXPIRED"), version1: nil, at: graceEnd, .billingRetry)
    }

    /// Ends the grace period before its end, as the notification says. Version 1 sends no notification.
    ///
    /// - Parameter statesEnd: Whether the notification states the end of grace as before, which it contradicts.
    package mutating func endGraceEarly(at instant: Instant, statesEnd: Bool) {
        guard let graceEnd = currentPreference.graceEnd, instant < graceEnd else {
            preconditionFailure("there is no grace period")
        }
        access.cutGrace(after: current.transactionId, at: instant, .endedByStatus)
        if !statesEnd { updatePreference { $0.graceEnd = nil } }
        send(StoreNotification.Name("GRACE_PERIOD_EXPIRED"), version1: nil, at: instant, .billingRetry, isPrompt: true)
        updatePreference { $0.graceEnd = nil }
        record(at: instant, isNotified: false)
    }

    /// Buys another plan of the group within grace. The store stops to retry the renewal, and grace ends.
    package mutating func buyInGrace(_ product: Product, at instant: Instant) {
        let failed = current
        guard let graceEnd = currentPreference.graceEnd, instant < graceEnd, product != failed.product else {
            preconditionFailure("no other plan can be bought in grace")
        }
        access.cutGrace(after: failed.transactionId, at: instant, .upgraded)
        failures[failures.count - 1].recovery = .inGrace
        charge(product, from: instant, to: end(of: product, from: instant), .purchase)
        let isUpgrade = product.basePrice > failed.product.basePrice
        send(
            isUpgrade
                ? StoreNotification.Name("DID_CHANGE_RENEWAL_PREF", "UPGRADE")
                : StoreNotification.Name("SUBSCRIBED", "RESUBSCRIBE"),
            version1: "INTERACTIVE_RENEWAL", at: instant, .active)
    }

    /// The purchase date of a charge within grace. Apple does not document which one it is.
    package enum RecoveryDate: Sendable, CaseIterable {
        case payment, endOfFailedPeriod
    }

    /// Charges a failed renewal. Within grace the billing cycle continues as if charged on time; later a new cycle
    /// starts.
    package mutating func recover(at instant: Instant, shownAs date: RecoveryDate = .payment) {
        let due = expiry
        let product = currentPreference.nextProduct
        precondition(currentPreference.isInBillingRetry && instant > due, "no renewal has failed")
        let isInTime = currentPreference.graceEnd.map { instant < $0 } ?? false
        let start = isInTime && date == .endOfFailedPeriod ? due : instant
        failures[failures.count - 1].recovery = isInTime ? .inGrace : .later
        if !isInTime { updatePreference { $0.streakStart = instant } }
        charge(product, from: start, to: end(of: product, from: isInTime ? due : instant), .renewal)
        send(StoreNotification.Name("DID_RENEW", "BILLING_RECOVERY"), version1: "DID_RECOVER", at: instant, .active)
    }

    /// Expires the subscription after the store has retried for as long as it does for the plan.
    package mutating func giveUp() {
        let instant = expiry.advanced(byMilliseconds: retryDays * 86_400_000)
        setRenewal(false, at: instant)
        end(by: .billing)
        updatePreference {
            $0.isInBillingRetry = false
            $0.expiration = .billing
        }
        send(
            StoreNotification.Name("EXPIRED", "BILLING_RETRY"), version1: "DID_CHANGE_RENEWAL_STATUS", at: instant,
            .expired)
    }
}

// MARK: - Price increases

extension SubscriptionLife {
    /// Asks the customer to consent to a price that is one fifth higher from the next renewal on.
    package mutating func announcePriceIncrease(at instant: Instant) {
        updatePreference {
            $0.priceConsent = 0
            $0.price += $0.price / 5
        }
        send(
            StoreNotification.Name("PRICE_INCREASE", "PENDING"), version1: "PRICE_INCREASE_CONSENT", at: instant,
            .active)
    }

    package mutating func acceptPriceIncrease(at instant: Instant) {
        updatePreference { $0.priceConsent = 1 }
        send(StoreNotification.Name("PRICE_INCREASE", "ACCEPTED"), version1: nil, at: instant, .active)
    }

    /// Expires a subscription whose customer declined the price increase or did not respond.
    package mutating func endForPrice() {
        let instant = expiry
        setRenewal(false, at: instant)
        end(by: .price)
        updatePreference { $0.expiration = .price }
        send(
            StoreNotification.Name("EXPIRED", "PRICE_INCREASE"), version1: "DID_CHANGE_RENEWAL_STATUS", at: instant,
            .expired)
    }
}
