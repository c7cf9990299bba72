import Encoding

/// A transaction of an Apple Account as the store shows it at an instant.
package struct SimulatedTransaction: Sendable {
    package let purchase: Purchase
    /// The first purchase of the subscription.
    package let original: Purchase
    package let customer: Customer
    /// When it was bought, upgraded, extended or revoked, or the revocation was reversed, whichever was last.
    package let modifiedAt: Instant

    package var transactionId: String { purchase.transactionId }

    /// The JSON text to sign.
    package func payload(app: SimulatedApp, signedDate: Instant) -> [UInt8] {
        rendered(app: app, signedDate: signedDate).json
    }

    package func rendered(app: SimulatedApp, signedDate: Instant) -> V2Transaction {
        V2Transaction(purchase, original: original, app: app, customer: customer, signedDate: signedDate)
    }
}

extension SimulatedSubscription {
    /// The transactions that the store knows at the instant, oldest first.
    package func transactions(at instant: Instant, _ amendments: BookAmendments = .init()) -> [SimulatedTransaction] {
        guard let current = books(at: instant), let original = current.purchases.first else { return [] }
        var modified: [String: (purchase: Purchase, at: Instant)] = [:]
        for entry in history where entry.at <= instant {
            for purchase in entry.purchases where modified[purchase.transactionId]?.purchase != purchase {
                modified[purchase.transactionId] = (purchase, entry.at)
            }
        }
        return current.purchases.map { purchase in
            var shown = purchase
            let amended = amendments.amend(&shown, of: original.transactionId, at: instant)
            let changed = modified[purchase.transactionId]?.at ?? current.at
            return SimulatedTransaction(
                purchase: shown, original: original, customer: customer,
                modifiedAt: max(changed, amended ?? changed))
        }
    }
}
