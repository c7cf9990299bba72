import Encoding

/// A receipt that an app hands in, after a purchase or a restore.
package struct SimulatedHandIn: Sendable {
    package enum Occasion: String, Sendable, CaseIterable {
        case purchase, resubscription, upgrade, restore
        case oneTimePurchase = "one-time-purchase"
    }

    /// When the receipt was made and handed in.
    package let at: Instant
    package let occasion: Occasion
    package let account: SimulatedAccount
    /// The subscription or one-time purchase that caused it.
    package let originalTransactionId: String
    /// The UUID of the app user; nil if the app has none.
    package let appAccountToken: String?
    /// A backend's id of the customer; nil if the backend links none.
    package let backendCustomerId: String?
    let app: SimulatedApp
    let seal: ReceiptSeal

    package var receipt: [UInt8] {
        seal.receipt(of: account.key, style: account.style, app: app, createdAt: at)
    }

    /// The order of equal instants.
    fileprivate var order: (Instant, Int, Int, String) {
        (at, account.key.story, account.key.number, originalTransactionId)
    }
}

extension Simulation {
    /// The receipts that apps hand in, in the order of time.
    package var handIns: [SimulatedHandIn] {
        (0..<settings.subscriptions).flatMap { handIns(ofStory: $0) }.sorted { $0.order < $1.order }
    }

    /// The receipts of one story, counted from 0.
    package func handIns(ofStory index: Int) -> [SimulatedHandIn] {
        let rendered = storyteller.story(at: index)
        var handIns: [SimulatedHandIn] = []
        for account in SimulatedAccount.accounts(of: rendered, number: index, seed: settings.seed) {
            for subscription in account.subscriptions {
                for (occasion, at, purchase) in subscription.handedIn(account.restoredCopy) {
                    let token = subscription.customer.statesOwnToken ? purchase.appAccountToken : nil
                    handIns.append(
                        SimulatedHandIn(
                            at: at, occasion: occasion, account: account,
                            originalTransactionId: subscription.originalTransactionId, appAccountToken: token,
                            backendCustomerId: rendered.backendCustomerId(of: subscription), app: settings.app,
                            seal: seal))
                }
            }
        }
        return handIns.sorted { $0.order < $1.order }
    }
}

extension RenderedStory {
    /// The customer to whom the backend links the subscription at the end of the story.
    fileprivate func backendCustomerId(of subscription: SimulatedSubscription) -> String? {
        let number = subscriptions.firstIndex { $0.originalTransactionId == subscription.originalTransactionId }
        return customers.lazy.filter { customer in number.map { customer.subscriptions.contains($0) } ?? false }
            .compactMap(\.backendIds.first).first
    }
}

extension SimulatedSubscription {
    /// The purchases that a user made or restored in the app. Renewals are charged without it.
    func handedIn(
        _ copy: SimulatedAccount.RestoredCopy?
    ) -> [(SimulatedHandIn.Occasion, Instant, Purchase)] {
        purchases.enumerated().flatMap { number, purchase -> [(SimulatedHandIn.Occasion, Instant, Purchase)] in
            var occasions: [(SimulatedHandIn.Occasion, Instant, Purchase)] = []
            let previous = number > 0 ? purchases[number - 1] : nil
            if let occasion = occasion(of: purchase, after: previous),
                let known = history.first(where: { entry in
                    entry.purchases.contains { $0.transactionId == purchase.transactionId }
                })
            {
                occasions.append((occasion, known.at, purchase))
            }
            if let copy, copy.of == purchase.transactionId { occasions.append((.restore, copy.at, purchase)) }
            return occasions
        }
    }

    /// Nil for a renewal.
    private func occasion(of purchase: Purchase, after previous: Purchase?) -> SimulatedHandIn.Occasion? {
        guard let previous else {
            if isRestored || customer.isMember { return .restore }
            return purchase.product.kind == .autoRenewable ? .purchase : .oneTimePurchase
        }
        guard purchase.reason == .purchase else { return nil }
        if purchase.addsSeats { return .purchase }
        return previous.upgradedAt == purchase.purchaseDate ? .upgrade : .resubscription
    }
}
