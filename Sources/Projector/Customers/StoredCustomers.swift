import Encoding
import EventLog
import Postgres
import Subscriptions

/// The store accounts that some keys belong to, and the stored rows about their owners.
struct StoredCustomers {
    /// The given keys, those of their store accounts, and the tokens of the purchases in these. All evidence of where
    /// these keys lead is loaded.
    private(set) var keys: Set<CustomerKey> = []
    /// The facts of the subscriptions.
    private(set) var facts: [String: SubscriptionFacts] = [:]
    private(set) var evidence: [OwnershipEvidence] = []
    /// The shared ones of the account tokens.
    private var sharedTokens: Set<CustomerKey> = []
    private var links = CustomerLinks([CustomerLinks.Link]())
    /// The stored rows.
    private(set) var ownership: Set<Ownership> = []
    private(set) var identities: Set<CustomerIdentity> = []

    /// - Parameter known: Subscriptions that need not be read.
    static func load(
        _ streamId: Int32, around seeds: Set<CustomerKey>, known: [String: ProjectedSubscription],
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> ProjectionOutcome<StoredCustomers> {
        var stored = StoredCustomers()
        stored.keys = seeds
        for row in try await connection.query(
            Step(CustomerStatements.reach, [Parameter(streamId)] + parameters(seeds)))
        {
            if let key = try row.customerKey(at: 0) { stored.keys.insert(key) }
        }
        let subscriptions = stored.keys.filter { $0.kind == .subscription }.map(\.id.text).sorted()
        let unknown = subscriptions.filter { known[$0] == nil }
        for id in subscriptions { if let state = known[id] { stored.add(state) } }
        if !unknown.isEmpty {
            switch try ProjectedSubscription.read(
                try await connection.query(
                    Step(ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(unknown)])))
            {
            case .success(let states):
                for state in states { stored.add(state) }
            case .failure(let failure): return .failure(failure)
            }
        }
        for one in stored.evidence { stored.keys.formUnion(one.purchases.map(\.token)) }
        try await stored.loadSharedTokens(streamId, connection)
        try await stored.loadLinks(streamId, connection)
        try await stored.loadRows(streamId, subscriptions, connection)
        return .success(stored)
    }

    private mutating func add(_ state: ProjectedSubscription) {
        facts[state.facts.originalTransactionId] = state.facts
        evidence.append(state.evidence ?? state.facts.ownershipEvidence())
    }

    private mutating func loadSharedTokens(
        _ streamId: Int32, _ connection: PostgresConnection
    ) async throws(PostgresError) {
        let tokens = keys.filter { $0.kind == .account }.map(\.id.text).sorted()
        guard !tokens.isEmpty else { return }
        for row in try await connection.query(
            Step(CustomerStatements.sharedTokens, [Parameter(streamId), .array(tokens)]))
        {
            sharedTokens.insert(CustomerKey(.account, try row.value(String.self, at: 0)))
        }
    }

    private mutating func loadLinks(
        _ streamId: Int32, _ connection: PostgresConnection
    ) async throws(PostgresError) {
        let customers = keys.filter { $0.kind == .link }.map(\.id.text).sorted()
        var found: Set<CustomerLinks.Link> = []
        for row in try await connection.query(
            Step(
                CustomerStatements.loadLinks, [Parameter(streamId)] + Self.parameters(keys) + [.array(customers)]))
        {
            guard let key = try row.customerKey(at: 1) else { continue }
            found.insert(
                CustomerLinks.Link(
                    backendCustomerId: ByteString(try row.value(at: 0)), key: key, position: try row.value(at: 3),
                    replacedPosition: try row.optional(at: 4), basis: try row.linkBasis(at: 5)))
        }
        links = CustomerLinks(found)
    }

    private mutating func loadRows(
        _ streamId: Int32, _ subscriptions: [String], _ connection: PostgresConnection
    ) async throws(PostgresError) {
        for row in try await connection.query(
            Step(CustomerStatements.loadOwnership, [Parameter(streamId), .array(subscriptions)]))
        {
            if let owned = try Ownership.read(row) { ownership.insert(owned) }
        }
        for row in try await connection.query(
            Step(CustomerStatements.loadIdentities, [Parameter(streamId)] + Self.parameters(keys)))
        {
            if let identity = try CustomerIdentity.read(row) { identities.insert(identity) }
        }
    }

    private static func parameters(_ keys: Set<CustomerKey>) -> [Parameter] {
        let keys = keys.sorted()
        return [.array(keys.map(\.kind.rawValue)), .array(keys.map(\.id.text))]
    }

    /// The rows that should be stored.
    func computed(by policy: OwnershipPolicy) -> (ownership: [Ownership], identities: [CustomerIdentity]) {
        let customers = Customers(of: evidence, links: links, policy: policy, sharedTokens: sharedTokens)
        // A customer's links on other keys say where the customer leads, but not all about those keys.
        return (customers.ownership, customers.identities.filter { keys.contains($0.key) })
    }

    /// For each subscription, the last position that touched its store account or one of the tokens in it.
    func positions(_ touched: [CustomerKey: Int64]) -> [ByteString: Int64] {
        var positions: [ByteString: Int64] = [:]
        for account in StoreAccount.all(of: evidence) {
            let tokens = account.subscriptions.flatMap { $0.purchases.map(\.token) }
            let last = (account.keys + tokens).compactMap { touched[$0] }.max()
            for one in account.subscriptions { positions[one.subscription.id] = last }
        }
        return positions
    }
}
