import Encoding

/// One subscription or one-time purchase of a story.
package struct SimulatedSubscription: Sendable {
    package private(set) var customer: Customer
    /// Ordered by signing time.
    package let notifications: [StoreNotification]
    /// The simulator's own record of access.
    package let access: AccessBook
    /// The purchases at the end of the story, oldest first.
    package let purchases: [Purchase]
    package let failures: [FailedRenewal]
    /// See ``SubscriptionLife/endings``.
    package let endings: [String: Ending]
    /// The books after each event, in the order of the events.
    package let history: [BookEntry]
    /// Begins with a copy of another subscription's purchase.
    package let isRestored: Bool

    package init(_ life: SubscriptionLife) {
        customer = life.customer
        notifications = life.notifications
        access = life.access
        purchases = life.purchases
        failures = life.failures
        endings = life.endings
        history = life.history
        isRestored = life.isRestored
    }

    package init(_ life: OneTimeLife) {
        customer = life.customer
        notifications = life.notifications
        access = life.access
        purchases = [life.purchase]
        failures = []
        endings = [:]
        history = life.history
        isRestored = false
    }

    /// The books after each notification, in the order of the notifications.
    package var notifiedBooks: [BookEntry] { history.filter(\.isNotified) }

    /// The books at the instant; nil before the first purchase.
    package func books(at instant: Instant) -> BookEntry? {
        history.last { $0.at <= instant }
    }

    /// The same subscription on another Apple Account.
    func copy(appTransactionId: String) -> SimulatedSubscription {
        var copy = self
        copy.customer.appTransactionId = appTransactionId
        return copy
    }

    package var originalTransactionId: String { notifications.first?.purchases.first?.transactionId ?? "" }

    /// The products of all purchases.
    package var products: [Product] { notifications.last?.purchases.map(\.product) ?? [] }

    /// The ids of the customer, as far as the format contains them.
    ///
    /// A token that is not the customer's own is omitted.
    package func ids(_ format: Simulation.Format) -> [SimulatedId] {
        let token = customer.statesOwnToken ? customer.appAccountToken : nil
        let account = format == .v1 || !customer.statesAppTransaction ? nil : customer.appTransactionId
        return [
            token.map { SimulatedId(.account, $0) }, account.map { SimulatedId(.appTransaction, $0) },
            SimulatedId(.subscription, originalTransactionId),
        ].compactMap(\.self)
    }

    func link(by key: SimulatedLink.Key) -> SimulatedLink {
        SimulatedLink(key: key, originalTransactionId: originalTransactionId, customer: customer)
    }

    /// The instant of the last event, ignoring the end of non-consumables.
    var end: Instant {
        let boundaries = access.boundaries.filter { $0 < .latest }
        return max(boundaries.max() ?? .earliest, notifications.last?.signedDate ?? .earliest)
    }

    /// The instant of the last event, without an end of access that nobody caused. A renewal that is charged early begins later.
    var lastEvent: Instant {
        let known = [notifications.last?.signedDate, history.last?.at, purchases.map(\.purchaseDate).max()]
        return known.compactMap(\.self).max() ?? .earliest
    }
}
