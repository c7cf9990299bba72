import Encoding
import EventLog
import Postgres
import Subscriptions

/// The store accounts that some keys belong to, and the stored rows about their owners.
struct StoredCustomers {
    /// The given keys, those of their store accounts, and the tokens of the purchases in these. All evidence of where
    /// these keys lead is loaded.
    private(set) var keys: Set<CustomerKey> = []
    /// The facts of the subscriptions, and of others with the same tokens.
    private(set) var facts: [String: SubscriptionFacts] = [:]
    private(set) var evidence: [OwnershipEvidence] = []
    /// The shared ones of the account tokens.
    private var sharedTokens: Set<CustomerKey> = []
    private var links = CustomerLinks([CustomerLinks.Link]())
    /// The stored rows.
    private(set) var ownership: Set<Ownership> = []
    private(set) var identities: Set<CustomerIdentity> = []

    /// - Parameters:
    ///   - known: Subscriptions that need not be read.
    ///   - withRows: False to leave out the stored rows.
    static func load(
        _ streamId: Int32, around seeds: Set<CustomerKey>, known: [String: ProjectedSubscription],
        _ connection: PostgresConnection, withRows: Bool = true
    ) async throws(PostgresError) -> ProjectionOutcome<StoredCustomers> {
        var stored = StoredCustomers()
        switch try await stored.add(streamId, around: seeds, known: known, connection) {
        case .success(let reached): stored.keys = reached
        case .failure(let failure): return .failure(failure)
        }
        let keys = stored.keys
        let links = try await stored.loadLinks(streamId, among: keys, connection)
        if links.contains(where: { $0.basis == .purchase })
            || stored.evidence.contains(where: { $0.continuedAccount != nil })
        {
            let others = try await stored.otherSubscriptionsOfTokens(streamId, connection)
            switch try await stored.add(streamId, around: others, known: known, connection) {
            case .success(let reached):
                stored.links = CustomerLinks(
                    links.union(try await stored.loadLinks(streamId, among: reached.subtracting(keys), connection)))
            case .failure(let failure): return .failure(failure)
            }
        } else {
            stored.links = CustomerLinks(links)
        }
        if withRows { try await stored.loadRows(streamId, connection) }
        return .success(stored)
    }

    /// Adds the subscriptions of the store accounts that some keys belong to, and which of their tokens are shared.
    ///
    /// - Returns: The keys, those of the store accounts, and the tokens of the purchases in these.
    private mutating func add(
        _ streamId: Int32, around seeds: Set<CustomerKey>, known: [String: ProjectedSubscription],
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> ProjectionOutcome<Set<CustomerKey>> {
        guard !seeds.isEmpty else { return .success([]) }
        var reached = seeds
        for row in try await connection.query(
            Step(CustomerStatements.reach, [Parameter(streamId)] + Self.parameters(seeds)))
        {
            if let key = try row.customerKey(at: 0) { reached.insert(key) }
        }
        let subscriptions = reached.filter { $0.kind == .subscription && facts[$0.id.text] == nil }
            .map(\.id.text).sorted()
        let unknown = subscriptions.filter { known[$0] == nil }
        let before = evidence.count
        for id in subscriptions { if let state = known[id] { add(state) } }
        if !unknown.isEmpty {
            switch try ProjectedSubscription.read(
                try await connection.query(
                    Step(ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(unknown)])))
            {
            case .success(let states):
                for state in states { add(state) }
            case .failure(let failure): return .failure(failure)
            }
        }
        for one in evidence[before...] { reached.formUnion(one.purchases.map(\.token)) }
        try await loadSharedTokens(streamId, among: reached, connection)
        return .success(reached)
    }

    private mutating func add(_ state: ProjectedSubscription) {
        facts[state.facts.originalTransactionId] = state.facts
        evidence.append(state.evidence ?? state.facts.ownershipEvidence())
    }

    /// Those of other store accounts that decide where the tokens lead, see ``HandedInTokens``.
    private func otherSubscriptionsOfTokens(
        _ streamId: Int32, _ connection: PostgresConnection
    ) async throws(PostgresError) -> Set<CustomerKey> {
        let tokens = keys.filter { $0.kind == .account && !sharedTokens.contains($0) }.map(\.id.text).sorted()
        guard !tokens.isEmpty else { return [] }
        var others: Set<CustomerKey> = []
        for row in try await connection.query(
            Step(
                CustomerStatements.firstSubscriptionsOfTokens,
                [Parameter(streamId), .array(tokens), Parameter(Int64(HandedInTokens.subscriptionsMax))]))
        {
            let id: String = try row.value(at: 0)
            if facts[id] == nil { others.insert(CustomerKey(.subscription, id)) }
        }
        return others
    }

    private mutating func loadSharedTokens(
        _ streamId: Int32, among keys: Set<CustomerKey>, _ connection: PostgresConnection
    ) async throws(PostgresError) {
        let tokens = keys.filter { $0.kind == .account }.map(\.id.text).sorted()
        guard !tokens.isEmpty else { return }
        for row in try await connection.query(
            Step(CustomerStatements.sharedTokens, [Parameter(streamId), .array(tokens)]))
        {
            sharedTokens.insert(CustomerKey(.account, try row.value(String.self, at: 0)))
        }
    }

    private func loadLinks(
        _ streamId: Int32, among keys: Set<CustomerKey>, _ connection: PostgresConnection
    ) async throws(PostgresError) -> Set<CustomerLinks.Link> {
        let customers = keys.filter { $0.kind == .link }.map(\.id.text).sorted()
        var found: Set<CustomerLinks.Link> = []
        guard !keys.isEmpty else { return found }
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
        return found
    }

    private mutating func loadRows(
        _ streamId: Int32, _ connection: PostgresConnection
    ) async throws(PostgresError) {
        let subscriptions = keys.filter { $0.kind == .subscription }.map(\.id.text).sorted()
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
        // A customer's links on other keys say where the customer leads, but not all about those keys. The owners of other
        // subscriptions with the same tokens are those that are stored.
        return (
            customers.ownership.filter { keys.contains(CustomerKey(.subscription, $0.originalTransactionId.text)) },
            customers.identities.filter { keys.contains($0.key) }
        )
    }

    /// The account tokens of some subscriptions of Google Play that others may continue. The App Store reports what continues
    /// a subscription under its own id.
    func tokens(of subscriptions: [String]) -> Set<CustomerKey> {
        let ids = Set(subscriptions.map(ByteString.init))
        let ended = evidence.filter { one in
            ids.contains(one.subscription.id) && one.continuedAccount == nil
                && facts[one.subscription.id.text]?.mayJoinOthers == true
        }
        return Set(ended.flatMap { $0.purchases.map(\.token) }).subtracting(sharedTokens)
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
