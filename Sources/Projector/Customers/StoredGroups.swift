import EventLog
import Postgres
import Subscriptions

/// Some stored groups of keys, with all ties between their keys.
struct StoredGroups {
    private(set) var identities: [CustomerKey: CustomerGroupID] = [:]
    /// The keys of subscriptions that have rows.
    private(set) var subscriptions: Set<CustomerKey> = []
    private(set) var ties: [(left: CustomerKey, right: CustomerKey)] = []

    static func load(
        _ streamId: Int32, names: [String], _ connection: PostgresConnection
    ) async throws(PostgresError) -> StoredGroups {
        var groups = StoredGroups()
        for row in try await connection.query(
            Step(CustomerStatements.loadGroups, [Parameter(streamId), .array(names)]))
        {
            guard let key = try row.customerKey(at: 0) else { continue }
            groups.identities[key] = CustomerGroupID(stored: try row.value(at: 2))
            if try row.value(Bool.self, at: 3) { groups.subscriptions.insert(key) }
        }
        let ids = groups.identities.keys.filter { $0.kind == .subscription }.map(\.id.text).sorted()
        let customers = groups.identities.keys.filter { $0.kind == .link }.map(\.id.text).sorted()
        for row in try await connection.query(
            Step(CustomerStatements.loadTies, [Parameter(streamId), .array(ids), .array(customers)]))
        {
            if let left = try row.customerKey(at: 0), let right = try row.customerKey(at: 2) {
                groups.ties.append((left, right))
            }
        }
        return groups
    }

    /// The identities that should be stored: every subscription with rows, and every key that has a tie.
    func wanted() -> [CustomerKey: CustomerGroupID] {
        var groups = CustomerGroups()
        for (left, right) in ties { groups.join(left, right) }
        let keys = subscriptions.union(ties.map(\.left)).union(ties.map(\.right))
        var wanted: [CustomerKey: CustomerGroupID] = [:]
        for key in keys { wanted[key] = groups.name(of: CustomerGroupID(key)) }
        return wanted
    }
}
