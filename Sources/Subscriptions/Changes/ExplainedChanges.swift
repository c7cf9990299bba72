import Encoding

/// A subscription, with the rules by which it gives access: says why its changes happened, in the words of an
/// ``Explanation``.
package struct ExplainedChanges: Sendable {
    private let explained: ExplainedCustomers
    private let owner: CustomerKey

    /// What every product grants here: changes are about the access of a subscription, not about entitlements.
    private static let access = "access"

    /// - Parameter products: Those by which the rows of the subscription were computed.
    package init(_ facts: SubscriptionFacts, products: ProductCatalog) {
        var rules = AppliedRules()
        let subscription = Subscription(facts, products: products, explaining: &rules)
        owner = CustomerKey(.subscription, subscription.originalTransactionId)
        let always = Ownership(
            originalTransactionId: ByteString(subscription.originalTransactionId), owner: owner, from: .earliest,
            until: .latest, reason: .unclaimed, position: nil)
        explained = ExplainedCustomers(
            customers: Customers(ownership: [always], identities: []),
            lines: [
                ExplainedCustomers.Line(
                    subscription: subscription, rules: rules.all, positions: [], voids: [], keys: [owner],
                    entitlements: Dictionary(rules.all.compactMap(\.productId).map { ($0, [Self.access]) }) { $1 })
            ],
            ownershipRules: [], skipped: [], sources: [])
    }

    /// Why there is access from the change on, or why there is none; for a switched renewal, what that means for the end
    /// of the access. Nil for changes of other kinds.
    package func reason(of change: Change) -> String? {
        guard change.kind.isExplained else { return nil }
        let explanation = explained.explanation(of: Self.access, for: owner, at: change.at)
        let decisive = explanation.because.first
        return switch change.kind {
        case .extended: (explanation.extending ?? explanation.continuation ?? decisive)?.sentence
        case .shortened: (explanation.ending ?? explanation.cut(by: change.cause.position) ?? decisive)?.sentence
        case .renewalSwitched: explanation.couldChange.last?.sentence
        default: decisive?.sentence
        }
    }
}

extension Change.Kind {
    /// Whether ``ExplainedChanges`` gives a reason of such changes.
    package var isExplained: Bool {
        switch self {
        case .opened, .extended, .shortened, .closed, .productChanged, .productAdded, .productRemoved, .renewalSwitched:
            true
        case .nextProduct, .seatsChanged, .customerChanged, .consentRescinded, .unanswerableRequest,
            .unknownOrderVoided, .customerErased:
            false
        }
    }
}

extension Explanation {
    /// The statement that moved the end of the access to where it is.
    fileprivate var extending: Reason? {
        because.first { $0.rule == .extended && $0.period?.upperBound == until }
    }

    /// What an event took back or cut, beside the purchase that is in force.
    fileprivate func cut(by position: Int64?) -> Reason? {
        against.first { reason in
            (reason.rule.effect == .cuts || reason.rule.effect == .removes)
                && position.map(reason.positions.contains) ?? false
        }
    }
}

extension [Ownership] {
    /// Why the customer of a ``Change/Kind/customerChanged`` owns the subscription at the change, or has a seat of it no longer;
    /// nil if it does not own it.
    package func reason(of change: Change) -> String? {
        guard change.kind == .customerChanged, let customer = change.customer else { return nil }
        let own = filter { $0.owner == customer }
        if let owned = own.first(where: { $0.isInForce(at: change.at) }) {
            return Explanation.Reason(.owning(owned), "", for: customer).sentence
        }
        guard let seat = own.filter({ $0.reason == .seat && $0.until <= change.at }).max(by: { $0.until < $1.until })
        else {
            return nil
        }
        let ended = AppliedRule(.seatEnded, of: seat.originalTransactionId.text, at: seat.until, customer: customer)
        return Explanation.Reason(ended, "", for: customer).sentence
    }
}
