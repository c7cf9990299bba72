import Encoding

/// Which customer an id leads to during an interval, which includes `from` and excludes `until`.
///
/// The intervals of an id cover all time and are disjoint. A subscription with several owners leads to the one with the
/// strongest and latest evidence.
package struct CustomerIdentity: Sendable, Hashable {
    package let key: CustomerKey
    package let customer: CustomerKey
    package let from: Instant
    package let until: Instant

    package init(key: CustomerKey, customer: CustomerKey, from: Instant, until: Instant) {
        self.key = key
        self.customer = customer
        self.from = from
        self.until = until
    }

    /// Whether the id leads to the customer at an instant. The last interval has no end.
    package func isInForce(at instant: Instant) -> Bool {
        from <= instant && (instant < until || until == .latest)
    }
}

/// Who owns some subscriptions and which customers their ids lead to.
///
/// A function of the set of evidence and links: neither order nor repetition matters.
package struct Customers: Sendable, Hashable {
    /// In order of subscription, start and owner.
    package let ownership: [Ownership]
    /// In order of key and start.
    package let identities: [CustomerIdentity]

    init(ownership: [Ownership], identities: [CustomerIdentity]) {
        self.ownership = ownership
        self.identities = identities
    }

    /// - Parameters:
    ///   - evidence: Of whole store accounts.
    ///   - links: All that name one of their keys.
    ///   - sharedTokens: The account tokens of more store accounts than the app's rules allow. They lead to no customer,
    ///     and neither purchases with them nor links on them say who owns a subscription.
    package init(
        of evidence: [OwnershipEvidence], links: CustomerLinks, policy: OwnershipPolicy,
        sharedTokens: Set<CustomerKey> = []
    ) {
        var none = NoRules()
        self.init(of: evidence, links: links, policy: policy, sharedTokens: sharedTokens, collecting: &none)
    }

    /// Like ``init(of:links:policy:sharedTokens:)``, and records each rule where it is applied.
    package init(
        of evidence: [OwnershipEvidence], links: CustomerLinks, policy: OwnershipPolicy,
        sharedTokens: Set<CustomerKey> = [], explaining rules: inout AppliedRules
    ) {
        self.init(of: evidence, links: links, policy: policy, sharedTokens: sharedTokens, collecting: &rules)
    }

    private init(
        of evidence: [OwnershipEvidence], links: CustomerLinks, policy: OwnershipPolicy,
        sharedTokens: Set<CustomerKey>, collecting rules: inout some RuleCollector
    ) {
        let evidence = evidence.map { $0.ignoring(sharedTokens, &rules) }
        let accounts = StoreAccount.all(of: evidence).map { $0.customers(links: links, policy: policy, &rules) }
        var ownership = accounts.flatMap(\.ownership)
        var identities = accounts.flatMap(\.identities)
        let known = Set(identities.map(\.key))
        let tokens = Set(evidence.flatMap { $0.purchases.map(\.token) })
        let handedIn = HandedInTokens(of: evidence, ownership: ownership, links: links)
        for one in evidence {
            guard let account = one.continuedAccount, let owner = handedIn.owner(ofWhatContinues: account) else {
                continue
            }
            let keys = Set(evidence.lazy.filter { $0.line == one.subscription }.map(\.subscription))
                .union([one.subscription])
            for index in ownership.indices
            where ownership[index].owner == account && ownership[index].originalTransactionId == one.subscription.id {
                ownership[index] = ownership[index].passed(to: owner)
                rules.collect(.owning(ownership[index]))
            }
            for index in identities.indices
            where identities[index].customer == account && keys.contains(identities[index].key) {
                let identity = identities[index]
                identities[index] = CustomerIdentity(
                    key: identity.key, customer: owner, from: identity.from, until: identity.until)
            }
        }
        self.ownership =
            ownership
            .sorted { ($0.originalTransactionId, $0.from, $0.owner) < ($1.originalTransactionId, $1.from, $1.owner) }
        for key in tokens.union(links.keys).subtracting(known).subtracting(sharedTokens) {
            let unlinked = tokens.contains(key) ? handedIn.customer(of: key) ?? key : nil
            guard let customer = links.inForce(on: key, policy: policy).last?.customer ?? unlinked else { continue }
            identities.append(CustomerIdentity(key: key, customer: customer, from: .earliest, until: .latest))
        }
        for customer in links.customers {
            identities.append(CustomerIdentity(key: customer, customer: customer, from: .earliest, until: .latest))
        }
        self.identities = identities.sorted { ($0.key, $0.from) < ($1.key, $1.from) }
    }

    /// The customer that a key leads to at an instant; nil if the key is not known.
    package func customer(_ key: CustomerKey, at instant: Instant) -> CustomerKey? {
        identities.first { $0.key == key && $0.isInForce(at: instant) }?.customer
    }

    /// The subscriptions of a customer, each with the access that it has or had by owning it.
    ///
    /// - Parameter subscriptions: Those of the evidence.
    package func subscriptions(of customer: CustomerKey, among subscriptions: [Subscription]) -> [Subscription] {
        let owned = Dictionary(grouping: ownership.lazy.filter { $0.owner == customer }, by: \.originalTransactionId)
        return subscriptions.compactMap { subscription in
            owned[ByteString(subscription.originalTransactionId)].map { subscription.owned(during: $0.map(\.interval)) }
        }
    }
}
