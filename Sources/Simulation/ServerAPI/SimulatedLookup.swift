import Encoding

/// An id of a customer, found in the books of a run.
package struct SimulatedLookup: Sendable {
    package enum Kind: Sendable, Hashable {
        /// The transaction id of a subscription's first purchase, or of a one-time purchase.
        case original
        /// Another transaction id.
        case transaction
        /// An `appTransactionId`.
        case account
    }

    package let kind: Kind
    package let account: SimulatedAccount
    /// The subscription or one-time purchase of the transaction; nil for an `appTransactionId`.
    package let subscription: SimulatedSubscription?
    /// When the store first knew the id.
    package let knownSince: Instant
}

extension Simulation {
    /// Finds the Apple Account that has the transaction id, original transaction id or app transaction id.
    ///
    /// - Parameter instant: When it is asked, for a transaction that was reported under two subscriptions.
    package func lookup(_ id: String, at instant: Instant = .latest) -> SimulatedLookup? {
        let ofTransaction = Identifiers.story(of: id, seed: settings.seed)
        guard let story = ofTransaction ?? Identifiers.story(ofAccount: id, seed: settings.seed),
            (0..<settings.subscriptions).contains(story)
        else { return nil }
        for account in storyteller.accounts(ofStory: story) {
            if ofTransaction != nil, let found = account.lookup(transactionId: id, at: instant) {
                return found
            }
            if ofTransaction == nil, account.appTransactionId == id {
                return SimulatedLookup(
                    kind: .account, account: account, subscription: nil, knownSince: account.firstPurchase)
            }
        }
        return nil
    }
}

extension Simulation {
    /// The id as if the purchaser of a family also had the subscription that is shared with the member: both accounts are
    /// one, with a row of its own and a shared one. Ids of other stories are returned as they are.
    package func joiningFamily(_ found: SimulatedLookup) -> SimulatedLookup {
        let accounts = storyteller.accounts(ofStory: found.account.key.story)
        let shared = accounts.flatMap(\.subscriptions).filter(\.customer.isFamilyMember)
        guard let purchaser = accounts.first, !shared.isEmpty else { return found }
        let account = purchaser.sharing(shared)
        let subscription = account.subscriptions.first {
            $0.originalTransactionId == found.subscription?.originalTransactionId
        }
        return SimulatedLookup(
            kind: found.kind, account: account, subscription: subscription, knownSince: found.knownSince)
    }
}

extension SimulatedAccount {
    fileprivate func lookup(transactionId id: String, at instant: Instant) -> SimulatedLookup? {
        let copied = restoredCopy?.transactionId == id ? restoredCopy : nil
        func has(_ entry: BookEntry) -> Bool {
            entry.purchases.contains { $0.transactionId == copied?.of ?? id }
        }
        let known = subscriptions.filter { $0.history.contains(where: has) }
        // What was moved is found where it is.
        let holder = known.first { $0.books(at: instant).map(has) ?? false } ?? known.first
        guard let holder, let first = known.compactMap({ $0.history.first(where: has) }).min(by: { $0.at < $1.at })
        else { return nil }
        let isOriginal = first.purchases.first?.transactionId == id
        return SimulatedLookup(
            kind: isOriginal ? .original : .transaction, account: self, subscription: holder,
            knownSince: max(copied?.at ?? first.at, first.at))
    }
}
