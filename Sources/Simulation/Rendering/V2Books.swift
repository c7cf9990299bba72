import Encoding

extension V2Transaction {
    /// Renders a purchase in the books.
    ///
    /// - Parameter original: The first purchase of the subscription.
    init(_ purchase: Purchase, original: Purchase?, app: SimulatedApp, customer: Customer, signedDate: Instant) {
        self.init()
        transactionId = purchase.transactionId
        originalTransactionId = original?.transactionId
        webOrderLineItemId = purchase.webOrderLineItemId
        bundleId = app.bundleId
        productId = purchase.product.id
        subscriptionGroupIdentifier = purchase.product.subscriptionGroup
        purchaseDate = purchase.purchaseDate
        originalPurchaseDate = original?.purchaseDate
        expiresDate = purchase.expiresDate
        quantity = purchase.quantity
        type = purchase.product.kind.rawValue
        appAccountToken = purchase.appAccountToken
        inAppOwnershipType = customer.ownership
        self.signedDate = signedDate
        revocationReason = purchase.revocation?.reason
        revocationDate = purchase.revocation?.date
        revocationType = purchase.revocation?.kind.rawValue
        revocationPercentage = purchase.revocation?.percentage
        isUpgraded = purchase.upgradedAt == nil ? nil : true
        offerType = purchase.offer?.kind.rawValue
        offerIdentifier = purchase.offer?.identifier
        offerDiscountType = purchase.offer?.discountType
        offerPeriod = purchase.offer?.periodText
        environment = app.environmentName
        storefront = customer.storefront.country
        storefrontId = customer.storefront.id
        transactionReason = purchase.reason.rawValue
        price = purchase.price
        currency = customer.storefront.currency
        appTransactionId = customer.statesAppTransaction ? customer.appTransactionId : nil
        billingPlanType = purchase.billingPlan?.rawValue
        commitment = purchase.commitment
        seats = purchase.seats
        showsRevokedSeats = !customer.isMember
    }
}

extension V2RenewalInfo {
    /// Renders the next renewal of a subscription.
    ///
    /// - Parameter purchases: The purchases of the subscription, oldest first.
    init(
        _ preference: RenewalPreference, of purchases: [Purchase], app: SimulatedApp, customer: Customer,
        signedDate: Instant
    ) {
        self.init()
        originalTransactionId = purchases.first?.transactionId
        autoRenewProductId = preference.nextProduct.id
        productId = preference.product.id
        autoRenewStatus = preference.isOn ? 1 : 0
        expirationIntent = preference.expiration?.rawValue
        isInBillingRetryPeriod = preference.isInBillingRetry
        gracePeriodExpiresDate = preference.graceEnd
        priceIncreaseStatus = preference.priceConsent
        offerType = preference.offer?.kind.rawValue
        offerIdentifier = preference.offer?.identifier
        offerDiscountType = preference.offer?.discountType
        offerPeriod = preference.offer?.periodText
        recentSubscriptionStartDate = preference.streakStart
        renewalDate = preference.renewalDate
        currency = customer.storefront.currency
        renewalPrice = preference.price
        appAccountToken = purchases.last?.appAccountToken
        appTransactionId = customer.statesAppTransaction ? customer.appTransactionId : nil
        self.signedDate = signedDate
        environment = app.environmentName
        renewalBillingPlanType = purchases.last?.billingPlan?.rawValue
        seats = preference.seats
        commitment = purchases.last?.commitment.map { commitment in
            V2RenewalInfo.NextCommitment(
                productId: preference.nextProduct.id, isOn: preference.isCommitmentOn,
                billingPlanType: renewalBillingPlanType, date: commitment.expiresDate, price: commitment.price)
        }
    }
}
