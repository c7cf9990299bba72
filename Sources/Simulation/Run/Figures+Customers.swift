import Encoding

extension Figures {
    /// What a customer has at an instant, over all subscriptions.
    private enum CustomerState: String {
        case paying
        case grace = "in_grace"
        case trial = "in_trial"
    }

    /// Adds the state of a customer on the days of the balances, and each change of the customer.
    mutating func addCustomer(_ all: [CountedSubscription], owned: Range<Instant>) {
        let subscriptions = all.filter { !$0.isOfMember }
        for day in balanceDays {
            guard let state = Self.state(of: subscriptions, owned: owned, at: day) else { continue }
            add(1, "active_customers", Self.day(day), state.rawValue)
            if state != .trial { add(1, "customer_churn_rate", Self.day(day), "customers") }
        }
        addCustomerMovements(subscriptions, owned: owned)
        addLifetimeValue(subscriptions, owned: owned)
        addValueMovements(subscriptions, owned: owned)
    }

    private mutating func addCustomerMovements(_ subscriptions: [CountedSubscription], owned: Range<Instant>) {
        let boundaries = Set(subscriptions.flatMap(\.access.boundaries) + [owned.lowerBound, owned.upperBound])
        var isActive = false
        var isKnown = false
        var hasPaid = false
        for boundary in boundaries.filter({ $0 > .earliest && $0 < .latest && $0 <= asOf }).sorted() {
            let state = Self.state(of: subscriptions, owned: owned, at: boundary)
            let month = Self.month(boundary)
            let end = Self.end(of: subscriptions, owned: owned, at: boundary)
            if let state, state != .trial { hasPaid = true }
            if isActive, state != nil, end?.isTrial == false { add(1, "customer_movements", month, "contracted") }
            guard (state != nil) != isActive else { continue }
            isActive.toggle()
            if isActive {
                add(1, "customer_movements", month, isKnown ? "returned" : "new")
                isKnown = true
                hasPaid = state != .trial
            } else {
                // Without an end, the subscriptions went to another customer.
                addCustomerChurn(month, hasPaid: hasPaid, reason: end?.reason ?? "transferred")
            }
            add(isActive ? 1 : -1, "customer_movements", month, "net")
        }
    }

    private mutating func addCustomerChurn(_ month: String, hasPaid: Bool, reason: String) {
        add(1, "customer_movements", month, hasPaid ? "churned" : "trials_lost")
        add(1, "customer_churn", month, reason)
        guard hasPaid else { return }
        add(1, "customer_churn_rate", month, "churned")
        switch reason {
        case "voluntary", "price": add(1, "customer_churn_rate", month, "voluntary")
        case "billing": add(1, "customer_churn_rate", month, "involuntary")
        default: break
        }
    }

    /// How a subscription of the customer ends at the instant. Of several, one after a paid period is preferred, then one
    /// with a known reason.
    private static func end(
        of subscriptions: [CountedSubscription], owned: Range<Instant>, at instant: Instant
    ) -> (isTrial: Bool, reason: String)? {
        let before = instant.advanced(byMilliseconds: -1)
        guard owned.contains(before) else { return nil }
        let ends = subscriptions.compactMap { subscription -> (isTrial: Bool, reason: String)? in
            guard !subscription.access.isHeld(at: instant),
                let (purchase, isGrace) = subscription.holder(at: before), purchase.isOfRenewing
            else { return nil }
            let isTrial = !isGrace && purchase.isTrial
            return (isTrial: isTrial, reason: subscription.reason(endOf: purchase, at: instant))
        }
        let paid = ends.filter { !$0.isTrial }
        let preferred = paid.isEmpty ? ends : paid
        return preferred.filter { $0.reason != "unknown" }.min { $0.reason < $1.reason } ?? preferred.first
    }

    private static func state(
        of subscriptions: [CountedSubscription], owned: Range<Instant>, at instant: Instant
    ) -> CustomerState? {
        guard owned.contains(instant) else { return nil }
        let states = subscriptions.compactMap { subscription -> CustomerState? in
            guard let (purchase, isGrace) = subscription.holder(at: instant), purchase.isOfRenewing else {
                return nil
            }
            return isGrace ? .grace : purchase.isTrial ? .trial : .paying
        }
        return [.paying, .grace, .trial].first { states.contains($0) }
    }
}
