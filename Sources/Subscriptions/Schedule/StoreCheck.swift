import Encoding

/// When the store should be asked about a subscription next, if nothing is reported until then.
package struct StoreCheck: Sendable, Hashable {
    package let dueAt: Instant
    package let reason: Reason

    /// The raw values are those of the database and of answers.
    package enum Reason: String, Sendable, CaseIterable {
        /// The period ends: it may have been renewed, or its renewal may have failed.
        case renewal
        /// The period is over, and neither a renewal nor the end of the subscription has been reported.
        case retry
        /// Renewal is off and the period ends: the report that it was switched on again may have been lost.
        case end
    }

    package init(dueAt: Instant, reason: Reason) {
        self.dueAt = dueAt
        self.reason = reason
    }
}
