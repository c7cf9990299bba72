/// A scenario in the life of a subscription. The seed determines its dates, products and prices.
package enum Story: String, Sendable, Hashable, CaseIterable {
    case trialConversion = "trial-conversion"
    case renewals
    case switchOffAndOn = "switch-off-and-on"
    case switchOffAndExpire = "switch-off-and-expire"
    case graceRecovered = "grace-recovered"
    case graceExpiredThenRecovered = "grace-expired-then-recovered"
    case retryRecovered = "retry-recovered"
    case retryNeverRecovered = "retry-never-recovered"
    case switchOffInGrace = "switch-off-in-grace"
    case refundOfOldPeriod = "refund-of-old-period"
    case refundOfCurrentPeriod = "refund-of-current-period"
    case proratedRefund = "prorated-refund"
    case refundDeclined = "refund-declined"
    case refundReversed = "refund-reversed"
    case upgrade
    case upgradeThenRefund = "upgrade-then-refund"
    case downgrade
    case crossgrade
    case resubscribeSame = "resubscribe-same"
    case resubscribeOther = "resubscribe-other"
    case priceRiseAccepted = "price-rise-accepted"
    case priceRiseRefused = "price-rise-refused"
    case notForSale = "not-for-sale"
    case family
    case `extension`
    case offerRedeemed = "offer-redeemed"
    case monthlyCommitment = "monthly-commitment"
    case oneTimePurchase = "one-time-purchase"
    case sharedAccountToken = "shared-account-token"
    case sharedAppleAccount = "shared-apple-account"
    case restored
    case boughtAgain = "bought-again"
    case linked
    case linkMoved = "link-moved"
    case sharedDevice = "shared-device"
    case upgradeByAnotherUser = "upgrade-by-another-user"
    case accountTokenSetLate = "account-token-set-late"
    case usersOfAppleAccount = "users-of-apple-account"
    case transfer
    case tokenAndLink = "token-and-link"
    case seats
    case seatsRefunded = "seats-refunded"
    case seatsUnclaimed = "seats-unclaimed"
    case commitmentCancelled = "commitment-cancelled"
    case commitmentRecovered = "commitment-recovered"
    case commitmentLost = "commitment-lost"
    case moved
    case movedBack = "moved-back"
    case loyalCustomer = "loyal-customer"
    case tokenOfEverybody = "token-of-everybody"
    case planBoughtInGrace = "plan-bought-in-grace"
    case graceEndedEarly = "grace-ended-early"
    case refundAtOnce = "refund-at-once"

    /// All stories, each with two customers who only subscribe and renew, as most do.
    package static let amongOthers: [Story] = allCases.flatMap { [$0, .renewals, .trialConversion] }

    /// The name on the command line.
    package var name: String { rawValue }

    /// Whether the notifications of version 1 suffice to determine access. Version 1 has none for prorated and reversed
    /// refunds, extensions, one-time purchases, seats, ends of grace, and purchases that are reported under another
    /// subscription.
    package var isCompleteInVersion1: Bool {
        switch self {
        case .proratedRefund, .refundReversed, .extension, .oneTimePurchase, .seats, .seatsRefunded, .seatsUnclaimed,
            .moved, .movedBack, .loyalCustomer, .graceEndedEarly:
            false
        default: true
        }
    }

    /// Whether a notification about one subscription decides what a server knows of the others.
    package var isOneForAll: Bool {
        switch self {
        case .moved, .movedBack, .tokenOfEverybody: true
        default: false
        }
    }

    /// Whether Apple's documentation alone says what the story shows: no genuine body was seen.
    package var isFromDocumentation: Bool {
        switch self {
        case .seats, .seatsRefunded, .seatsUnclaimed: true
        default: false
        }
    }

    /// The description for `--list-stories`.
    package var summary: String {
        switch self {
        case .trialConversion: "a free trial that converts to paid periods"
        case .renewals: "a subscription that renews, sometimes charged up to a day early"
        case .switchOffAndOn: "auto-renewal switched off, then on again before expiry"
        case .switchOffAndExpire: "auto-renewal switched off; access ends with the period, which may be a free trial"
        case .graceRecovered: "a failed renewal charged within grace; access has no gap"
        case .graceExpiredThenRecovered: "a failed renewal charged after grace; access has a gap"
        case .retryRecovered: "a failed renewal without grace, charged later; access has a gap"
        case .retryNeverRecovered: "a failed renewal that is never charged; expires after 60 days"
        case .switchOffInGrace: "auto-renewal switched off within grace; access ends at once"
        case .refundOfOldPeriod: "an earlier period refunded; the current one is unaffected"
        case .refundOfCurrentPeriod: "the current period refunded in full; it gives no access"
        case .proratedRefund: "the rest of the current period refunded; access ends at the refund"
        case .refundDeclined: "a refund requested and declined"
        case .refundReversed: "a refund reversed after a dispute"
        case .upgrade: "an upgrade within a period; the old period ends at once"
        case .upgradeThenRefund: "an upgrade that is refunded; no access after the upgrade"
        case .downgrade: "a downgrade at the next renewal, or one that is cancelled"
        case .crossgrade: "a plan of the same level, at once or at the next renewal"
        case .resubscribeSame: "resubscribed to the same plan after expiry"
        case .resubscribeOther: "resubscribed to another plan after expiry"
        case .priceRiseAccepted: "a price increase with consent"
        case .priceRiseRefused: "a price increase without consent; access ends with the period"
        case .notForSale: "a plan removed from sale; access ends with the period"
        case .family: "a purchaser and a family member, whose access is revoked (two subscriptions)"
        case .extension: "a period extended by free days"
        case .offerRedeemed: "an offer redeemed at the next renewal, or for an upgrade at once"
        case .monthlyCommitment: "a yearly plan, billed monthly and billed at once (two subscriptions)"
        case .oneTimePurchase: "a non-consumable and a consumable (two purchases)"
        case .sharedAccountToken: "one user on two Apple Accounts with one account token (two subscriptions)"
        case .sharedAppleAccount: "two subscription groups on one Apple Account (two subscriptions)"
        case .restored: "a restore that continues under another id (two subscriptions)"
        case .boughtAgain: "bought again by the same user on another account after expiry (two subscriptions)"
        case .linked: "two accounts that a backend links to one customer (two subscriptions)"
        case .linkMoved: "a subscription linked to the wrong customer, then to the right one (three subscriptions)"
        case .sharedDevice: "bought by one app user and, after expiry, by another on the same Apple Account"
        case .upgradeByAnotherUser: "bought by one app user and upgraded by another on the same Apple Account"
        case .accountTokenSetLate: "an account token that the app's server sets after some renewals"
        case .usersOfAppleAccount: "two app users with a plan each on one Apple Account (two subscriptions)"
        case .transfer: "a subscription that one customer links, then another"
        case .tokenAndLink: "a token linked by one customer, one of its purchases by another (two subscriptions)"
        case .seats: "seats that are added and given up, and two members with one of them (three subscriptions)"
        case .seatsRefunded: "refunded seats; the purchaser keeps access as long as one is left"
        case .seatsUnclaimed: "claims of seats that the store takes back from members whom the app's server knows"
        case .commitmentCancelled: "a yearly plan billed monthly and cancelled; billing goes on to its end"
        case .commitmentRecovered: "a monthly charge of a yearly plan recovered after more than 60 days"
        case .commitmentLost: "a monthly charge of a yearly plan that never succeeds; expires after 90 days"
        case .moved: "bought under a new original id, then reported under the old one (two subscriptions)"
        case .movedBack: "reported under another original id, perhaps refunded, and back again (two subscriptions)"
        case .loyalCustomer: "a subscription and ten consumables of one customer (eleven purchases)"
        case .tokenOfEverybody: "an account token that the app gives to everybody (twelve subscriptions)"
        case .planBoughtInGrace: "another plan bought within grace; the grace of the old one ends at once"
        case .graceEndedEarly: "a grace period that the store ends before the end that it stated"
        case .refundAtOnce: "auto-renewal switched off and the current period refunded in the same second"
        }
    }
}
