import Encoding

/// Where account tokens lead that no backend has linked, but with which a customer handed in a purchase: to that customer,
/// who is their app user.
///
/// A token leads to the customer only if every subscription with it is the customer's, carries no other token, and was never
/// linked by another customer. So it never leads to one of several users of a store account, and a token that an app sets for
/// several users leads to none of them. Whose a purchase is does not depend on where its token leads. A subscription that was
/// bought outside the app and continues another one of its account says nothing: it belongs to the owner of the others.
package struct HandedInTokens {
    /// Most subscriptions of a token that are looked at, in order of store account and id.
    package static let subscriptionsMax = 20

    private var bought: [CustomerKey: [OwnershipEvidence]] = [:]
    /// Those that only continue others of the account.
    private var continuing: [CustomerKey: [OwnershipEvidence]] = [:]
    private var owners: [ByteString: Set<CustomerKey>] = [:]
    /// The subscriptions and purchases that are part of one or lead to it.
    private var parts: [CustomerKey: [CustomerKey]] = [:]
    private let links: CustomerLinks

    init(of evidence: [OwnershipEvidence], ownership: [Ownership], links: CustomerLinks) {
        self.links = links
        guard links.haveHandIns || evidence.contains(where: { $0.continuedAccount != nil }) else { return }
        for one in evidence {
            parts[one.line ?? one.successor ?? one.subscription, default: []].append(one.subscription)
            guard one.line == nil else { continue }
            if let account = one.continuedAccount {
                continuing[account, default: []].append(one)
                continue
            }
            for token in Set(one.purchases.map(\.token)) { bought[token, default: []].append(one) }
        }
        for owned in ownership where owned.reason != .seat {
            owners[owned.originalTransactionId, default: []].insert(owned.owner)
        }
    }

    /// The backend's customer to whom a token leads; nil if there is none.
    func customer(of token: CustomerKey) -> CustomerKey? {
        let found = first(bought[token] ?? continuing[token])
        guard let owner = soleOwner(of: found),
            found.allSatisfy({ one in one.purchases.allSatisfy { $0.token == token } })
        else { return nil }
        let linked = found.flatMap { parts[$0.subscription] ?? [] }.flatMap(links.all) + links.all(on: token)
        let isHandedIn = linked.contains { $0.basis == .purchase }
        return isHandedIn && linked.allSatisfy { $0.customer == owner } ? owner : nil
    }

    /// The backend's customer who owns the subscriptions with a token, and so what continues one of them; nil if there is
    /// none, or if they have several owners.
    func owner(ofWhatContinues token: CustomerKey) -> CustomerKey? { soleOwner(of: first(bought[token])) }

    private func first(_ found: [OwnershipEvidence]?) -> [OwnershipEvidence] {
        func place(_ one: OwnershipEvidence) -> (ByteString, ByteString) {
            (one.storeAccount ?? ByteString(""), one.subscription.id)
        }
        return Array((found ?? []).sorted { place($0) < place($1) }.prefix(Self.subscriptionsMax))
    }

    private func soleOwner(of found: [OwnershipEvidence]) -> CustomerKey? {
        let owners = found.reduce(into: Set<CustomerKey>()) { $0.formUnion(self.owners[$1.subscription.id] ?? []) }
        return owners.count == 1 ? owners.first.flatMap { $0.kind == .link ? $0 : nil } : nil
    }
}
