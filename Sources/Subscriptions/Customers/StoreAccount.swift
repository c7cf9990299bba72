import Encoding

/// The subscriptions of one Apple Account, as far as their facts show that they belong together.
package struct StoreAccount: Sendable {
    /// In order of their ids.
    package let subscriptions: [OwnershipEvidence]
    /// Every key of kind `app_transaction` or `subscription` that ties them together, their own ids included.
    package let keys: [CustomerKey]
    private let byKey: [CustomerKey: OwnershipEvidence]

    /// Groups subscriptions that share an `appTransactionId`, arrived in one receipt, or were migrated.
    package static func all(of evidence: [OwnershipEvidence]) -> [StoreAccount] {
        var groups = KeyGroups()
        for one in evidence {
            for key in one.ties.keys { groups.join(one.subscription, key) }
        }
        var accounts: [CustomerKey: [OwnershipEvidence]] = [:]
        for one in evidence { accounts[groups.group(of: one.subscription), default: []].append(one) }
        return accounts.sorted { $0.key < $1.key }.map { StoreAccount($0.value) }
    }

    private init(_ evidence: [OwnershipEvidence]) {
        subscriptions = evidence.sorted { $0.subscription < $1.subscription }
        keys = Set(evidence.flatMap { [$0.subscription] + $0.ties.keys }).sorted()
        byKey = evidence.reduce(into: [:]) { $0[$1.subscription] = $1 }
    }

    /// The subscription of which a purchase is part, or to which all purchases of a subscription moved; the key itself if it
    /// is neither.
    func line(of key: CustomerKey) -> CustomerKey {
        var (line, seen) = (key, Set<CustomerKey>())
        while let one = byKey[line], let next = one.line ?? one.successor, seen.insert(line).inserted { line = next }
        return line
    }

    /// The evidence about the subscription that a key names, or of which it is part.
    func evidence(about key: CustomerKey) -> OwnershipEvidence? {
        byKey[line(of: key)]
    }

    /// The purchases with a token of all subscriptions, in their order.
    var purchases: [OwnershipEvidence.Purchase] { subscriptions.flatMap(\.purchases).sorted() }

    /// The customer that a store account without an app user is: its smallest `originalTransactionId`.
    private var customer: CustomerKey {
        // Every store account has a subscription.
        keys.first { $0.kind == .subscription } ?? CustomerKey(.subscription, "")
    }
}

// MARK: - Owners

extension StoreAccount {
    /// A customer's claim, before it is clear to which subscriptions it applies.
    private struct Claim {
        var owner: CustomerKey
        var from = Instant.earliest
        var until = Instant.latest
        var reason: Ownership.Reason
        var position: Int64?
        /// The purchase of the next owner, which ends the claim.
        var next: OwnershipEvidence.Purchase?
        /// The later purchases of other app users, which the policy ignores.
        var ignored: ArraySlice<OwnershipEvidence.Purchase> = []
    }

    /// Returns who owns the subscriptions of the store account, in order of their ids, and to which customers its keys
    /// lead, in order of the keys.
    func customers(
        links: CustomerLinks, policy: OwnershipPolicy, _ rules: inout some RuleCollector
    ) -> Customers {
        let links = AccountLinks(of: self, links, policy, &rules)
        let rest = restClaims(links, policy)
        return Customers(
            ownership: ownership(rest, links, policy, &rules), identities: identities(rest, links, policy))
    }

    private func ownership(
        _ rest: [Claim], _ links: AccountLinks, _ policy: OwnershipPolicy, _ rules: inout some RuleCollector
    ) -> [Ownership] {
        var ownership: [Ownership] = []
        for one in subscriptions where one.line == nil {
            let claims = claims(on: one.subscription, rest, links, policy)
            for claim in claims {
                let owned = Ownership(
                    originalTransactionId: one.subscription.id, owner: claim.owner, from: claim.from,
                    until: claim.until, reason: claim.reason, position: claim.position)
                rules.collect(.owning(owned))
                if let next = claim.next { rules.collect(.losing(owned, to: next)) }
                if let later = claim.ignored.first(where: { $0.token != claim.owner }) {
                    rules.collect(.keeping(owned, from: later))
                }
                if claims.count > 1, policy == .shared { rules.collect(.sharing(owned)) }
                ownership.append(owned)
            }
            for owned in seats(of: one, beside: claims) {
                rules.collect(.owning(owned))
                ownership.append(owned)
            }
            for held in one.seats.held where held.until < .latest { rules.collect(.losing(held, of: one.subscription)) }
        }
        return ownership
    }

    /// The seats of a subscription, without the time in which their customers own it anyway.
    private func seats(of one: OwnershipEvidence, beside claims: [Claim]) -> [Ownership] {
        one.seats.held.flatMap { held in
            var parts = [held.from..<held.until]
            for claim in claims where claim.owner == held.customer {
                parts = parts.flatMap { part in
                    [
                        part.lowerBound..<min(part.upperBound, max(claim.from, part.lowerBound)),
                        max(part.lowerBound, min(claim.until, part.upperBound))..<part.upperBound,
                    ].filter { !$0.isEmpty }
                }
            }
            return parts.map { part in
                Ownership(
                    originalTransactionId: one.subscription.id, owner: held.customer, from: part.lowerBound,
                    until: part.upperBound, reason: .seat, position: held.position)
            }
        }
    }

    private func identities(
        _ rest: [Claim], _ links: AccountLinks, _ policy: OwnershipPolicy
    ) -> [CustomerIdentity] {
        keys.flatMap { key in
            let all = key.kind == .subscription ? claims(on: key, rest, links, policy) : rest
            // Of several owners at once, the last one has the strongest and latest evidence.
            return (policy == .shared ? all.suffix(1) : all[...]).map { claim in
                CustomerIdentity(key: key, customer: claim.owner, from: claim.from, until: claim.until)
            }
        }
    }

    /// - Parameter key: A subscription, or a purchase that is part of one.
    private func claims(
        on key: CustomerKey, _ rest: [Claim], _ links: AccountLinks, _ policy: OwnershipPolicy,
        after continuing: Set<CustomerKey> = []
    ) -> [Claim] {
        let linked = links.inForce(on: key)
            .map { Claim(owner: $0.customer, reason: .link, position: $0.position) }
        if policy != .shared, !linked.isEmpty { return linked }
        let own = evidence(about: key)
        var bought = Self.claims(of: own?.purchases ?? [], as: .account, policy) { links.owners(of: $0.token) }
        if let own, let former = own.continued.flatMap(evidence(about:)), !continuing.contains(own.subscription),
            Set(own.purchases.map(\.token)).isSubset(of: former.purchases.map(\.token))
        {
            bought = claims(
                on: former.subscription, rest, links, policy, after: continuing.union([own.subscription])
            ).map { claim in
                var claim = claim
                if claim.reason != .unclaimed { claim.reason = .storeAccount }
                return claim
            }
        }
        let claims = Self.distinct(bought + linked, policy)
        return claims.isEmpty ? rest : claims
    }

    /// Who owns what carries neither link nor token: the customer that linked the `appTransactionId`, otherwise the app
    /// users of the purchases with a token, otherwise the customer with the latest link on a subscription of the store
    /// account, otherwise the store account itself.
    ///
    /// A token that no backend has linked and the customer who handed in a purchase with it are one app user here.
    private func restClaims(_ links: AccountLinks, _ policy: OwnershipPolicy) -> [Claim] {
        func linked(_ found: [CustomerLinks.Link]) -> [Claim] {
            let counting = policy == .shared ? found[...] : found.suffix(1)
            return Self.distinct(
                counting.map { Claim(owner: $0.customer, reason: .storeAccount, position: $0.position) }, policy)
        }
        let byAppTransaction = linked(links.ofAppTransactions)
        if !byAppTransaction.isEmpty { return byAppTransaction }
        let bought = Self.claims(of: purchases, as: .storeAccount, policy) {
            links.owners(of: $0.token, orHandedIn: true)
        }
        if !bought.isEmpty { return bought }
        let bySubscription = linked(links.ofSubscriptions)
        return bySubscription.isEmpty ? [Claim(owner: customer, reason: .unclaimed)] : bySubscription
    }

    /// The app users of purchases with a token, by the policy. The first one owns the past before the purchase, too.
    ///
    /// - Parameters:
    ///   - purchases: In their order.
    ///   - owners: The links by which customers are the app user of a purchase; empty if the token is.
    private static func claims(
        of purchases: [OwnershipEvidence.Purchase], as reason: Ownership.Reason, _ policy: OwnershipPolicy,
        owners: (OwnershipEvidence.Purchase) -> [CustomerLinks.Link]
    ) -> [Claim] {
        func claims(_ purchase: OwnershipEvidence.Purchase) -> [Claim] {
            let holders = owners(purchase)
            return holders.isEmpty
                ? [Claim(owner: purchase.token, reason: reason, position: purchase.position)]
                : holders.map { Claim(owner: $0.customer, reason: reason, position: $0.position) }
        }
        switch policy {
        case .shared: return distinct(purchases.flatMap(claims), policy)
        case .firstBuyer:
            return purchases.prefix(1).flatMap(claims).map { claim in
                var claim = claim
                claim.ignored = purchases.dropFirst()
                return claim
            }
        case .latestBuyer:
            var all: [Claim] = []
            for (index, purchase) in purchases.enumerated() {
                // Of purchases of one instant the last one decides.
                let isLast = index + 1 == purchases.count || purchases[index + 1].purchaseDate > purchase.purchaseDate
                guard isLast else { continue }
                for owner in claims(purchase) where all.last?.owner != owner.owner {
                    var claim = owner
                    if !all.isEmpty {
                        all[all.count - 1].until = purchase.purchaseDate
                        all[all.count - 1].next = purchase
                        claim.from = purchase.purchaseDate
                    }
                    all.append(claim)
                }
            }
            return all
        }
    }

    /// Under ``OwnershipPolicy/shared``, the last claim of each customer: all of them hold for all time.
    private static func distinct(_ claims: [Claim], _ policy: OwnershipPolicy) -> [Claim] {
        guard policy == .shared else { return claims }
        var seen: Set<CustomerKey> = []
        return claims.reversed().filter { seen.insert($0.owner).inserted }.reversed()
    }
}
