import Encoding
import Subscriptions

/// The four checks of a receipt: genuine, of this app, registered, in force. A check that was not reached is nil.
package struct ReceiptChecks: Sendable, Hashable {
    /// Whether the subscriptions of a receipt are known already, and whose they are.
    package enum Registration: String, Sendable, CaseIterable {
        case new
        /// Known, and without an owner or owned by the customer whose receipt it is. Customers hand in their receipts again.
        case known
        /// At least one is owned by another customer.
        case otherCustomer
    }

    package let status: ReceiptStatus
    /// True if the App Store confirmed the receipt. Says nothing about its expiry.
    package let isGenuine: Bool
    package let isOfThisApp: Bool?
    package let registration: Registration?
    /// True if a purchase in the receipt gives access at the time of the check.
    package let isInForce: Bool?

    /// The checks of a receipt that is a fact.
    ///
    /// - Parameters:
    ///   - registration: By the projections and the policy of the app; nil if they are not at hand.
    ///   - instant: The time of the check.
    ///   - products: The configured products, which determine how long a purchase without an expiry lasts.
    package init(
        of receipt: VerifiedReceipt, registration: Registration?, at instant: Instant,
        products: ProductCatalog = .empty
    ) {
        status = receipt.status
        isGenuine = receipt.event.kind == .receipt
        isOfThisApp = isGenuine ? true : nil
        self.registration = registration
        isInForce = Self.isInForce(receipt.event, at: instant, products)
    }

    /// The checks of a receipt that was refused.
    ///
    /// - Parameter answer: The App Store's answer about it.
    package init(of answer: AnswerFromApple, refusedBy refusal: ReceiptRefusal) {
        status = answer.answer.status
        isGenuine = status.action(from: answer.host, isRetryable: answer.answer.isRetryable) == .accept
        isOfThisApp =
            switch refusal {
            case .otherApp, .appMissing: false
            case .wrongEnvironment, .environmentRefused: true
            case .status, .appUnknown, .nothingKnown, .unreadable: nil
            }
        registration = nil
        isInForce = nil
    }

    /// Uses the answer alone: what other reports say is not a property of the receipt.
    private static func isInForce(_ event: Event, at instant: Instant, _ products: ProductCatalog) -> Bool {
        event.facts.bySubscription.contains { id, facts in
            var subscription = SubscriptionFacts(originalTransactionId: id)
            subscription.fold(facts, occurredAt: event.occurredAt, receivedAt: instant, position: 1)
            return Subscription(subscription, products: products).isActive(at: instant)
        }
    }

    /// Writes `{"genuine":{"result":…,"status":…},"ofThisApp":…,"registered":…,"inForce":…}`, without the checks that
    /// were not reached.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("genuine")
            writer.object { writer in
                writer.member("result", isGenuine)
                writer.member("status", status.number)
            }
            writer.member("ofThisApp", isOfThisApp)
            writer.member("registered", registration?.rawValue)
            writer.member("inForce", isInForce)
        }
    }
}
