import Encoding

extension SubscriptionLife {
    /// Cancels a plan with a commitment. Its monthly charges go on to the end of the commitment, so auto-renewal stays on.
    package mutating func cancelCommitment(at instant: Instant) {
        precondition(billingPlan == .monthly, "the plan has no commitment")
        updatePreference { $0.isCommitmentOn = false }
        send(
            StoreNotification.Name("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"), version1: nil, at: instant,
            .active, isPrompt: true)
    }

    /// Ends a cancelled commitment with its last period.
    package mutating func endCommitment() {
        precondition(!currentPreference.isCommitmentOn, "the commitment is not cancelled")
        setRenewal(false, at: expiry)
        runOut()
    }
}
