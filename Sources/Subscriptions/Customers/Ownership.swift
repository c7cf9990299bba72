import Encoding

/// A half-open interval, including its start and excluding its end, in which a subscription belongs to a customer.
///
/// The intervals of a subscription cover all time. They are disjoint, except under ``OwnershipPolicy/shared`` and for the
/// intervals of ``Reason/seat``, in which a customer has access beside the owner.
package struct Ownership: Sendable, Hashable {
    /// The evidence that makes the customer the owner, strongest first, and what makes a customer a member beside it.
    package enum Reason: String, Sendable, Hashable, CaseIterable {
        /// A link on the subscription.
        case link
        /// The account token of a purchase of the subscription, or a link on that token.
        case account
        /// A link on the `appTransactionId` of the store account, or the app user of the store account.
        case storeAccount = "store_account"
        /// None: no app user is known.
        case unclaimed
        /// A seat that the backend gave to the customer: the subscription is the purchaser's.
        case seat
    }

    package let originalTransactionId: ByteString
    /// The backend's customer, the app user by account token, or the store account by the smallest
    /// `originalTransactionId` of its subscriptions.
    package let owner: CustomerKey
    package let from: Instant
    package let until: Instant
    package let reason: Reason
    /// The position of the first event that reported the evidence; nil if there is none.
    package let position: Int64?

    package init(
        originalTransactionId: ByteString, owner: CustomerKey, from: Instant, until: Instant, reason: Reason,
        position: Int64?
    ) {
        self.originalTransactionId = originalTransactionId
        self.owner = owner
        self.from = from
        self.until = until
        self.reason = reason
        self.position = position
    }

    package var interval: Range<Instant> { from..<until }

    /// The same interval of another owner, to whom other subscriptions of the account belong.
    func passed(to owner: CustomerKey) -> Ownership {
        Ownership(
            originalTransactionId: originalTransactionId, owner: owner, from: from, until: until, reason: .storeAccount,
            position: position)
    }

    /// Whether the customer owns the subscription at an instant. The last interval has no end.
    package func isInForce(at instant: Instant) -> Bool {
        from <= instant && (instant < until || until == .latest)
    }
}

extension [Ownership] {
    /// The owners at an instant: several only under ``OwnershipPolicy/shared``.
    package func owners(at instant: Instant) -> Set<CustomerKey> {
        Set(filter { $0.isInForce(at: instant) }.map(\.owner))
    }
}

extension Subscription {
    /// Returns the subscription with only the access that falls into some intervals, which must be disjoint.
    package func owned(during intervals: [Range<Instant>]) -> Subscription {
        var owned = self
        owned.access = access.flatMap { period in
            intervals.compactMap { interval in
                var part = period
                part.start = max(period.start, interval.lowerBound)
                part.end = min(period.end, interval.upperBound)
                return part.start < part.end ? part : nil
            }
        }
        .sorted { ($0.start, $0.end, $0.transactionId) < ($1.start, $1.end, $1.transactionId) }
        return owned
    }
}
