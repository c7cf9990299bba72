import Encoding
import EventLog
import Postgres
import Subscriptions

/// Applies the events of a batch to the customer tables, inside the transaction of the batch.
///
/// Only the store accounts with new evidence or links are computed again, from the facts of their subscriptions.
struct CustomerFold {
    let streamId: Int32
    let rules: OwnershipRules
    let connection: PostgresConnection

    /// A subscription whose owners changed.
    struct Moved {
        let facts: SubscriptionFacts
        let old: [Ownership]
        let new: [Ownership]
        let cause: Change.Cause

        /// The number of customers who had a seat and have none any more, since there are fewer seats than claims.
        var lostSeats: Int {
            let held = old.filter { $0.reason == .seat && $0.until == .latest }
            guard !held.isEmpty else { return 0 }
            let waiting = Set(SeatClaims(of: facts).waiting.map(\.customer))
            return held.filter { waiting.contains($0.owner) }.count
        }
    }

    /// What a batch changed.
    struct Applied {
        /// The subscriptions that existed before and whose owners changed, in order of the events that are the cause.
        var moved: [Moved] = []
        /// The number of account tokens that are shared from now on.
        var newlySharedTokens = 0
    }

    /// Writes what the batch changes.
    ///
    /// - Parameter states: The subscriptions that the batch is about, after it. Their rows must have been written.
    func apply(
        _ changes: CustomerChanges, _ states: [String: ProjectedSubscription]
    ) async throws(PostgresError) -> ProjectionOutcome<Applied> {
        guard !changes.isEmpty else { return .success(Applied()) }
        var touched = changes.touched
        touched.merge(try await applyLinks(changes.statements), uniquingKeysWith: max)
        try await writeEdges(changes)
        let crossed = try await recount(changes.tokens)
        for token in crossed.noLongerShared + crossed.newlyShared {
            touched[token] = max(touched[token] ?? 0, changes.tokens[token] ?? 0)
        }
        let known = changes.touched.keys.filter { $0.kind == .subscription }
            .reduce(into: [String: ProjectedSubscription]()) { $0[$1.id.text] = states[$1.id.text] }
        var applied = Applied(newlySharedTokens: crossed.newlyShared.count)
        if !touched.isEmpty {
            switch try await update(around: touched, known: known, cause: { .event(position: $0) }) {
            case .success(let moved): applied.moved = moved
            case .failure(let failure): return .failure(failure)
            }
        }
        for token in crossed.newlyShared {
            let position = changes.tokens[token] ?? 0
            switch try await update(subscriptionsOf: token, position: position, cause: { .event(position: $0) }) {
            case .success(let moved): applied.moved += moved
            case .failure(let failure): return .failure(failure)
            }
        }
        applied.moved.removeAll { changes.newSubscriptions.contains($0.facts.originalTransactionId) }
        applied.moved.sort { $0.cause.position ?? 0 < $1.cause.position ?? 0 }
        return .success(applied)
    }

    /// Computes the store accounts of some subscriptions by changed rules.
    func refresh(_ states: [ProjectedSubscription]) async throws(PostgresError) -> ProjectionOutcome<[Moved]> {
        var touched: [CustomerKey: Int64] = [:]
        var known: [String: ProjectedSubscription] = [:]
        for state in states {
            touched[CustomerKey(.subscription, state.facts.originalTransactionId)] = state.position
            known[state.facts.originalTransactionId] = state
        }
        return try await update(around: touched, known: known) { _ in .ownership }
    }

    /// Computes where the linked keys lead by changed rules. Subscriptions must be refreshed before.
    func refreshLinkedKeys() async throws(PostgresError) -> ProjectionOutcome<Void> {
        var last = CustomerKey(.account, "")
        while true {
            let rows = try await connection.query(
                Step(
                    CustomerStatements.pageLinkedKeys,
                    [
                        Parameter(streamId), Parameter(last.kind.rawValue), Parameter(last.id.text),
                        Parameter(Limits.linkedKeysMax),
                    ]))
            var touched: [CustomerKey: Int64] = [:]
            for row in rows {
                guard let key = try row.customerKey(at: 0) else { continue }
                touched[key] = 0
                last = key
            }
            guard !touched.isEmpty else { return .success(()) }
            if case .failure(let failure) = try await update(around: touched, known: [:], cause: { _ in .ownership }) {
                return .failure(failure)
            }
        }
    }

    /// Computes the store accounts of some keys again, and writes what differs.
    ///
    /// - Parameters:
    ///   - touched: The keys, each with the position of the last event that touched it.
    ///   - known: Subscriptions that need not be read.
    ///   - cause: The cause of a change, given the last position.
    func update(
        around touched: [CustomerKey: Int64], known: [String: ProjectedSubscription],
        cause: (Int64) -> Change.Cause
    ) async throws(PostgresError) -> ProjectionOutcome<[Moved]> {
        let stored: StoredCustomers
        switch try await StoredCustomers.load(streamId, around: Set(touched.keys), known: known, connection) {
        case .success(let loaded): stored = loaded
        case .failure(let failure): return .failure(failure)
        }
        let fresh = stored.computed(by: rules.policy)
        try await write(ownership: fresh.ownership, over: stored)
        try await write(identities: fresh.identities, over: stored)
        let positions = stored.positions(touched)
        let (old, new) = (
            Dictionary(grouping: stored.ownership, by: \.originalTransactionId),
            Dictionary(grouping: fresh.ownership, by: \.originalTransactionId)
        )
        var moved: [Moved] = []
        for id in new.keys.sorted() {
            let (before, now) = (old[id] ?? [], new[id] ?? [])
            guard Set(before) != Set(now), let facts = stored.facts[id.text] else { continue }
            moved.append(Moved(facts: facts, old: before, new: now, cause: cause(positions[id] ?? 0)))
        }
        let tokens = stored.tokens(of: moved.map(\.facts.originalTransactionId))
        guard !tokens.isEmpty else { return .success(moved) }
        // What continues a subscription belongs to its owner.
        switch try await update(continuing: tokens, position: touched.values.max() ?? 0, cause: cause) {
        case .success(let others): return .success(moved + others)
        case .failure(let failure): return .failure(failure)
        }
    }

    /// Computes the subscriptions again that were bought outside the app and continue others with some account tokens.
    private func update(
        continuing tokens: Set<CustomerKey>, position: Int64, cause: (Int64) -> Change.Cause
    ) async throws(PostgresError) -> ProjectionOutcome<[Moved]> {
        var touched: [CustomerKey: Int64] = [:]
        for row in try await connection.query(
            Step(
                CustomerStatements.subscriptionsOutsideApp,
                [Parameter(streamId), .array(tokens.map(\.id.text).sorted()), Parameter(OwnershipEvidence.outsideApp)]))
        {
            touched[CustomerKey(.subscription, try row.value(String.self, at: 0))] = position
        }
        // These continue others, and no other continues them.
        return touched.isEmpty ? .success([]) : try await update(around: touched, known: [:], cause: cause)
    }

    // MARK: - Links and edges

    /// Writes statements.
    ///
    /// - Returns: The keys that they name or no longer name and their customers, each with the position of the last
    ///   statement.
    func applyLinks(
        _ statements: [CustomerChanges.Statement]
    ) async throws(PostgresError) -> [CustomerKey: Int64] {
        guard !statements.isEmpty else { return [:] }
        let links = CustomerLinks.all(
            of: Dictionary(statements.map { ($0.position, $0.link) }, uniquingKeysWith: { first, _ in first }))
        var touched: [CustomerKey: Int64] = [:]
        func touch(_ key: CustomerKey, _ position: Int64) { touched[key] = max(touched[key] ?? 0, position) }
        var first: [ByteString: Int64] = [:]
        for (link, position) in statements {
            if link.isComplete { first[link.backendCustomerId] = first[link.backendCustomerId] ?? position }
            touch(CustomerKey(.link, link.backendCustomerId.text), position)
        }
        for link in links {
            touch(link.key, link.position)
            if let replaced = link.replacedPosition { touch(link.key, replaced) }
        }
        let customers = first.keys.sorted()
        if !customers.isEmpty {
            for row in try await connection.query(
                Step(
                    CustomerStatements.replaceLinks,
                    [Parameter(streamId), .array(customers.map(\.text)), .array(customers.map { first[$0] ?? 0 })]))
            {
                let customer = ByteString(try row.value(at: 0))
                if let key = try row.customerKey(at: 1) { touch(key, first[customer] ?? 0) }
            }
        }
        if !links.isEmpty {
            _ = try await connection.query(
                Step(
                    CustomerStatements.writeLinks,
                    [
                        Parameter(streamId), .array(links.map(\.backendCustomerId.text)), .array(links.map(\.position)),
                        .array(links.map(\.key.kind.rawValue)), .array(links.map(\.key.id.text)),
                        .array(links.map(\.replacedPosition)), .array(links.map(\.basis.rawValue)),
                    ]))
        }
        return touched
    }

    private func writeEdges(_ changes: CustomerChanges) async throws(PostgresError) {
        if !changes.oldEdges.isEmpty {
            _ = try await connection.query(
                Step(CustomerStatements.deleteEdges, Array(Self.parameters(streamId, changes.oldEdges).prefix(4))))
        }
        if !changes.newEdges.isEmpty {
            _ = try await connection.query(
                Step(CustomerStatements.writeEdges, Self.parameters(streamId, changes.newEdges)))
        }
    }

    static func parameters(_ streamId: Int32, _ edges: [CustomerChanges.Edge]) -> [Parameter] {
        [
            Parameter(streamId), .array(edges.map(\.originalTransactionId)), .array(edges.map(\.key.kind.rawValue)),
            .array(edges.map(\.key.id.text)), .array(edges.map(\.position)), .array(edges.map(\.storeAccount)),
        ]
    }

    // MARK: - Rows

    /// Replaces all intervals of the subscriptions that have another one.
    private func write(ownership fresh: [Ownership], over stored: StoredCustomers) async throws(PostgresError) {
        let changed = Set(fresh).symmetricDifference(stored.ownership)
        guard !changed.isEmpty else { return }
        let ids = Set(changed.map(\.originalTransactionId)).sorted()
        if !stored.ownership.isEmpty {
            _ = try await connection.query(
                Step(CustomerStatements.deleteOwnership, [Parameter(streamId), .array(ids.map(\.text))]))
        }
        let rows = fresh.filter { ids.contains($0.originalTransactionId) }
        guard !rows.isEmpty else { return }
        _ = try await connection.query(Step(CustomerStatements.writeOwnership, Self.parameters(streamId, rows)))
    }

    /// Replaces all intervals of the keys that have another one.
    private func write(
        identities fresh: [CustomerIdentity], over stored: StoredCustomers
    ) async throws(PostgresError) {
        let changed = Set(Set(fresh).symmetricDifference(stored.identities).map(\.key))
        guard !changed.isEmpty else { return }
        let old = Set(stored.identities.map(\.key)).intersection(changed).sorted()
        if !old.isEmpty {
            _ = try await connection.query(
                Step(
                    CustomerStatements.deleteIdentities,
                    [Parameter(streamId), .array(old.map(\.kind.rawValue)), .array(old.map(\.id.text))]))
        }
        let rows = fresh.filter { changed.contains($0.key) }
        guard !rows.isEmpty else { return }
        _ = try await connection.query(Step(CustomerStatements.writeIdentities, Self.parameters(streamId, rows)))
    }

    static func parameters(_ streamId: Int32, _ rows: [Ownership]) -> [Parameter] {
        [
            Parameter(streamId), .array(rows.map(\.originalTransactionId.text)),
            .array(rows.map { Timestamptz(start: $0.from) }), .array(rows.map { Timestamptz(end: $0.until) }),
            .array(rows.map(\.owner.kind.rawValue)), .array(rows.map(\.owner.id.text)),
            .array(rows.map(\.reason.rawValue)), .array(rows.map(\.position)),
        ]
    }

    static func parameters(_ streamId: Int32, _ rows: [CustomerIdentity]) -> [Parameter] {
        [
            Parameter(streamId), .array(rows.map(\.key.kind.rawValue)), .array(rows.map(\.key.id.text)),
            .array(rows.map { Timestamptz(start: $0.from) }), .array(rows.map { Timestamptz(end: $0.until) }),
            .array(rows.map(\.customer.kind.rawValue)), .array(rows.map(\.customer.id.text)),
        ]
    }
}
