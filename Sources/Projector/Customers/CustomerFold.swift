import Encoding
import EventLog
import Postgres
import Subscriptions

/// Applies the events of a batch to the customer tables, inside the transaction of the batch.
///
/// Joining groups is cheap: only the names of the affected groups are looked up. If a tie between keys is removed, the
/// affected groups are computed again from the remaining ties.
struct CustomerFold {
    let streamId: Int32
    let connection: PostgresConnection
    /// Whether changes of customer are published. If not, the subscriptions whose customer changed are not looked up.
    let publishesChanges: Bool

    /// Existing subscriptions that now have another customer, or whose customer now has another backend id, each with
    /// the position of the event that caused it.
    typealias Moved = [String: Int64]

    func apply(_ changes: CustomerChanges) async throws(PostgresError) -> Moved {
        guard !changes.isEmpty else { return [:] }
        let links = try await applyLinks(changes.statements)
        try await writeEdges(changes)
        var moved = try await join(changes, links.new)
        let gone =
            changes.oldEdges.flatMap {
                [(CustomerKey(.subscription, $0.originalTransactionId), $0.position), ($0.key, $0.position)]
            }
            + links.old.flatMap { [(CustomerKey(.link, $0.customer.text), $0.position), ($0.key, $0.position)] }
        if !gone.isEmpty { moved.merge(try await regroup(gone), uniquingKeysWith: max) }
        for subscription in changes.newSubscriptions { moved[subscription] = nil }
        return moved
    }

    /// - Parameter position: The position of the statement that made or ended the link.
    private typealias Link = (customer: ByteString, key: CustomerKey, position: Int64)
    private typealias Tie = (left: CustomerKey, right: CustomerKey, position: Int64)

    /// Writes statements, and returns the links that they add and the links that they end.
    private func applyLinks(
        _ statements: [CustomerChanges.Statement]
    ) async throws(PostgresError) -> (new: [Link], old: [Link]) {
        guard !statements.isEmpty else { return ([], []) }
        var last: [ByteString: CustomerChanges.Statement] = [:]
        var rows: [(link: Link, replaced: Int64?)] = []
        for statement in statements {
            let customer = statement.link.backendCustomerId
            if last[customer] != nil {
                for index in rows.indices where rows[index].link.customer == customer && rows[index].replaced == nil {
                    rows[index].replaced = statement.position
                }
            }
            last[customer] = statement
            rows += statement.link.links.map { ((customer, $0, statement.position), nil) }
        }
        let customers = last.keys.sorted()
        let first = customers.map { customer in
            statements.first { $0.link.backendCustomerId == customer }?.position ?? 0
        }
        var before: [ByteString: Set<CustomerKey>] = [:]
        for row in try await connection.query(
            Step(
                CustomerStatements.replaceLinks,
                [Parameter(streamId), .array(customers.map(\.text)), .array(first)]))
        {
            let customer = ByteString(try row.value(at: 0))
            if let key = try row.customerKey(at: 1) { before[customer, default: []].insert(key) }
        }
        if !rows.isEmpty {
            _ = try await connection.query(
                Step(
                    CustomerStatements.writeLinks,
                    [
                        Parameter(streamId), .array(rows.map(\.link.customer.text)), .array(rows.map(\.link.position)),
                        .array(rows.map(\.link.key.kind.rawValue)), .array(rows.map(\.link.key.id.text)),
                        .array(rows.map(\.replaced)),
                    ]))
        }
        var (new, old): ([Link], [Link]) = ([], [])
        for customer in customers {
            guard let statement = last[customer] else { continue }
            let (was, now) = (before[customer] ?? [], Set(statement.link.links))
            new += now.subtracting(was).sorted().map { (customer, $0, statement.position) }
            old += was.subtracting(now).sorted().map { (customer, $0, statement.position) }
        }
        return (new, old)
    }

    private func writeEdges(_ changes: CustomerChanges) async throws(PostgresError) {
        if !changes.newEdges.isEmpty {
            _ = try await connection.query(
                Step(CustomerStatements.writeEdges, Self.parameters(streamId, changes.newEdges)))
        }
        if !changes.oldEdges.isEmpty {
            _ = try await connection.query(
                Step(CustomerStatements.deleteEdges, Array(Self.parameters(streamId, changes.oldEdges).dropLast())))
        }
    }

    static func parameters(_ streamId: Int32, _ edges: [CustomerChanges.Edge]) -> [Parameter] {
        [
            Parameter(streamId), .array(edges.map(\.originalTransactionId)), .array(edges.map(\.key.kind.rawValue)),
            .array(edges.map(\.key.id.text)), .array(edges.map(\.position)),
        ]
    }

    /// Joins the groups that share a key under one name.
    private func join(_ changes: CustomerChanges, _ links: [Link]) async throws(PostgresError) -> Moved {
        let ties: [Tie] =
            changes.newEdges.map { (CustomerKey(.subscription, $0.originalTransactionId), $0.key, $0.position) }
            + links.map { (CustomerKey(.link, $0.customer.text), $0.key, $0.position) }
        let touched = Set(
            changes.newSubscriptions.map { CustomerKey(.subscription, $0) } + ties.map(\.left) + ties.map(\.right)
        ).sorted()
        guard !touched.isEmpty else { return [:] }
        var names: [CustomerKey: CustomerGroupID] = [:]
        for row in try await connection.query(
            Step(
                CustomerStatements.findIdentities,
                [Parameter(streamId), .array(touched.map(\.kind.rawValue)), .array(touched.map(\.id.text))]))
        {
            if let key = try row.customerKey(at: 0) { names[key] = CustomerGroupID(stored: try row.value(at: 2)) }
        }
        func name(_ key: CustomerKey) -> CustomerGroupID { names[key] ?? CustomerGroupID(key) }
        var groups = CustomerGroups()
        for tie in ties { groups.join(name(tie.left), name(tie.right)) }
        // A new subscription that joins a customer is published with its own changes; a merge of two customers is
        // published for both.
        var joined: [(key: CustomerKey, position: Int64)] = []
        let known = Dictionary(grouping: Set(names.values)) { groups.name(of: $0) }
        for tie in ties {
            let isNewId = tie.right.kind == .account && names[tie.left] != nil && names[tie.right] == nil
            let isOneOfSeveral = (known[groups.name(of: name(tie.right))]?.count ?? 0) > 1
            if tie.left.kind == .link || isNewId || isOneOfSeveral { joined.append((tie.right, tie.position)) }
        }
        var renamed: [(old: CustomerGroupID, new: CustomerGroupID)] = []
        for old in Set(names.values).sorted() {
            let new = groups.name(of: old)
            if new != old { renamed.append((old, new)) }
        }
        if !renamed.isEmpty {
            _ = try await connection.query(
                Step(
                    CustomerStatements.rename,
                    [
                        Parameter(streamId), .array(renamed.map(\.old.text.text)), .array(renamed.map(\.new.text.text)),
                    ]))
        }
        var identities: [(key: CustomerKey, name: CustomerGroupID)] = []
        for key in touched where names[key] == nil { identities.append((key, groups.name(of: CustomerGroupID(key)))) }
        try await write(identities)
        var positions: [CustomerGroupID: Int64] = [:]
        for (key, position) in joined { positions[groups.name(of: name(key)), default: 0] = position }
        return try await subscriptions(of: positions)
    }

    /// The subscriptions of some customers, each with the position given for its customer.
    private func subscriptions(of positions: [CustomerGroupID: Int64]) async throws(PostgresError) -> Moved {
        var subscriptions: Moved = [:]
        guard publishesChanges, !positions.isEmpty else { return subscriptions }
        for row in try await connection.query(
            Step(
                CustomerStatements.findSubscriptions,
                [Parameter(streamId), .array(positions.keys.sorted().map(\.text.text))]))
        {
            subscriptions[try row.value(at: 0)] = positions[CustomerGroupID(stored: try row.value(at: 1))]
        }
        return subscriptions
    }

    private func write(_ identities: [(key: CustomerKey, name: CustomerGroupID)]) async throws(PostgresError) {
        guard !identities.isEmpty else { return }
        _ = try await connection.query(
            Step(
                CustomerStatements.writeIdentities,
                [
                    Parameter(streamId), .array(identities.map(\.key.kind.rawValue)),
                    .array(identities.map(\.key.id.text)), .array(identities.map(\.name.text.text)),
                ]))
    }

    /// Computes the groups of some keys again.
    private func regroup(_ gone: [(key: CustomerKey, position: Int64)]) async throws(PostgresError) -> Moved {
        let positions = Dictionary(gone.map { ($0.key, $0.position) }, uniquingKeysWith: max)
        let keys = positions.keys.sorted()
        var names: [String: Int64] = [:]
        for row in try await connection.query(
            Step(
                CustomerStatements.findIdentities,
                [Parameter(streamId), .array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text))]))
        {
            let position = try row.customerKey(at: 0).flatMap { positions[$0] } ?? 0
            names[try row.value(at: 2), default: 0] = max(names[try row.value(at: 2)] ?? 0, position)
        }
        let group = try await StoredGroups.load(streamId, names: names.keys.sorted(), connection)
        let wanted = group.wanted()
        let old = group.identities.filter { wanted[$0.key] == nil }.map(\.key)
        if !old.isEmpty {
            _ = try await connection.query(
                Step(
                    CustomerStatements.deleteIdentities,
                    [Parameter(streamId), .array(old.map(\.kind.rawValue)), .array(old.map(\.id.text))]))
        }
        try await write(
            wanted.filter { group.identities[$0.key] != $0.value }.sorted { $0.key < $1.key }
                .map { (key: $0.key, name: $0.value) })
        var moved: Moved = [:]
        for subscription in group.subscriptions {
            moved[subscription.id.text] = group.identities[subscription].flatMap { names[$0.text.text] }
        }
        return moved
    }
}
