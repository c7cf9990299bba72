import Encoding

extension ExplainedCustomers {
    /// A change of owner by a link. A link counts for all time, so the former owner has nothing of the subscription since.
    package struct LinkMove: Sendable, Hashable {
        package let originalTransactionId: String
        /// The app that has the subscription, if it is not the answer's but joined with it.
        package let joinedApp: String?
        package let from: CustomerKey
        package let to: CustomerKey
        /// The event of the link.
        package let position: Int64

        /// The entry in the history of one of the two customers.
        ///
        /// - Parameter instant: When the link was received.
        package func entry(for customer: CustomerKey, at instant: Instant) -> ChronicleEntry {
            var entry = ChronicleEntry(
                at: instant,
                what: customer == to ? "subscription gained by a link from" : "subscription lost by a link to",
                position: position)
            entry.other = customer == to ? from : to
            return entry
        }
    }

    /// What the customers of an app are computed from.
    struct Source: Sendable {
        let evidence: [OwnershipEvidence]
        let links: CustomerLinks
        let policy: OwnershipPolicy
        let sharedTokens: Set<CustomerKey>
        /// The app, if it is not the answer's but joined with it.
        var joinedApp: String?
        /// The customers that are parts of the answer's.
        var parts: Set<CustomerKey> = []
        /// The name of the answer's customer; nil without ``parts``.
        var name: CustomerKey?
    }

    /// The changes of owner by the latest links, oldest first.
    ///
    /// Computes the customers again without the links, one after the other: only for a page that shows the changes.
    package var linkMoves: [LinkMove] { sources.flatMap(\.moves).sorted { $0.position < $1.position } }
}

extension ExplainedCustomers.Source {
    /// Most events with links whose changes are computed. Customers have a few in a lifetime.
    private static let linksMax = 20

    fileprivate var moves: [ExplainedCustomers.LinkMove] {
        let positions = links.positions.suffix(Self.linksMax)
        guard !positions.isEmpty else { return [] }
        let today = customers(by: links)
        var moves: [ExplainedCustomers.LinkMove] = []
        var after = today
        for position in positions.reversed() {
            let before = customers(by: links.before(position))
            moves += changes(by: position, from: before, to: after, today)
            after = before
        }
        return moves
    }

    private func customers(by links: CustomerLinks) -> Customers {
        Customers(of: evidence, links: links, policy: policy, sharedTokens: sharedTokens)
    }

    /// The former owners of what belongs to other customers by the links of an event.
    private func changes(
        by position: Int64, from before: Customers, to after: Customers, _ today: Customers
    ) -> [ExplainedCustomers.LinkMove] {
        let former = Dictionary(grouping: before.ownership, by: \.originalTransactionId)
        let present = Dictionary(grouping: after.ownership, by: \.originalTransactionId)
        var moves: [ExplainedCustomers.LinkMove] = []
        for own in after.ownership where own.position == position && own.reason != .seat {
            let id = own.originalTransactionId
            for lost in former[id, default: []] {
                guard lost.owner != own.owner, lost.reason != .seat, lost.reason != .unclaimed,
                    lost.position.map({ $0 < position }) ?? false, lost.interval.overlaps(own.interval),
                    !present[id, default: []].contains(where: { kept in
                        kept.owner == lost.owner && kept.reason != .seat && kept.interval.overlaps(own.interval)
                    }),
                    // What is another id of the new owner has lost nothing.
                    today.customer(lost.owner, at: .latest) != own.owner, named(lost.owner) != named(own.owner)
                else { continue }
                let move = ExplainedCustomers.LinkMove(
                    originalTransactionId: id.text, joinedApp: joinedApp, from: named(lost.owner),
                    to: named(own.owner), position: position)
                if !moves.contains(move) { moves.append(move) }
            }
        }
        return moves
    }

    private func named(_ customer: CustomerKey) -> CustomerKey {
        parts.contains(customer) ? name ?? customer : customer
    }
}
