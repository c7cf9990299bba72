import Encoding

extension SubscriptionLife {
    /// Reports purchases under another subscription of the same Apple Account from now on, as Apple did with customers
    /// who had come back under a new original transaction id. The next notification of the other one says so.
    ///
    /// - Parameters:
    ///   - transactionIds: They were made last.
    ///   - preference: The next renewal of this subscription as it was without them; nil if it had no other purchase.
    package mutating func move(
        _ transactionIds: Set<String>, to other: inout SubscriptionLife, leaving preference: RenewalPreference?,
        at instant: Instant
    ) {
        let moved = purchases.filter { transactionIds.contains($0.transactionId) }
        precondition(moved.count == transactionIds.count && !moved.isEmpty, "unknown purchase")
        purchases.removeAll { transactionIds.contains($0.transactionId) }
        other.purchases += moved
        other.renewalPreference = renewalPreference
        renewalPreference = preference
        access.move(transactionIds, to: &other.access)
        other.failures += failures.filter { transactionIds.contains($0.transactionId) }
        failures.removeAll { transactionIds.contains($0.transactionId) }
        for id in transactionIds { other.endings[id] = endings.removeValue(forKey: id) }
        record(at: instant, isNotified: false)
    }

    /// Reports a refund once more, under the subscription that has the purchase now.
    package mutating func repeatRefund(at instant: Instant) {
        precondition(current.revocation != nil, "the purchase is not refunded")
        send(StoreNotification.Name("REFUND"), version1: nil, at: instant, .revoked, isPrompt: true)
    }
}
