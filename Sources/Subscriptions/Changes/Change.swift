import Encoding

/// A change of a subscription's access, renewal preferences or customer.
package struct Change: Sendable, Hashable {
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Access began.
        case opened
        /// Access continues and ends later than before.
        case extended
        /// Access continues and ends earlier than before.
        case shortened
        /// Access ended.
        case closed
        /// Access continues with another product.
        case productChanged = "product_changed"
        /// Access by another product of the subscription began, beside that by the others.
        case productAdded = "product_added"
        /// Access by one of several products ended.
        case productRemoved = "product_removed"
        /// Renewal was switched on or off.
        case renewalSwitched = "renewal_switched"
        /// The product of the next renewal changed.
        case nextProduct = "next_product"
        /// The store reports another number of seats.
        case seatsChanged = "seats_changed"
        /// The subscription has another owner, now or in the past: published for each customer that lost or gained it
        /// or some of its past access.
        case customerChanged = "customer_changed"
        /// A parent or guardian withdrew the consent for the app.
        case consentRescinded = "consent_rescinded"
        /// Apple asks about a refund without naming the purchase.
        case unanswerableRequest = "unanswerable_request"
        /// Google took back an order that no answer has shown.
        case unknownOrderVoided = "unknown_order_voided"
        /// An operator erased the data of the person whose subscription it is.
        case customerErased = "customer_erased"
    }

    package enum Cause: Sendable, Hashable {
        /// An event reported it.
        case event(position: Int64)
        /// A period began or ended, or the time of another owner began, without an event.
        case clock
        /// The configuration of the app's products changed.
        case products
        /// The app's ownership policy changed.
        case ownership
        /// A rebuild from the log had a different result.
        case rebuild
    }

    package var kind: Kind
    package var originalTransactionId: String
    /// When the change took effect: the start or end of a period or of ownership for ``Cause/clock``, otherwise the time
    /// of processing.
    package var at: Instant
    package var cause: Cause
    /// The product that gives access; for ``Kind/closed``, the one that did. For ``Kind/customerChanged``, the product
    /// that gave or gives access to the customer; nil if the change is about the past only. Nil for changes that are not
    /// about access.
    package var productId: String?
    /// The end of the unbroken access; ``Instant/latest`` if it has none. Nil if there is no access.
    package var until: Instant?
    /// For ``Kind/renewalSwitched``: whether renewal is on.
    package var autoRenewStatus: Bool?
    /// For ``Kind/nextProduct``; nil if the current product renews.
    package var nextProductId: String?
    /// For ``Kind/seatsChanged``: the numbers of seats before and from now on.
    package var seats: Seats?
    /// For ``Kind/customerChanged``: the customer that lost or gained the subscription. Its ``until`` is nil unless it
    /// owns the subscription now. For the kinds of a ``CustomerNotice``: the customer that it is about.
    package var customer: CustomerKey?
    /// Why it happened, in a sentence: see ``ExplainedChanges``. Nil for changes that no rule explains, and for those that
    /// an earlier release published.
    package var reason: String?

    /// Numbers of seats.
    package struct Seats: Sendable, Hashable {
        package let before: Int
        package let now: Int

        package init(before: Int, now: Int) {
            self.before = before
            self.now = now
        }
    }

    package init(
        _ kind: Kind, of originalTransactionId: String, at instant: Instant, cause: Cause,
        productId: String? = nil, until: Instant? = nil, autoRenewStatus: Bool? = nil, nextProductId: String? = nil,
        seats: Seats? = nil, customer: CustomerKey? = nil
    ) {
        self.kind = kind
        self.originalTransactionId = originalTransactionId
        at = instant
        self.cause = cause
        self.productId = productId
        self.until = until
        self.autoRenewStatus = autoRenewStatus
        self.nextProductId = nextProductId
        self.seats = seats
        self.customer = customer
    }
}

extension Change.Cause {
    /// The name of the cause in the database and the API.
    package var name: String {
        switch self {
        case .event: "event"
        case .clock: "clock"
        case .products: "products"
        case .ownership: "ownership"
        case .rebuild: "rebuild"
        }
    }

    /// The position of the event that is the cause; nil for other causes.
    package var position: Int64? {
        if case .event(let position) = self { position } else { nil }
    }

    /// Nil if this version does not know the name, or if the name and the position do not belong together.
    package init?(name: String, position: Int64?) {
        switch (name, position) {
        case ("event", let position?): self = .event(position: position)
        case ("clock", nil): self = .clock
        case ("products", nil): self = .products
        case ("ownership", nil): self = .ownership
        case ("rebuild", nil): self = .rebuild
        default: return nil
        }
    }
}
