import Encoding

/// An entitlement of a customer about which another service and this log do not answer the same.
package struct AccessDifference: Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        /// Access here, and none there.
        case gains
        /// Access there, and none here.
        case loses
        /// Access in both, which ends later here.
        case later
        /// Access in both, which ends earlier here.
        case earlier
    }

    package let customerId: String
    package let entitlement: String
    package let kind: Kind
    /// What the other service says; nil if it does not list the entitlement.
    package let there: AccessFile.Row?
    /// The end of the access here; nil if there is none.
    package let here: Instant?
    /// The decisive rule, or why none is known.
    package let reason: String
    /// In sentences; nil if it was only counted.
    package let explanation: String?

    /// The reason of a customer without purchases.
    package static let unknownCustomer = "unknown_customer"
    static let notExplained = "not_explained"
}
