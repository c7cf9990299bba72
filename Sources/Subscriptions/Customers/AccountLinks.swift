import Encoding

/// The links that count in a store account: those on its keys, and on the account tokens of its purchases.
///
/// A link that takes its key counts, whichever customer had it. Any other one counts only if, when it was stated, no other customer
/// owned what it names: by the links before it, and by all purchases, whenever they were reported. So the answer to
/// whether it counts depends on the set of events alone, and not on what was known first.
struct AccountLinks {
    typealias Link = CustomerLinks.Link

    private let account: StoreAccount
    private let policy: OwnershipPolicy
    private let tokenLinks: CustomerLinks
    /// The links that count or counted, oldest first, by key. A link on a purchase is one on its subscription.
    private var counting: [CustomerKey: [Link]] = [:]
    /// The ones on `appTransactionId`s, on subscriptions, and on subscriptions by a purchase that was handed in by the
    /// token that decides whose the subscription is, oldest first.
    private var appTransactions: [Link] = []
    private var subscriptions: [Link] = []
    private var handedIn: [CustomerKey: [Link]] = [:]
    /// The purchases with a token of all subscriptions, in their order.
    private let purchases: [OwnershipEvidence.Purchase]

    init(
        of account: StoreAccount, _ links: CustomerLinks, _ policy: OwnershipPolicy, _ rules: inout some RuleCollector
    ) {
        self.account = account
        self.policy = policy
        tokenLinks = links
        purchases = account.purchases
        let all = account.keys.flatMap(links.all).sorted { ($0.position, $0.key) < ($1.position, $1.key) }
        for link in all {
            if !link.basis.takes(under: policy), isContested(link) {
                rules.collect(.refusing(link))
            } else {
                add(link)
            }
        }
        for key in counting.keys.sorted() { _ = policy.inForce(counting[key] ?? [], at: .max, &rules) }
        for token in Set(purchases.map(\.token)).sorted() {
            _ = links.inForce(on: token, policy: policy, at: .max, &rules)
        }
    }

    private mutating func add(_ link: Link) {
        let key = account.line(of: link.key)
        counting[key, default: []].append(link)
        guard key.kind == .subscription else {
            appTransactions.append(link)
            return
        }
        subscriptions.append(link)
        guard link.basis == .purchase, let own = account.evidence(about: key)?.purchases else { return }
        switch policy {
        case .latestBuyer: own.suffix(1).forEach { handedIn[$0.token, default: []].append(link) }
        case .firstBuyer: own.prefix(1).forEach { handedIn[$0.token, default: []].append(link) }
        case .shared: Set(own.map(\.token)).forEach { handedIn[$0, default: []].append(link) }
        }
    }

    // MARK: In force

    /// The links on the subscription that a key names or is part of, or on the `appTransactionId`.
    func inForce(on key: CustomerKey, at position: Int64 = .max) -> [Link] {
        policy.inForce(counting[account.line(of: key)] ?? [], at: position)
    }

    /// The link on an `appTransactionId` that counts for the whole store account; all of them if customers share.
    var ofAppTransactions: [Link] { latest(of: appTransactions, at: .max) }

    /// The link on a subscription that counts for others of the store account; all of them if customers share.
    var ofSubscriptions: [Link] { latest(of: subscriptions, at: .max) }

    /// The latest of some links that counts on its own key; all of them, oldest first, if customers share.
    private func latest(of links: [Link], at position: Int64) -> [Link] {
        func isInForce(_ link: Link) -> Bool { inForce(on: link.key, at: position).contains(link) }
        return policy == .shared ? links.filter(isInForce) : links.last(where: isInForce).map { [$0] } ?? []
    }

    /// The links by which customers are the app user of a token; empty if it is an app user of its own.
    ///
    /// - Parameter orHandedIn: Whether a customer who handed in a purchase with the token is its app user if no backend
    ///   has linked the token.
    func owners(of token: CustomerKey, orHandedIn: Bool = false, at position: Int64 = .max) -> [Link] {
        let linked = tokenLinks.inForce(on: token, policy: policy, at: position)
        guard linked.isEmpty, orHandedIn else { return linked }
        return latest(of: handedIn[token] ?? [], at: position)
    }

    // MARK: Contested

    /// Whether another customer owned what a link names when it was stated.
    private func isContested(_ link: Link) -> Bool {
        let position = link.position
        func isOther(_ holders: [Link]) -> Bool { holders.contains { $0.customer != link.customer } }
        let held = inForce(on: link.key, at: position)
        if isOther(held) { return !isOfFirstAppUser(link, over: held) }
        if !held.isEmpty, policy != .shared { return false }
        let own = account.evidence(about: link.key)?.purchases ?? []
        if !own.isEmpty { return isContested(link, by: own) }
        let ofApp = latest(of: appTransactions, at: position)
        if !ofApp.isEmpty { return isOther(ofApp) }
        if !purchases.isEmpty { return isContested(link, by: purchases) }
        return isOther(latest(of: subscriptions, at: position))
    }

    /// Whether a link is of the first app user of its key, as a backend says, and those who hold the key have only handed it in
    /// earlier, as if they were.
    private func isOfFirstAppUser(_ link: Link, over held: [Link]) -> Bool {
        guard policy == .firstBuyer, held.allSatisfy({ $0.basis == .purchase }),
            let first = account.evidence(about: account.line(of: link.key))?.purchases.first
        else { return false }
        return owners(of: first.token, at: link.position).contains { $0.customer == link.customer }
    }

    /// Whether the app users of purchases with a token contest a link.
    private func isContested(_ link: Link, by purchases: [OwnershipEvidence.Purchase]) -> Bool {
        let tokens = Set(purchases.map(\.token))
        let deciding = policy == .firstBuyer ? Set(purchases.prefix(1).map(\.token)) : tokens
        return deciding.contains { token in
            let owners = owners(of: token, orHandedIn: true, at: link.position)
            guard owners.isEmpty else { return !owners.contains { $0.customer == link.customer } }
            guard policy == .firstBuyer else { return false }
            // Who hands in a purchase is its app user, unless the subscription has several.
            return link.basis == .purchase ? tokens.count > 1 : true
        }
    }
}
