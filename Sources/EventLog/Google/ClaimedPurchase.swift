import Encoding
import Subscriptions

/// A purchase of Google Play that this process is asking about. No other process asks about it until the claim ends.
package struct ClaimedPurchase: Sendable, Hashable {
    /// The package name.
    package let app: String
    package let purchaseToken: String
    package let resource: PurchaseResource?
    package let productId: String?
    /// That of its last answer; nil before the first.
    package let environment: Environment?
    /// The notification whose effect no answer has shown yet.
    package let notification: PurchaseNotification?
    /// How many answers did not show the effect of that notification.
    package let mismatches: Int32
    /// How many questions in a row had no answer.
    package let failures: Int32
    /// How often there was a reason to ask. A later one makes the purchase due again, whatever comes of this question.
    package let notices: Int64
    /// The position of the last answer that is in the log; nil if there is none.
    package let answerPosition: Int64?
    /// The backend's customers who handed the purchase in and are not linked to it yet, in that order.
    package let customerIds: [String]
    /// By those customers: the account id that the backend gave the app, if it named one.
    package let accountIds: [String: String]
    /// Since when the purchase has not been acknowledged; nil if that is not known, not needed, or done.
    package let unacknowledgedSince: Instant?
    package let noticedAt: Instant
    package let rank: PurchaseRank
}

/// What came of a question about a purchase of Google Play.
package struct PurchaseRecord: Sendable, Hashable {
    /// Whether Google knows that the purchase was granted.
    package enum Acknowledgement: Sendable, Hashable {
        /// The question does not say.
        case unchanged
        /// It was bought then, and is not acknowledged.
        case pending(since: Instant)
        /// This process acknowledged it.
        case made(at: Instant)
        /// It was acknowledged elsewhere, or must not be acknowledged.
        case notNeeded
    }

    package let askedAt: Instant
    package var result: PurchaseResult
    /// The status of the HTTP response; nil if there was none.
    package var status: Int32?
    package var environment: Environment?
    package var resource: PurchaseResource?
    package var productId: String?
    /// The position of the last event that an answer became; nil if none stated anything new.
    package var position: Int64?
    /// The customers who handed the purchase in of whom it is settled whether they are linked to it.
    package var settledCustomerIds: [String] = []
    /// Whether the answer shows the effect of the notification, so that it is not waited for any more.
    package var isMet = false
    package var mismatches: Int32 = 0
    package var failures: Int32 = 0
    package var acknowledgement = Acknowledgement.unchanged
    /// When to ask again because of this question; nil if not.
    package var next: Next?
    /// The next planned question after this one, if it was planned as well; nil if none is.
    package var plannedAt: Instant?

    package struct Next: Sendable, Hashable {
        package let at: Instant
        package let rank: PurchaseRank

        package init(at: Instant, rank: PurchaseRank) {
            self.at = at
            self.rank = rank
        }
    }

    package init(askedAt: Instant, result: PurchaseResult) {
        self.askedAt = askedAt
        self.result = result
    }
}

/// The result of a question about a purchase of Google Play. Only an event ever changes access.
package enum PurchaseResult: String, Sendable, Hashable, CaseIterable {
    /// The answer was stored as an event.
    case appended
    /// The answer states nothing new.
    case unchanged
    /// Google Play does not know the purchase.
    case notFound = "not_found"
    /// Google Play does not know the purchase any more, and will not again.
    case gone
    /// The purchase is not one of the app, or the question is wrong.
    case refused
    /// The credentials are rejected.
    case credentialsRejected = "credentials_rejected"
    /// The account may not ask about the app.
    case forbidden
    case unreadable
    /// There was no answer, or a temporary failure.
    case unavailable

    /// The word of the same meaning in the records of all checks.
    var check: String {
        switch self {
        case .appended, .unchanged, .refused, .unreadable, .unavailable: rawValue
        case .notFound, .gone: CheckResult.notFound.label
        case .credentialsRejected, .forbidden: CheckResult.keyRejected.label
        }
    }
}
