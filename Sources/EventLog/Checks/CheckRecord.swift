import Encoding
import Subscriptions

/// A question to the store about a subscription, and what came of it.
package struct CheckRecord: Sendable, Hashable {
    package let originalTransactionId: String
    package let askedAt: Instant
    /// The scheduled check that this was; nil if it was not scheduled.
    package let scheduled: StoreCheck?
    package let result: CheckResult
    /// The status number of the answer of verifyReceipt; nil if there was none.
    package let status: Int32?
    /// When to ask again unless something is reported before; nil if not at all. Later than `askedAt`, and not before the
    /// scheduled check is due; the database refuses anything else.
    package let nextAt: Instant?

    package init(
        originalTransactionId: String, askedAt: Instant, scheduled: StoreCheck?, result: CheckResult, status: Int32?,
        nextAt: Instant?
    ) {
        self.originalTransactionId = originalTransactionId
        self.askedAt = askedAt
        self.scheduled = scheduled
        self.result = result
        self.status = status
        self.nextAt = nextAt
    }
}

/// What came of a check. Only an appended event ever changes access.
package enum CheckResult: Sendable, Hashable {
    /// The answer states nothing new.
    case unchanged
    /// The answer was stored as the event at this position.
    case appended(position: Int64)
    /// There is no receipt to ask with.
    case noReceipt
    /// The app's shared secret is wrong.
    case secretRejected
    /// The app's key for the App Store Server API is wrong.
    case keyRejected
    /// The App Store Server API does not know the subscription.
    case notFound
    /// The store, or a check of its answer, refuses the receipt or the question.
    case refused
    /// The answer is not understood.
    case unreadable
    /// There was no answer, or a temporary failure.
    case unavailable

    /// All words of ``label``.
    package static let labels = ([CheckResult.unchanged, .appended(position: 0)] + failures).map(\.label)

    private static let failures: [CheckResult] = [
        .noReceipt, .secretRejected, .keyRejected, .notFound, .refused, .unreadable, .unavailable,
    ]

    /// The word in the database and in answers.
    package var label: String {
        switch self {
        case .unchanged: "unchanged"
        case .appended: "appended"
        case .noReceipt: "no_receipt"
        case .secretRejected: "secret_rejected"
        case .keyRejected: "key_rejected"
        case .notFound: "not_found"
        case .refused: "refused"
        case .unreadable: "unreadable"
        case .unavailable: "unavailable"
        }
    }

    /// The position of the event; nil if none was appended.
    package var position: Int64? {
        if case .appended(let position) = self { position } else { nil }
    }

    /// Nil if the label is unknown, or if the position does not belong to the label.
    package init?(label: String, position: Int64?) {
        let known: [CheckResult] = [.unchanged] + Self.failures
        if let position {
            guard label == Self.appended(position: position).label else { return nil }
            self = .appended(position: position)
        } else {
            guard let result = known.first(where: { $0.label == label }) else { return nil }
            self = result
        }
    }
}
