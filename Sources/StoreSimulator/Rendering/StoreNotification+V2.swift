import Encoding

extension StoreNotification {
    /// The notification of version 2; nil if only version 1 sends it.
    package func version2Notification(app: SimulatedApp, customer: Customer) -> V2Notification? {
        guard let name = version2 else { return nil }
        var data = V2Data(app: app)
        data.transaction = transaction(app, customer)
        data.renewalInfo = renewalPreference.map { renewalInfo($0, app, customer) }
        data.status = status?.rawValue
        data.consumptionRequestReason = consumptionRequestReason
        return V2Notification(
            name.type, name.subtype, notificationUUID: notificationUUID, signedDate: signedDate, content: .data(data))
    }

    private func transaction(_ app: SimulatedApp, _ customer: Customer) -> V2Transaction {
        var payload = V2Transaction()
        payload.transactionId = subject.transactionId
        payload.originalTransactionId = purchases.first?.transactionId
        payload.webOrderLineItemId = subject.webOrderLineItemId
        payload.bundleId = app.bundleId
        payload.productId = subject.product.id
        payload.subscriptionGroupIdentifier = subject.product.subscriptionGroup
        payload.purchaseDate = subject.purchaseDate
        payload.originalPurchaseDate = purchases.first?.purchaseDate
        payload.expiresDate = subject.expiresDate
        payload.quantity = subject.quantity
        payload.type = subject.product.kind.rawValue
        payload.appAccountToken = subject.appAccountToken
        payload.inAppOwnershipType = customer.ownership
        payload.signedDate = signedDate
        payload.revocationReason = subject.revocation?.reason
        payload.revocationDate = subject.revocation?.date
        payload.revocationType = subject.revocation?.kind.rawValue
        payload.revocationPercentage = subject.revocation?.percentage
        payload.isUpgraded = subject.upgradedAt == nil ? nil : true
        payload.offerType = subject.offer?.kind.rawValue
        payload.offerIdentifier = subject.offer?.identifier
        payload.offerDiscountType = subject.offer?.discountType
        payload.offerPeriod = subject.offer?.periodText
        payload.environment = app.environmentName
        payload.storefront = customer.storefront.country
        payload.storefrontId = customer.storefront.id
        payload.transactionReason = subject.reason.rawValue
        payload.price = subject.price
        payload.currency = customer.storefront.currency
        payload.appTransactionId = customer.appTransactionId
        payload.billingPlanType = subject.billingPlan?.rawValue
        payload.commitment = subject.commitment
        return payload
    }

    private func renewalInfo(
        _ preference: RenewalPreference, _ app: SimulatedApp, _ customer: Customer
    ) -> V2RenewalInfo {
        var payload = V2RenewalInfo()
        payload.originalTransactionId = purchases.first?.transactionId
        payload.autoRenewProductId = preference.nextProduct.id
        payload.productId = preference.product.id
        payload.autoRenewStatus = preference.isOn ? 1 : 0
        payload.expirationIntent = preference.expiration?.rawValue
        payload.isInBillingRetryPeriod = preference.isInBillingRetry
        payload.gracePeriodExpiresDate = preference.graceEnd
        payload.priceIncreaseStatus = preference.priceConsent
        payload.offerType = preference.offer?.kind.rawValue
        payload.offerIdentifier = preference.offer?.identifier
        payload.offerDiscountType = preference.offer?.discountType
        payload.offerPeriod = preference.offer?.periodText
        payload.recentSubscriptionStartDate = preference.streakStart
        payload.renewalDate = preference.renewalDate
        payload.currency = customer.storefront.currency
        payload.renewalPrice = preference.price
        payload.appAccountToken = purchases.last?.appAccountToken
        payload.appTransactionId = customer.appTransactionId
        payload.signedDate = signedDate
        payload.environment = app.environmentName
        payload.renewalBillingPlanType = purchases.last?.billingPlan?.rawValue
        return payload
    }
}
