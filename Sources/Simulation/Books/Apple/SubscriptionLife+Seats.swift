import Encoding

/// Subscriptions of several people, as Apple's documentation describes them. No genuine body was seen.
extension SubscriptionLife {
    /// Buys more seats for the rest of the current period. Each of its transactions then says that there are several.
    package mutating func addSeats(_ tiers: [Seats.Tier], at instant: Instant) {
        let first = current
        guard let before = first.seats, let next = currentPreference.seats else {
            preconditionFailure("the subscription has no seats")
        }
        var seats = Seats(tiers, before.invitations)
        seats.isAddition = true
        seats.isOneOfSeveral = true
        for index in purchases.indices where purchases[index].expiresDate == first.expiresDate {
            purchases[index].seats?.isOneOfSeveral = true
        }
        charge(first.product, from: instant, to: expiry, .purchase, seats: seats)
        updatePreference { $0.seats = Seats(next.tiers + tiers, next.invitations) }
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_PREF", "INCREASE_QUANTITY"), version1: nil, at: instant, .active)
    }

    /// Renews with fewer seats. They stay until the end of the period.
    package mutating func chooseSeats(_ tiers: [Seats.Tier], at instant: Instant) {
        updatePreference { $0.seats = $0.seats.map { Seats(tiers, $0.invitations) } }
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_PREF", "DECREASE_QUANTITY"), version1: nil, at: instant, .active)
    }

    /// Refunds seats of the current purchase. The purchaser keeps the subscription as long as a seat is left in one of the
    /// transactions of the period. Only a transaction of which all seats are refunded is revoked.
    package mutating func refundSeats(_ count: Int, at instant: Instant) {
        let id = current.transactionId
        guard let seats = current.seats, count <= seats.quantity, current.revocation == nil else {
            preconditionFailure("the seats were not bought")
        }
        if count == seats.quantity {
            change(id) { $0.revocation = Revocation(date: instant, kind: .full, reason: 0, percentage: 100_000) }
            access.takeBack(id, at: instant)
        } else {
            change(id) {
                $0.seats?.revoked = count
                $0.seats?.revokedAt = instant
            }
        }
        let status: StoreNotification.Status = access.isActive(at: instant) ? .active : .revoked
        send(StoreNotification.Name("REFUND", "SEATS"), version1: nil, at: instant, status)
    }

    /// Takes back claims of seats whose members the app's server knows.
    package mutating func unclaimSeats(_ count: Int, at instant: Instant) {
        let ids = (0..<count).map { _ in identifiers.uuid() }
        send(
            StoreNotification.Name("UNCLAIM_SEATS"), version1: nil, at: instant, .active, unclaimedSeats: ids)
    }
}
