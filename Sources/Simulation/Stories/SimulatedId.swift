/// An id of a customer, with what it is.
package struct SimulatedId: Sendable, Hashable {
    /// The raw value is the word that requests use.
    package enum Kind: String, Sendable, CaseIterable {
        /// The backend's own id.
        case link
        /// An `appAccountToken`.
        case account
        /// An `appTransactionId`.
        case appTransaction = "app_transaction"
        /// An `originalTransactionId`.
        case subscription
    }

    package let kind: Kind
    package let text: String

    package init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }
}
