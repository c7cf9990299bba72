import Subscriptions

/// Maps a V2 `notificationType` and `subtype` to a common kind.
enum V2Kind {
    static func kind(of type: String?, _ subtype: String?) -> EventKind {
        switch (type, subtype) {
        case ("SUBSCRIBED", _), ("ONE_TIME_CHARGE", _): .purchase
        case ("DID_RENEW", "BILLING_RECOVERY"): .recovery
        case ("DID_RENEW", _): .renewal
        case ("DID_FAIL_TO_RENEW", _): .renewalFailure
        case ("DID_CHANGE_RENEWAL_PREF", _): .planChange
        case ("DID_CHANGE_RENEWAL_STATUS", _): .autoRenewChange
        case ("OFFER_REDEEMED", "UPGRADE"), ("OFFER_REDEEMED", "DOWNGRADE"): .planChange
        case ("OFFER_REDEEMED", _): .offer
        case ("RENEWAL_EXTENDED", _): .extension
        case ("RENEWAL_EXTENSION", _): .extensionReport
        case ("GRACE_PERIOD_EXPIRED", _): .graceEnd
        case ("EXPIRED", _): .expiration
        case ("REFUND", _): .refund
        case ("REFUND_DECLINED", _): .refundDeclined
        case ("REFUND_REVERSED", _): .refundReversal
        case ("REVOKE", _): .revoke
        case ("PRICE_INCREASE", _): .priceConsent
        case ("PRICE_CHANGE", _): .priceChange
        case ("METADATA_UPDATE", _): .metadataUpdate
        // Apple's changelog calls it MIGRATE.
        case ("MIGRATION", _), ("MIGRATE", _): .migration
        case ("CONSUMPTION_REQUEST", _): .consumptionRequest
        case ("EXTERNAL_PURCHASE_TOKEN", _): .externalPurchase
        case ("RESCIND_CONSENT", _): .consentRescinded
        case ("UNCLAIM_SEATS", _): EarlierReading.isInForce ? .other : .seatsUnclaimed
        case ("TEST", _): .test
        default: .other
        }
    }
}
