import Subscriptions

/// A renewal that could not be charged when it was due, and what became of it.
package struct FailedRenewal: Sendable, Hashable {
    package enum Recovery: Sendable, Hashable {
        /// Charged before grace ended: access had no gap.
        case inGrace
        case later
    }

    /// The purchase whose period could not be renewed.
    package let transactionId: String
    package let product: Product
    package let due: Instant
    /// Nil while it was not charged after all.
    package var recovery: Recovery?
}
