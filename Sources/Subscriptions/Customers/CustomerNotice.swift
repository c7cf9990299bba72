import Encoding

/// Something that an event says about a customer, and that no fact of a purchase contains.
package struct CustomerNotice: Sendable, Hashable {
    package let kind: Kind
    /// The event that says it.
    package let position: Int64
    /// When it happened, as the event states it.
    package let at: Instant
    /// The store account or the subscription that the event names; nil if it names none.
    package let key: CustomerKey?

    /// The raw values are those of changes and of histories.
    package enum Kind: String, Sendable, Hashable, CaseIterable {
        /// A parent or guardian withdrew the consent for the app.
        case consentRescinded = "consent_rescinded"
        /// Apple asks about a refund in version 1 and names no purchase, so the question cannot be answered.
        case unanswerableRequest = "unanswerable_request"
        /// Google took back an order of a purchase that no answer has shown.
        case unknownOrderVoided = "unknown_order_voided"
        /// An operator erased the person's data: the customer is called by a pseudonym since.
        case customerErased = "customer_erased"

        package var change: Change.Kind {
            switch self {
            case .consentRescinded: .consentRescinded
            case .unanswerableRequest: .unanswerableRequest
            case .unknownOrderVoided: .unknownOrderVoided
            case .customerErased: .customerErased
            }
        }

        /// The line of the server's log.
        package var logLine: String {
            switch self {
            case .consentRescinded: "consent for the app rescinded"
            case .unanswerableRequest: "consumption request names no purchase"
            case .unknownOrderVoided: "void of an unknown order"
            case .customerErased: "customer erased"
            }
        }

        /// In words, for a history.
        package var words: String {
            switch self {
            case .consentRescinded: "a parent or guardian withdrew the consent for the app"
            case .unanswerableRequest: "Apple asked about a refund without naming the purchase: not answered"
            case .unknownOrderVoided: "Google took back an order that it has not shown"
            case .customerErased: "an operator erased the person's data"
            }
        }
    }

    package init(_ kind: Kind, position: Int64, at instant: Instant, key: CustomerKey?) {
        self.kind = kind
        self.position = position
        at = instant
        self.key = key
    }
}

extension SubscriptionFacts {
    /// The voids of orders that belong to no purchase in an answer. Of a purchase that was never answered about, every
    /// order is unknown.
    package var voidsOfUnknownOrders: [CustomerNotice] {
        var known: [String: Set<String>] = [:]
        var voids: [(void: PurchaseVoid, position: Int64)] = []
        for (stated, evidence) in purchases {
            switch stated.purchase.fact {
            case .snapshot(let snapshot):
                known[snapshot.purchaseToken, default: []]
                    .formUnion(snapshot.items.compactMap { $0.orderId.map(PurchaseOrder.base) })
            case .order(let order):
                known[order.purchaseToken, default: []].insert(PurchaseOrder.base(of: order.orderId))
            case .void(let void): voids.append((void, evidence.position))
            case .notice: continue
            }
        }
        return voids.filter { void, _ in
            guard let orders = known[void.purchaseToken] else { return true }
            return void.orderId.map { !orders.contains(PurchaseOrder.base(of: $0)) } ?? false
        }.map { void, position in
            CustomerNotice(
                .unknownOrderVoided, position: position, at: void.voidedAt,
                key: CustomerKey(.subscription, originalTransactionId))
        }.sorted { ($0.at, $0.position) < ($1.at, $1.position) }
    }
}
