/// Why a customer has an entitlement at an instant or not, by the simulator's own record.
package struct AccessReason: Sendable, Hashable {
    /// The raw values are the words of explanations.
    package enum Kind: String, Sendable, Hashable {
        case paid, owned, extended
        case grace = "grace_granted"
        case upgraded = "replaced_by_upgrade"
        case refundedPart = "refunded_part"
        case familyRevoked = "family_revoked"
        case assignmentRevoked = "assignment_revoked"
        case switchedOffInGrace = "grace_cut_switch_off"
        /// The store said that access was over, before the end that it had stated.
        case endedByStatus = "ended_by_status"
        /// The store ended it, and has not said that it was refunded.
        case revoked
        case refunded = "refunded_whole"
        case graceTakenBack = "grace_taken_back"
        /// Not begun yet, or over.
        case over = "clock"
    }

    package let kind: Kind
    /// The purchase that gives access, or whose period is over or was taken back.
    package let transactionId: String
    package let productId: String
    /// Whether a refund of the purchase was reversed.
    package let wasGivenBack: Bool

    /// The reason in a format that does not say that the end was moved.
    package var asPaid: AccessReason {
        AccessReason(kind: .paid, transactionId: transactionId, productId: productId, wasGivenBack: wasGivenBack)
    }
}
