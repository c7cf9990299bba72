import Encoding
import EventLog
import Postgres
import Subscriptions

/// Folds whole histories of a stream into the empty tables of a rebuild, with any connection.
struct HistoryWorker: Sendable {
    /// What the events of a range mention.
    struct Mentions: Sendable {
        var events: [AuditWorker.Mention] = []
        /// The positions of the events that mention no subscription or state links of a customer.
        var others: [Int64] = []
    }

    private let streamId: Int32
    private let checkpoint: Checkpoint
    private let idsMax: Int64
    private let rows: ProjectionWriter

    /// - Parameters:
    ///   - checkpoint: That of the tables before anything is folded.
    ///   - idsMax: Most ids in a page.
    init(streamId: Int32, checkpoint: Checkpoint, idsMax: Int64) {
        self.streamId = streamId
        self.checkpoint = checkpoint
        self.idsMax = idsMax
        rows = ProjectionWriter(
            streamId: streamId, products: ProductCatalog(configured: checkpoint.rowProducts.text),
            checks: checkpoint.checks, tables: .rebuild)
    }

    // MARK: - Log

    /// - Parameter range: The position before the first event, and that of the last one.
    func mentions(_ range: Range<Int64>, _ connection: PostgresConnection) async throws -> Mentions {
        var mentions = Mentions()
        for row in try await connection.query(Step(HistoryStatements.mentions, parameters(range))) {
            let position: Int64 = try row.value(at: 0)
            let subscriptions = try JSONDocument(try row.value(JSONText.self, at: 1).utf8).root.elements
                .compactMap(\.string)
            if try subscriptions.isEmpty || row.value(Bool.self, at: 2) { mentions.others.append(position) }
            if !subscriptions.isEmpty {
                mentions.events.append(AuditWorker.Mention(position: position, subscriptions: subscriptions))
            }
        }
        return mentions
    }

    /// Pairs of purchases of Google Play of which one may continue the other.
    func linkedPurchases(_ range: Range<Int64>, _ connection: PostgresConnection) async throws -> [[String]] {
        try await connection.query(Step(HistoryStatements.linkedPurchases, parameters(range))).map { row in
            try (0...1).compactMap { try row.optional(String.self, at: $0) }
        }
    }

    private func parameters(_ range: Range<Int64>) -> [Parameter] {
        [Parameter(streamId), Parameter(range.lowerBound), Parameter(range.upperBound)]
    }

    // MARK: - Subscriptions

    /// Folds the subscriptions of a page and writes their rows.
    func fold(_ page: HistoryPages.Page, _ index: MentionIndex, _ connection: PostgresConnection) async throws {
        let states = try await ProjectedSubscription.fold(
            page.positions.sorted(), of: streamId, about: { page.subscriptions.contains(index.key(of: $0)) }, connection
        ).get()
        try await write(states, connection)
    }

    /// Folds again, together, the subscriptions of several pages that turn out to have transactions in common.
    func foldMoved(_ connection: PostgresConnection) async throws {
        var after = ""
        while true {
            try Task.checkCancellation()
            let shared = try await onTables(connection) {
                try await connection.query(
                    Step(
                        HistoryStatements.sharedTransactions,
                        [Parameter(streamId), Parameter(after), Parameter(Limits.batchEventsMax)]),
                    deadline: .now + Limits.tableWaitMax)
            }
            guard let last = shared.last else { return }
            after = try last.value(at: 0)
            let holders = try shared.map { try $0.value(String.self, at: 1) }
            let apart = try await related(to: Set(holders), connection)
            let positions = apart.values.reduce(into: Set<Int64>()) { $0.formUnion($1.facts.positions) }
            var states = try await ProjectedSubscription.fold(
                positions.sorted(), of: streamId, about: { apart[$0] != nil }, connection
            ).get()
            for id in apart.keys { states[id]?.isNew = false }
            try await write(states, over: edges(Array(apart.values)), connection)
        }
    }

    /// Those of some subscriptions of the App Store that are written, with all others that have transactions of theirs.
    private func related(
        to ids: Set<String>, _ connection: PostgresConnection
    ) async throws -> [String: ProjectedSubscription] {
        var found: [String: ProjectedSubscription] = [:]
        var (wanted, asked) = (ids, Set<String>())
        while !wanted.isEmpty {
            asked.formUnion(wanted)
            let ids = wanted.sorted()
            let states = try await onTables(connection) {
                try ProjectedSubscription.read(
                    try await connection.query(
                        Step(ProjectionStatements.loadSubscriptions, [Parameter(streamId), .array(ids)]))
                ).get()
            }
            wanted = []
            // Several purchases of Google Play can be in one order.
            for state in states where !state.facts.mayJoinOthers {
                found[state.facts.originalTransactionId] = state
                wanted.formUnion(state.facts.otherHolders)
            }
            wanted.subtract(asked)
        }
        return found
    }

    /// - Parameter old: Edges that may be stored for subscriptions that are not new.
    private func write(
        _ states: [String: ProjectedSubscription], over old: [CustomerChanges.Edge] = [],
        _ connection: PostgresConnection
    ) async throws {
        let folded = states.keys.sorted().compactMap { states[$0] }
        guard !folded.isEmpty else { return }
        let steps = rows.steps(folded, rows.subscriptions(folded))
        let edges = edges(folded)
        try await onTables(connection) {
            for step in steps { _ = try await connection.query(step) }
            if !old.isEmpty {
                _ = try await connection.query(
                    Step(CustomerStatements.deleteEdges, Array(CustomerFold.parameters(streamId, old).prefix(4))))
            }
            if !edges.isEmpty {
                _ = try await connection.query(
                    Step(CustomerStatements.writeEdges, CustomerFold.parameters(streamId, edges)))
            }
        }
    }

    private func edges(_ states: [ProjectedSubscription]) -> [CustomerChanges.Edge] {
        states.flatMap { CustomerChanges.edges($0.facts.originalTransactionId, $0.facts.ownershipEvidence()) }
    }

    // MARK: - Customers

    /// Applies the link statements among some events, in order of position.
    func applyLinks(_ positions: [Int64], _ connection: PostgresConnection) async throws {
        let rows = try await connection.query(Step(AuditStatements.events, [Parameter(streamId), .array(positions)]))
        var statements: [CustomerChanges.Statement] = []
        for row in rows {
            switch try FoldableEvent.read(row) {
            case .success(let event): if let link = event.link { statements.append((link, event.position)) }
            case .failure(let failure): throw ProjectionError(failure)
            }
        }
        guard !statements.isEmpty else { return }
        let links = statements
        try await onTables(connection) { _ = try await customers(connection).applyLinks(links) }
    }

    /// Records which account tokens are shared. The edges and periods must have been written.
    func recountTokens(_ connection: PostgresConnection) async throws {
        try await onTables(connection) { _ = try await customers(connection).recountAllTokens() }
    }

    /// The next subscriptions after one of them, in order.
    func subscriptions(after last: CustomerKey, _ connection: PostgresConnection) async throws -> [CustomerKey] {
        try await keys(
            HistoryStatements.pageSubscriptions,
            [Parameter(streamId), Parameter(last.id.text), Parameter(idsMax)], connection)
    }

    /// The next ids that links name after one of them, in order.
    func linkedKeys(after last: CustomerKey, _ connection: PostgresConnection) async throws -> [CustomerKey] {
        try await keys(
            CustomerStatements.pageLinkedKeys,
            [Parameter(streamId), Parameter(last.kind.rawValue), Parameter(last.id.text), Parameter(idsMax)],
            connection)
    }

    /// The next customers that have or had links after one of them, in order.
    func linkedCustomers(after last: CustomerKey, _ connection: PostgresConnection) async throws -> [CustomerKey] {
        try await keys(
            HistoryStatements.pageLinkedCustomers,
            [Parameter(streamId), Parameter(last.id.text), Parameter(idsMax)], connection)
    }

    private func keys(
        _ statement: Statement, _ parameters: [Parameter], _ connection: PostgresConnection
    ) async throws -> [CustomerKey] {
        try await onTables(connection) {
            try await connection.query(Step(statement, parameters)).compactMap { try $0.customerKey(at: 0) }
        }
    }

    /// Writes who owns the subscriptions around some ids and where the ids lead. Links, edges and shared tokens must have been
    /// written. Two pages may have ids in common: both lead to the same rows.
    func writeCustomers(of keys: Set<CustomerKey>, _ connection: PostgresConnection) async throws {
        let fresh = try await onTables(connection) {
            try await StoredCustomers.load(streamId, around: keys, known: [:], connection, withRows: false).get()
                .computed(by: checkpoint.rules.policy)
        }
        // In one order, a transaction for each table: connections that write the same rows wait, but not for each other.
        let owners = fresh.ownership.sorted {
            ($0.originalTransactionId, $0.from, $0.owner) < ($1.originalTransactionId, $1.from, $1.owner)
        }
        let identities = fresh.identities.sorted { ($0.key, $0.from) < ($1.key, $1.from) }
        if !owners.isEmpty {
            try await write(
                Step(CustomerStatements.addOwnership, CustomerFold.parameters(streamId, owners)), connection)
        }
        if !identities.isEmpty {
            try await write(
                Step(CustomerStatements.addIdentities, CustomerFold.parameters(streamId, identities)), connection)
        }
    }

    private func write(_ step: Step, _ connection: PostgresConnection) async throws {
        try await onTables(connection) { _ = try await connection.query(step) }
    }

    private func customers(_ connection: PostgresConnection) -> CustomerFold {
        CustomerFold(streamId: streamId, rules: checkpoint.rules, connection: connection)
    }

    // MARK: - Tables

    /// Runs the body in a transaction on the tables of this rebuild.
    ///
    /// - Throws: ``RebuildError/runsAlready`` if another rebuild has made them again; what the body throws. The pool rolls back
    ///   then.
    private func onTables<Value>(
        _ connection: PostgresConnection, _ body: () async throws -> Value
    ) async throws -> Value {
        let held = try await connection.begin(
            with: [
                Step(ProjectionStatements.selectTables, [Parameter(ProjectionTables.rebuild.rawValue)]),
                Step(HistoryStatements.hold, [Parameter(streamId)]),
            ], deadline: .now + Limits.statementWaitMax)[1]
        guard held.count == 1, try held[0].value(String.self, at: 0) == checkpoint.version else {
            throw RebuildError.runsAlready
        }
        let value = try await body()
        try await connection.commit(deadline: .now + Limits.statementWaitMax)
        return value
    }
}
