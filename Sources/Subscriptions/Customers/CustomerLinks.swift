import Encoding

/// The links of backends by the key that they name, those that ended included.
package struct CustomerLinks: Sendable {
    /// A statement about one key.
    package struct Link: Sendable, Hashable {
        package let backendCustomerId: ByteString
        package let key: CustomerKey
        /// The position of the statement.
        package let position: Int64
        /// The position of the customer's next complete statement, which names the key again or ends the link; nil if
        /// there is none.
        package let replacedPosition: Int64?
        package let basis: LinkStatement.Basis

        package init(
            backendCustomerId: ByteString, key: CustomerKey, position: Int64, replacedPosition: Int64?,
            basis: LinkStatement.Basis
        ) {
            self.backendCustomerId = backendCustomerId
            self.key = key
            self.position = position
            self.replacedPosition = replacedPosition
            self.basis = basis
        }

        /// The customer that stated the link.
        package var customer: CustomerKey { CustomerKey(.link, backendCustomerId.text) }

        /// Whether the link had not ended when the event at a position was received.
        func isInForce(at position: Int64) -> Bool { replacedPosition.map { $0 > position } ?? true }
    }

    /// Without those of seats, which say nothing about whose a subscription is.
    private let links: [CustomerKey: [Link]]
    /// The customers who have or had a seat.
    private let members: Set<CustomerKey>
    /// Whether one of them rests on a purchase that was handed in.
    let haveHandIns: Bool

    package init(_ links: some Sequence<Link>) {
        haveHandIns = links.contains { $0.basis == .purchase }
        self.links = Dictionary(grouping: links.filter { $0.basis != .seat }, by: \.key)
            .mapValues { $0.sorted { $0.position < $1.position } }
        members = Set(links.filter { $0.basis == .seat }.map(\.customer))
    }

    /// - Parameter statements: By position, so that a repeated statement counts once.
    package init(_ statements: [Int64: LinkStatement]) {
        self.init(Self.all(of: statements))
    }

    /// The links of some statements, in order of position and key.
    package static func all(of statements: [Int64: LinkStatement]) -> [Link] {
        var links: [Link] = []
        var next: [ByteString: Int64] = [:]
        for (position, statement) in statements.sorted(by: { $0.key > $1.key }) {
            let customer = statement.backendCustomerId
            for key in statement.links {
                links.append(
                    Link(
                        backendCustomerId: customer, key: key, position: position,
                        replacedPosition: key.isGrant || statement.basis == .seat ? nil : next[customer],
                        basis: statement.basis))
            }
            if statement.isComplete { next[customer] = position }
        }
        return links.sorted { ($0.position, $0.key) < ($1.position, $1.key) }
    }

    /// Every key that was ever linked.
    package var keys: Dictionary<CustomerKey, [Link]>.Keys { links.keys }

    /// Every customer with a link that it has not ended, even if another customer has taken the key since, and every one with a
    /// seat.
    package var customers: Set<CustomerKey> {
        members.union(links.values.joined().filter { $0.replacedPosition == nil }.map(\.customer))
    }

    /// The positions of all links, ascending.
    var positions: [Int64] { Set(links.values.joined().map(\.position)).sorted() }

    /// The links as they were before the event at a position, without those of seats.
    func before(_ position: Int64) -> CustomerLinks {
        let earlier = links.values.joined().filter { $0.position < position }
        return CustomerLinks(
            earlier.map { link in
                Link(
                    backendCustomerId: link.backendCustomerId, key: link.key, position: link.position,
                    replacedPosition: link.replacedPosition.flatMap { $0 < position ? $0 : nil }, basis: link.basis)
            })
    }

    /// Every link on a key, oldest first.
    func all(on key: CustomerKey) -> [Link] { links[key] ?? [] }

    /// The links that count on a key which says nothing about whose a purchase is, oldest first. See ``AccountLinks`` for
    /// the keys of a store account.
    ///
    /// - Parameter position: Later links are left out, and links that ended later count.
    func inForce(on key: CustomerKey, policy: OwnershipPolicy, at position: Int64 = .max) -> [Link] {
        var none = NoRules()
        return inForce(on: key, policy: policy, at: position, &none)
    }

    func inForce<Rules: RuleCollector>(
        on key: CustomerKey, policy: OwnershipPolicy, at position: Int64 = .max, _ rules: inout Rules
    ) -> [Link] {
        guard let links = links[key] else { return [] }
        var counting: [Link] = []
        for link in links.prefix(while: { $0.position <= position }) {
            let holders = policy.inForce(counting, at: link.position)
            if !link.basis.takes(under: policy), holders.contains(where: { $0.customer != link.customer }) {
                rules.collect(.refusing(link))
            } else {
                counting.append(link)
            }
        }
        return policy.inForce(counting, at: position, &rules)
    }
}

extension OwnershipPolicy {
    /// Those of the links on one key, oldest first, that count.
    ///
    /// A link is exclusive: the latest one takes the key from the customer that had it, which does not get it back when
    /// that link ends. Under ``shared`` the links of all customers count.
    func inForce(_ links: [CustomerLinks.Link], at position: Int64) -> [CustomerLinks.Link] {
        var none = NoRules()
        return inForce(links, at: position, &none)
    }

    func inForce<Rules: RuleCollector>(
        _ links: [CustomerLinks.Link], at position: Int64, _ rules: inout Rules
    ) -> [CustomerLinks.Link] {
        switch self {
        case .latestBuyer, .firstBuyer:
            let inForce = links.suffix(1).filter { $0.isInForce(at: position) }
            if Rules.isCollecting, let last = inForce.last,
                let former = links.last(where: { $0.customer != last.customer })
            {
                rules.collect(.moving(former, to: last))
            }
            return inForce
        case .shared: return links.filter { $0.isInForce(at: position) }
        }
    }
}
