import Encoding

/// The state of a subscription in which the facts of events are folded.
package protocol SubscriptionState {
    var facts: SubscriptionFacts { get }

    /// A subscription about which nothing is known.
    init(originalTransactionId: String, position: Int64)

    /// Changes the facts.
    ///
    /// - Parameter position: Of the event that changes them.
    mutating func change(position: Int64, _ body: (inout SubscriptionFacts) -> Void)
}

extension SubscriptionFacts: SubscriptionState {
    package var facts: SubscriptionFacts { self }

    package init(originalTransactionId: String, position: Int64) {
        self.init(originalTransactionId: originalTransactionId)
    }

    package mutating func change(position: Int64, _ body: (inout SubscriptionFacts) -> Void) { body(&self) }
}

/// The states of subscriptions, by id.
extension Dictionary where Key == String, Value: SubscriptionState {
    /// Nil if nothing is known about the subscription.
    private func facts(of id: String) -> SubscriptionFacts? { self[id]?.facts }

    /// Changes the facts of a subscription, which are empty if nothing is known about it.
    ///
    /// - Parameter position: Of the event that changes them.
    package mutating func change(_ id: String, position: Int64, _ body: (inout SubscriptionFacts) -> Void) {
        // Mutate in place: a second reference would make Swift copy all facts.
        self[id, default: Value(originalTransactionId: id, position: position)].change(position: position, body)
    }

    /// The subscription that a purchase belongs to.
    package func line(of purchaseToken: String) -> String {
        facts(of: purchaseToken)?.line?.originalTransactionId ?? purchaseToken
    }

    /// Makes one subscription of the purchases that the facts say continue each other. Call it before the facts are folded
    /// into the subscription that it returns.
    ///
    /// A subscription has the id of its first purchase, even if only its token is known. So an earlier purchase that
    /// becomes known later gives the subscription another id; all others stay as entries that lead to it. The result
    /// depends on the set of links alone, and not on their order.
    ///
    /// - Parameter purchaseToken: The purchase that the facts are about.
    /// - Returns: The id of the purchase's subscription.
    package mutating func join(_ purchaseToken: String, with facts: StatedFacts, position: Int64) -> String {
        var line = line(of: purchaseToken)
        for continued in facts.continuedPurchases.sorted(by: { ByteString($0) < ByteString($1) }) {
            line = join(purchaseToken, to: continued, position: position)
        }
        return line
    }

    /// The purchases whose facts are needed to fold facts about some: the subscriptions to which these lead, and all
    /// purchases of those that a new link joins.
    package func purchasesToLoad(about purchaseTokens: Set<String>, joining links: PurchaseSuccession) -> Set<String> {
        var needed = Set(purchaseTokens.map { line(of: $0) })
        for (purchaseToken, all) in links.links {
            for continued in all {
                let lines = [line(of: purchaseToken), line(of: continued)]
                needed.formUnion(lines)
                let known = facts(of: lines[0])?.succession
                guard lines[0] != lines[1] || known?.contains(purchaseToken, continued) != true else { continue }
                for line in lines { needed.formUnion(facts(of: line)?.succession.members ?? []) }
            }
        }
        return needed
    }

    private mutating func join(_ purchaseToken: String, to continued: String, position: Int64) -> String {
        let (own, other) = (line(of: purchaseToken), line(of: continued))
        var links = self.facts(of: own)?.succession ?? PurchaseSuccession()
        if own == other, links.contains(purchaseToken, continued) { return own }
        if own != other { links.add(self.facts(of: other)?.succession ?? PurchaseSuccession()) }
        links.add(own)
        links.add(other)
        links.add(purchaseToken, to: continued)
        let first = links.first
        for id in [own, other] where id != first {
            guard let moved = self.facts(of: id) else { continue }
            change(first, position: position) { $0.add(moved) }
        }
        // An entry for every purchase, so that each leads to the subscription.
        for member in links.members {
            guard member != first else {
                change(first, position: position) { $0.line = nil }
                continue
            }
            if self.facts(of: member)?.line?.originalTransactionId == first { continue }
            change(member, position: position) { $0.lead(to: first, position: position) }
        }
        return first
    }
}

/// Which purchases of a subscription continue which.
package struct PurchaseSuccession: Sendable, Hashable {
    package private(set) var members: Set<String> = []
    private(set) var links: [String: Set<String>] = [:]

    package init() {}

    mutating func add(_ purchaseToken: String) { members.insert(purchaseToken) }

    package mutating func add(_ purchaseToken: String, to continued: String) {
        members.insert(purchaseToken)
        members.insert(continued)
        links[purchaseToken, default: []].insert(continued)
    }

    mutating func add(_ other: PurchaseSuccession) {
        members.formUnion(other.members)
        links.merge(other.links) { $0.union($1) }
    }

    func contains(_ purchaseToken: String, _ continued: String) -> Bool {
        links[purchaseToken]?.contains(continued) == true
    }

    /// True if every purchase continues another one.
    var isLoop: Bool { members.allSatisfy { links[$0] != nil } }

    /// The purchase that continues none. In a loop, which Google should never report, the smallest token.
    var first: String {
        let unlinked = members.filter { links[$0] == nil }
        return (unlinked.isEmpty ? members : unlinked).min { ByteString($0) < ByteString($1) } ?? ""
    }
}

extension SubscriptionFacts {
    /// All purchases that the facts name, and which continue which.
    package var succession: PurchaseSuccession {
        var links = PurchaseSuccession()
        links.add(line?.originalTransactionId ?? originalTransactionId)
        for stated in purchases.keys {
            let fact = stated.purchase.fact
            links.add(fact.purchaseToken)
            if let continued = fact.continuedPurchaseToken { links.add(fact.purchaseToken, to: continued) }
        }
        return links
    }

    /// Adds all facts of another subscription.
    mutating func add(_ other: SubscriptionFacts) {
        for (purchase, evidence) in other.purchases {
            purchases[purchase] = Provenance(
                purchases[purchase], receivedAt: evidence.receivedAt, position: evidence.position)
        }
        for (time, evidence) in other.erasures {
            erasures[time] = Provenance(
                erasures[time], receivedAt: evidence.receivedAt, position: evidence.position)
        }
        positions.formUnion(other.positions)
    }

    /// Makes this an entry that leads to the subscription of the purchase.
    mutating func lead(to line: String, position: Int64) {
        purchases = [:]
        erasures = [:]
        positions = []
        self.line = Line(originalTransactionId: line, position: position)
    }
}
