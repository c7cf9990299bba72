import Encoding

extension SubscriptionLife {
    /// Refunds a purchase in full. Its whole period gives no access.
    ///
    /// - Parameters:
    ///   - transactionId: The purchase; nil for the current one, for which the store first switches auto-renewal off.
    ///   - wasRequestedInApp: The store sends a `CONSUMPTION_REQUEST` first.
    package mutating func refund(
        _ transactionId: String? = nil, at instant: Instant, wasRequestedInApp: Bool = false
    ) {
        let id = transactionId ?? current.transactionId
        prepareRefund(of: id, at: instant, wasRequestedInApp)
        change(id) { $0.revocation = Revocation(date: instant, kind: .full, reason: 1, percentage: 100_000) }
        access.takeBack(id, at: instant)
        sendRefund(of: id, version1: "CANCEL", at: instant)
    }

    /// Refunds the current purchase in the second in which the store switches auto-renewal off, and says so first. Version 1
    /// has no other dates, so its two notifications are of one second.
    package mutating func refundAtOnce(at instant: Instant) {
        let id = current.transactionId
        setRenewal(false, at: instant)
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"),
            version1: "DID_CHANGE_RENEWAL_STATUS", at: instant, .active, isPrompt: true)
        change(id) { $0.revocation = Revocation(date: instant, kind: .full, reason: 1, percentage: 100_000) }
        access.takeBack(id, at: instant)
        sendRefund(of: id, version1: "CANCEL", at: instant)
    }

    /// Refunds the rest of the current period, which ends at the instant. Version 1 has no prorated refunds.
    package mutating func refundRest(at instant: Instant, percentage: Int = 50_000) {
        let id = current.transactionId
        prepareRefund(of: id, at: instant, false)
        change(id) { $0.revocation = Revocation(date: instant, kind: .prorated, reason: 0, percentage: percentage) }
        access.cut(id, at: instant, .refundedPart)
        sendRefund(of: id, version1: nil, at: instant)
    }

    /// Reverses a refund after a dispute: the purchase gives access again. Version 1 sends no notification.
    package mutating func reverseRefund(of transactionId: String, at instant: Instant) {
        change(transactionId) { $0.revocation = nil }
        access.giveBack(transactionId, at: instant)
        send(
            StoreNotification.Name("REFUND_REVERSED"), version1: nil, at: instant, status(at: instant),
            about: purchase(transactionId))
    }

    /// Declines a refund that the customer requested in the app.
    package mutating func declineRefund(requested: Instant, declined: Instant) {
        sendConsumptionRequest(about: current, at: requested)
        send(StoreNotification.Name("REFUND_DECLINED"), version1: nil, at: declined, status(at: declined))
    }

    /// Ends the access of a member, whether the member or the purchaser caused it. Nobody gets money back.
    package mutating func revokeMember(at instant: Instant) {
        precondition(customer.isMember, "only a member's access can be revoked")
        let id = current.transactionId
        let kind: Revocation.Kind = customer.isFamilyMember ? .family : .assignment
        change(id) { $0.revocation = Revocation(date: instant, kind: kind, reason: 0, percentage: nil) }
        access.cut(id, at: instant, customer.isFamilyMember ? .familyRevoked : .assignmentRevoked)
        setRenewal(false, at: instant)
        send(StoreNotification.Name("REVOKE"), version1: "REVOKE", at: instant, .revoked)
    }

    private mutating func prepareRefund(of id: String, at instant: Instant, _ wasRequestedInApp: Bool) {
        if wasRequestedInApp {
            let requested = instant.advanced(byMilliseconds: -6 * 3_600_000)
            sendConsumptionRequest(about: purchase(id), at: max(requested, purchase(id).purchaseDate))
        }
        guard id == current.transactionId, currentPreference.isOn else { return }
        // Two seconds earlier, so that this notification still contains the purchase without its refund.
        let switched = instant.advanced(byMilliseconds: -2 * Self.secondMilliseconds)
        setRenewal(false, at: switched)
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"),
            version1: "DID_CHANGE_RENEWAL_STATUS", at: switched, .active, isPrompt: true)
    }

    private mutating func sendRefund(of id: String, version1: String?, at instant: Instant) {
        let status = id == current.transactionId ? .revoked : status(at: instant)
        send(StoreNotification.Name("REFUND"), version1: version1, at: instant, status, about: purchase(id))
    }

    private mutating func sendConsumptionRequest(about subject: Purchase, at instant: Instant) {
        send(
            StoreNotification.Name("CONSUMPTION_REQUEST"), version1: nil, at: instant, status(at: instant),
            about: subject, consumptionRequestReason: "UNINTENDED_PURCHASE")
    }

    func purchase(_ transactionId: String) -> Purchase {
        guard let found = purchases.first(where: { $0.transactionId == transactionId }) else {
            preconditionFailure("unknown purchase")
        }
        return found
    }

    private func status(at instant: Instant) -> StoreNotification.Status {
        access.isActive(at: instant) ? .active : .expired
    }
}
