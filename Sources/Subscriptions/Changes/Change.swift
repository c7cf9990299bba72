import Encoding

/// A difference in what a subscription gives, or in what it is about to do.
package struct Change: Sendable, Hashable {
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// There was no access, and now there is.
        case opened
        /// Access goes on for longer than was known.
        case extended
        /// Access goes on, but not for as long as was known.
        case shortened
        /// There was access, and now there is none.
        case closed
        /// Access goes on, to another product.
        case productChanged = "product_changed"
        /// Renewal was switched on or off.
        case renewalSwitched = "renewal_switched"
        /// Another product is to be renewed than was known.
        case nextProduct = "next_product"
        /// The subscription has another customer, or its customer another id of a backend.
        case customerChanged = "customer_changed"
    }

    package enum Cause: Sendable, Hashable {
        /// The event that stated it.
        case event(position: Int64)
        /// Nobody stated anything: a period began or ended.
        case clock
        /// The app's products were configured otherwise.
        case products
        /// The log was folded anew, and came out otherwise.
        case rebuild
    }

    package var kind: Kind
    package var originalTransactionId: String
    /// Since when it is so: the beginning or end of a period if the clock did it, else the time at which it was folded.
    package var at: Instant
    package var cause: Cause
    /// What there is access to; for ``Kind/closed`` what there was access to. Nil for intentions.
    package var productId: String?
    /// End of the unbroken access, ``Instant/latest`` for what is owned for ever. Nil where there is none.
    package var until: Instant?
    /// Of ``Kind/renewalSwitched``: whether it is on.
    package var autoRenewStatus: Bool?
    /// Of ``Kind/nextProduct``; nil for the product as it is.
    package var nextProductId: String?

    package init(
        _ kind: Kind, of originalTransactionId: String, at instant: Instant, cause: Cause,
        productId: String? = nil, until: Instant? = nil, autoRenewStatus: Bool? = nil, nextProductId: String? = nil
    ) {
        self.kind = kind
        self.originalTransactionId = originalTransactionId
        at = instant
        self.cause = cause
        self.productId = productId
        self.until = until
        self.autoRenewStatus = autoRenewStatus
        self.nextProductId = nextProductId
    }
}

extension Change.Cause {
    /// In one word, for all who store or show it.
    package var name: String {
        switch self {
        case .event: "event"
        case .clock: "clock"
        case .products: "products"
        case .rebuild: "rebuild"
        }
    }

    /// Of the event, if one stated it.
    package var position: Int64? {
        if case .event(let position) = self { position } else { nil }
    }

    /// Nil for a word that a newer version knows, and for a position that does not belong to it.
    package init?(name: String, position: Int64?) {
        switch (name, position) {
        case ("event", let position?): self = .event(position: position)
        case ("clock", nil): self = .clock
        case ("products", nil): self = .products
        case ("rebuild", nil): self = .rebuild
        default: return nil
        }
    }
}
