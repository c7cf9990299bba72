import Encoding

/// A renewal that could not be charged when it was due.
package struct FailedRenewal: Sendable, Hashable {
    package enum Recovery: Sendable, Hashable {
        /// Charged before the grace period ended, so access has no gap.
        case inGrace
        case later
    }

    /// The purchase whose period could not be renewed.
    package let transactionId: String
    package let product: Product
    package let due: Instant
    /// Nil if the renewal was never charged.
    package var recovery: Recovery?
}
