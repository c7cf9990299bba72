/// A scenario in the life of a purchase on Google Play. The seed determines its dates, products and prices.
package enum PlayStory: String, Sendable, Hashable, CaseIterable {
    case renewals
    case trial
    case introductoryPrice = "introductory-price"
    case cancelled
    case restarted
    case graceRecovered = "grace-recovered"
    case graceNotRecovered = "grace-not-recovered"
    case cancelledInGrace = "cancelled-in-grace"
    case holdRecovered = "hold-recovered"
    case holdEnded = "hold-ended"
    case holdWithoutGrace = "hold-without-grace"
    case cancelledInHold = "cancelled-in-hold"
    case paused
    case pauseWithdrawn = "pause-withdrawn"
    case resumeFailed = "resume-failed"
    case upgrade
    case upgradeFullPeriod = "upgrade-full-period"
    case downgradeDeferred = "downgrade-deferred"
    case resubscribed
    case resubscribedInPlay = "resubscribed-in-play"
    case refundOfNewest = "refund-of-newest"
    case refundOfOlder = "refund-of-older"
    case refundWithoutRevoke = "refund-without-revoke"
    case voidedWhileActive = "voided-while-active"
    case chargeBack = "charge-back"
    case unacknowledged
    case deferral
    case prepaid
    case installments
    case addOns = "add-ons"
    case pendingPaid = "pending-paid"
    case pendingCancelled = "pending-cancelled"
    case pendingChangePaid = "pending-change-paid"
    case pendingChangeCancelled = "pending-change-cancelled"
    case promotion
    case testPurchase = "test-purchase"
    case oneTimePurchase = "one-time-purchase"
    case oneTimePending = "one-time-pending"
    case priceChange = "price-change"
    case tokenChain = "token-chain"
    case upgradeByAnotherUser = "upgrade-by-another-user"
    case accountMissing = "account-missing"
    case refundByAmount = "refund-by-amount"
    case loyalCustomer = "loyal-customer"
    case accountOfEverybody = "account-of-everybody"
    case endedEarly = "ended-early"

    /// All stories, each with two customers who only subscribe and renew, as most do.
    package static let amongOthers: [PlayStory] = allCases.flatMap { [$0, .renewals, .trial] }

    /// The name on the command line.
    package var name: String { rawValue }

    /// Whether no answer states when access ended, so that the first one that shows it decides.
    package var isEndDatedByAnswer: Bool { self == .endedEarly }

    /// The purchases of a license tester belong to the sandbox, all others to production.
    package var isTest: Bool { self == .testPurchase }

    /// The description for `--list-stories`.
    package var summary: String {
        switch self {
        case .renewals: "a subscription that renews, up to half a day early or two minutes late"
        case .trial: "a free trial that converts to paid periods"
        case .introductoryPrice: "a first period at a lower price"
        case .cancelled: "cancelled; access ends with the period"
        case .restarted: "cancelled, and restored in Google Play before expiry"
        case .graceRecovered: "a failed payment made up for in grace; access has no gap"
        case .graceNotRecovered: "a failed payment; grace and hold pass without a payment"
        case .cancelledInGrace: "cancelled in grace; access ends at once"
        case .holdRecovered: "paid during the account hold; access has a gap"
        case .holdEnded: "an account hold that ends; the expiry moves forward to its end, which was never paid"
        case .holdWithoutGrace: "a base plan without grace; the hold begins after a silent day, and is made up for"
        case .cancelledInHold: "cancelled during the account hold"
        case .paused: "a pause that begins with the next period, and a resumption"
        case .pauseWithdrawn: "a planned pause that is withdrawn"
        case .resumeFailed: "a payment that fails at the end of a pause, made up for later"
        case .upgrade: "another plan at once with a linked token; the first period is short"
        case .upgradeFullPeriod: "another plan at once with a linked token, paid for a whole period"
        case .downgradeDeferred: "another plan from the next period on, with a linked token at once"
        case .resubscribed: "bought again in the app after expiry; a new token without a link (two subscriptions)"
        case .resubscribedInPlay: "bought again in Google Play after expiry (two subscriptions)"
        case .refundOfNewest: "the newest payment refunded and revoked; the subscription ends"
        case .refundOfOlder: "an older payment refunded and revoked; the subscription goes on"
        case .refundWithoutRevoke: "a payment refunded without a revocation; access goes on"
        case .voidedWhileActive: "the newest payment voided while the subscription is shown as active"
        case .chargeBack: "a charge-back of the newest payment"
        case .unacknowledged: "a purchase that the app does not acknowledge"
        case .deferral: "the developer moves the next billing date"
        case .prepaid: "a prepaid plan with top-ups, each with a linked token"
        case .installments: "monthly payments of a commitment, cancelled for its end"
        case .addOns: "two items in one token, one of which is removed"
        case .pendingPaid: "a purchase that is paid later"
        case .pendingCancelled: "a purchase that is never paid"
        case .pendingChangePaid: "a change of the plan that is paid later"
        case .pendingChangeCancelled: "a change of the plan that is never paid; the old plan goes on"
        case .promotion: "a promotion code: the first period has no order"
        case .testPurchase: "a license tester's subscription with periods of minutes (sandbox)"
        case .oneTimePurchase: "a non-consumable and a consumable, partly refunded by quantity (two purchases)"
        case .oneTimePending: "one-time purchases that are paid later and never (two purchases)"
        case .priceChange: "a higher price with consent"
        case .tokenChain: "a chain of many linked tokens"
        case .upgradeByAnotherUser: "bought by one app user, upgraded by another"
        case .accountMissing: "an upgrade whose token names no app user"
        case .refundByAmount: "parts of payments refunded by amount; access goes on"
        case .loyalCustomer: "a subscription and ten consumables of one customer (eleven purchases)"
        case .accountOfEverybody: "an account id that the app gives to everybody (twelve subscriptions)"
        case .endedEarly: "ended before the end of what is paid, which the store still shows, or shows no end"
        }
    }
}
