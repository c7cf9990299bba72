import Subscriptions

extension SubscriptionLife {
    /// Pays a purchase back in full: as if it had never been made.
    ///
    /// - Parameters:
    ///   - transactionId: The current purchase when nil. For that the store first switches renewal off.
    ///   - wasRequestedInApp: The store asks the developer beforehand.
    package mutating func refund(
        _ transactionId: String? = nil, at instant: Instant, wasRequestedInApp: Bool = false
    ) {
        let id = transactionId ?? current.transactionId
        prepareRefund(of: id, at: instant, wasRequestedInApp)
        change(id) { $0.revocation = Revocation(date: instant, kind: .full, reason: 1, percentage: 100_000) }
        access.takeBack(id, at: instant)
        tellRefund(of: id, version1: "CANCEL", at: instant)
    }

    /// Pays the rest of the current purchase back: it ends there. Version 1 has no such thing.
    package mutating func refundRest(at instant: Instant, percentage: Int = 50_000) {
        let id = current.transactionId
        prepareRefund(of: id, at: instant, false)
        change(id) { $0.revocation = Revocation(date: instant, kind: .prorated, reason: 0, percentage: percentage) }
        access.cut(id, at: instant)
        tellRefund(of: id, version1: nil, at: instant)
    }

    /// A refund is taken back after a dispute: the purchase counts again. Version 1 does not tell.
    package mutating func reverseRefund(of transactionId: String, at instant: Instant) {
        change(transactionId) { $0.revocation = nil }
        access.giveBack(transactionId, at: instant)
        tell(
            Telling.Name("REFUND_REVERSED"), version1: nil, at: instant, status(at: instant),
            about: purchase(transactionId))
    }

    /// The customer asks for a refund in the app, and the store says no.
    package mutating func declineRefund(requested: Instant, declined: Instant) {
        tellConsumptionRequest(about: current, at: requested)
        tell(Telling.Name("REFUND_DECLINED"), version1: nil, at: declined, status(at: declined))
    }

    /// A family member loses access, because of the member or of the purchaser.
    package mutating func revokeFamilyAccess(at instant: Instant) {
        precondition(customer.isFamilyMember, "the purchaser cannot leave")
        let id = current.transactionId
        change(id) { $0.revocation = Revocation(date: instant, kind: .family, reason: 0, percentage: nil) }
        access.cut(id, at: instant)
        setRenewal(false, at: instant)
        tell(Telling.Name("REVOKE"), version1: "REVOKE", at: instant, .revoked)
    }

    private mutating func prepareRefund(of id: String, at instant: Instant, _ wasRequestedInApp: Bool) {
        if wasRequestedInApp {
            let requested = instant.advanced(byMilliseconds: -6 * 3_600_000)
            tellConsumptionRequest(about: purchase(id), at: max(requested, purchase(id).purchaseDate))
        }
        guard id == current.transactionId, intended.isOn else { return }
        // A few seconds before, so that what is told then shows the purchase as it still stands.
        let switched = instant.advanced(byMilliseconds: -2 * Self.secondMilliseconds)
        setRenewal(false, at: switched)
        tell(
            Telling.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"), version1: "DID_CHANGE_RENEWAL_STATUS",
            at: switched, .active, isPrompt: true)
    }

    private mutating func tellRefund(of id: String, version1: String?, at instant: Instant) {
        let status = id == current.transactionId ? .revoked : status(at: instant)
        tell(Telling.Name("REFUND"), version1: version1, at: instant, status, about: purchase(id))
    }

    private mutating func tellConsumptionRequest(about subject: Purchase, at instant: Instant) {
        tell(
            Telling.Name("CONSUMPTION_REQUEST"), version1: nil, at: instant, status(at: instant), about: subject,
            consumptionRequestReason: "UNINTENDED_PURCHASE")
    }

    private func purchase(_ transactionId: String) -> Purchase {
        guard let found = purchases.first(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("there is no such purchase")
        }
        return found
    }

    private func status(at instant: Instant) -> Telling.Status {
        access.isActive(at: instant) ? .active : .expired
    }
}
