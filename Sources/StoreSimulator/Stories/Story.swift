/// A course that a customer's life with the app can take. How long it goes on, when, with which product and at what
/// price is left to the seed.
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
    case boughtAnew = "bought-anew"
    case linked
    case linkMoved = "link-moved"

    /// The name on the command line.
    package var name: String { rawValue }

    /// Whether the bodies of version 1 suffice to know who has access. It says nothing of prorated and reversed
    /// refunds, of extensions and of one-time purchases.
    package var isTellableInVersion1: Bool {
        switch self {
        case .proratedRefund, .refundReversed, .extension, .oneTimePurchase: false
        default: true
        }
    }

    /// One line for the help.
    package var summary: String {
        switch self {
        case .trialConversion: "a free trial that turns into paid periods"
        case .renewals: "a subscription that renews, at times charged up to a day early"
        case .switchOffAndOn: "renewal switched off, and on again in time"
        case .switchOffAndExpire: "renewal switched off; access ends with the period"
        case .graceRecovered: "a failed renewal that is paid within grace; no gap"
        case .graceExpiredThenRecovered: "a failed renewal that is paid after grace; a gap stays"
        case .retryRecovered: "a failed renewal without grace, paid later; a gap stays"
        case .retryNeverRecovered: "a failed renewal that is given up after 60 days"
        case .switchOffInGrace: "renewal switched off within grace, which ends access at once"
        case .refundOfOldPeriod: "an earlier period paid back; the current one stays"
        case .refundOfCurrentPeriod: "the current period paid back, as if never bought"
        case .proratedRefund: "the rest of the current period paid back; access ends there"
        case .refundDeclined: "a refund asked for and not granted"
        case .refundReversed: "a refund that is taken back after a dispute"
        case .upgrade: "a better plan in mid-period; the old period ends at once"
        case .upgradeThenRefund: "a better plan, then paid back; no access after the upgrade"
        case .downgrade: "a lesser plan from the next renewal on, or the choice taken back"
        case .crossgrade: "an equal plan, at once or from the next renewal on"
        case .resubscribeSame: "bought again after the end, the same plan"
        case .resubscribeOther: "bought again after the end, another plan"
        case .priceRiseAccepted: "a higher price, agreed to"
        case .priceRiseRefused: "a higher price, refused; access ends with the period"
        case .notForSale: "a plan that is taken off sale; access ends with the period"
        case .family: "a purchaser and a family member, who later leaves (two lines)"
        case .extension: "days given for free: the same period ends later"
        case .offerRedeemed: "an offer redeemed, for the next renewal or for a better plan at once"
        case .monthlyCommitment: "a year's promise that is paid by the month"
        case .oneTimePurchase: "something owned for ever and something used up (two lines)"
        case .sharedAccountToken: "one user on two Apple Accounts, known by the account token (two lines)"
        case .sharedAppleAccount: "two kinds of plan on one Apple Account (two lines)"
        case .restored: "a restore that comes back under another id, and goes on there (two lines)"
        case .boughtAnew: "bought again by the same user on another account, after a gap (two lines)"
        case .linked: "two strangers to Apple, one customer to a backend (two lines)"
        case .linkMoved: "a line linked to the wrong customer, then to the right one (three lines)"
        }
    }
}
