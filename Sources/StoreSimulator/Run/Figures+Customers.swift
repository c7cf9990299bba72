import Encoding

extension Figures {
    /// What a customer has at an instant, over all subscriptions.
    private enum CustomerState: String {
        case paying
        case grace = "in_grace"
        case trial = "in_trial"
    }

    /// Adds the state of each customer on the days of the balances, and each time the customer's access began or ended.
    mutating func addCustomers(_ rendered: RenderedStory) {
        for customer in rendered.customers {
            let subscriptions = customer.subscriptions.map { rendered.subscriptions[$0] }
                .filter { !$0.customer.isFamilyMember }
            for day in Self.balanceDays {
                guard let state = Self.state(of: subscriptions, owned: customer.owns, at: day) else { continue }
                add(1, "active_customers", Self.day(day), state.rawValue)
                if state != .trial { add(1, "customer_churn_rate", Self.day(day), "customers") }
            }
            addCustomerMovements(subscriptions, owned: customer.owns)
        }
    }

    private mutating func addCustomerMovements(_ subscriptions: [SimulatedSubscription], owned: Range<Instant>) {
        let boundaries = Set(subscriptions.flatMap(\.access.boundaries) + [owned.lowerBound, owned.upperBound])
        var isActive = false
        var isKnown = false
        var hasPaid = false
        for boundary in boundaries.filter({ $0 > .earliest && $0 < .latest }).sorted() {
            let state = Self.state(of: subscriptions, owned: owned, at: boundary)
            if let state, state != .trial { hasPaid = true }
            guard (state != nil) != isActive else { continue }
            isActive.toggle()
            let month = Self.month(boundary)
            if isActive {
                add(1, "customer_movements", month, isKnown ? "returned" : "new")
                isKnown = true
                hasPaid = state != .trial
            } else {
                add(1, "customer_movements", month, hasPaid ? "churned" : "trials_lost")
                if hasPaid { add(1, "customer_churn_rate", month, "churned") }
            }
            add(isActive ? 1 : -1, "customer_movements", month, "net")
        }
    }

    private static func state(
        of subscriptions: [SimulatedSubscription], owned: Range<Instant>, at instant: Instant
    ) -> CustomerState? {
        guard owned.contains(instant) else { return nil }
        let states = subscriptions.compactMap { subscription -> CustomerState? in
            guard let (purchase, isGrace) = subscription.holder(at: instant), purchase.expiresDate != nil else {
                return nil
            }
            return isGrace ? .grace : purchase.isTrial ? .trial : .paying
        }
        return [.paying, .grace, .trial].first { states.contains($0) }
    }
}
