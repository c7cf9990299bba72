import Encoding

/// The links of backends by the key that they name, those that ended included.
package struct CustomerLinks: Sendable {
    /// A statement about one key.
    package struct Link: Sendable, Hashable {
        package let backendCustomerId: ByteString
        package let key: CustomerKey
        /// The position of the statement.
        package let position: Int64
        /// The position of the customer's next statement, which names the key again or ends the link; nil if there is
        /// none.
        package let replacedPosition: Int64?

        package init(
            backendCustomerId: ByteString, key: CustomerKey, position: Int64, replacedPosition: Int64?
        ) {
            self.backendCustomerId = backendCustomerId
            self.key = key
            self.position = position
            self.replacedPosition = replacedPosition
        }

        /// The customer that stated the link.
        package var customer: CustomerKey { CustomerKey(.link, backendCustomerId.text) }
    }

    private let links: [CustomerKey: [Link]]

    package init(_ links: some Sequence<Link>) {
        self.links = Dictionary(grouping: links, by: \.key).mapValues { $0.sorted { $0.position < $1.position } }
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
                        backendCustomerId: customer, key: key, position: position, replacedPosition: next[customer]))
            }
            next[customer] = position
        }
        return links.sorted { ($0.position, $0.key) < ($1.position, $1.key) }
    }

    /// Every key that was ever linked.
    package var keys: Dictionary<CustomerKey, [Link]>.Keys { links.keys }

    /// Every customer whose latest statement names a key, even if another customer has taken the key since.
    package var customers: Set<CustomerKey> {
        Set(links.values.joined().filter { $0.replacedPosition == nil }.map(\.customer))
    }

    /// The links on a key that count, oldest first.
    ///
    /// A link is exclusive: the latest statement that names a key takes it from the customer that had it, which does not
    /// get it back when that link ends. Under ``OwnershipPolicy/shared`` the links of all customers count.
    package func inForce(on key: CustomerKey, policy: OwnershipPolicy) -> [Link] {
        var none = NoRules()
        return inForce(on: key, policy: policy, &none)
    }

    func inForce<Rules: RuleCollector>(
        on key: CustomerKey, policy: OwnershipPolicy, _ rules: inout Rules
    ) -> [Link] {
        guard let links = links[key] else { return [] }
        switch policy {
        case .latestBuyer, .firstBuyer:
            let inForce = links.suffix(1).filter { $0.replacedPosition == nil }
            if Rules.isCollecting, let last = inForce.last,
                let former = links.last(where: { $0.customer != last.customer })
            {
                rules.collect(.moving(former, to: last))
            }
            return inForce
        case .shared: return links.filter { $0.replacedPosition == nil }
        }
    }
}
