import Subscriptions

/// Maps a V1 `notification_type` to a common kind.
enum V1Kind {
    static func kind(of type: String?, _ transactions: [Transaction]) -> EventKind {
        switch type {
        case "INITIAL_BUY": .purchase
        case "DID_RENEW": .renewal
        // RENEWAL is the former name of DID_RECOVER and never meant a normal renewal.
        case "DID_RECOVER", "RENEWAL": .recovery
        case "DID_FAIL_TO_RENEW": .renewalFailure
        case "DID_CHANGE_RENEWAL_PREF": .planChange
        case "DID_CHANGE_RENEWAL_STATUS": .autoRenewChange
        case "INTERACTIVE_RENEWAL": replacesRunningPeriod(transactions) ? .planChange : .purchase
        // Until about 2020 an upgrade was reported as a cancellation of the old product's row, without a refund.
        case "CANCEL": newestCancelled(transactions)?.isUpgraded == true ? .planChange : .refund
        case "REFUND": .refund
        case "REVOKE": .revoke
        case "PRICE_INCREASE_CONSENT": .priceConsent
        case "CONSUMPTION_REQUEST": .consumptionRequest
        default: .other
        }
    }

    private static func newestCancelled(_ transactions: [Transaction]) -> Transaction? {
        transactions.filter { $0.revocationDate != nil }
            .max { ($0.revocationDate ?? .earliest) < ($1.revocationDate ?? .earliest) }
    }

    /// True if the newest row began before another row of the subscription expired: an upgrade or a crossgrade, not a
    /// resubscription.
    private static func replacesRunningPeriod(_ transactions: [Transaction]) -> Bool {
        guard
            let newest = transactions.max(by: { ($0.purchaseDate ?? .earliest) < ($1.purchaseDate ?? .earliest) }),
            let start = newest.purchaseDate
        else { return false }
        return transactions.contains { row in
            row.originalTransactionId == newest.originalTransactionId && row.transactionId != newest.transactionId
                && (row.purchaseDate ?? .latest) < start && (row.expiresDate ?? .earliest) > start
        }
    }
}
