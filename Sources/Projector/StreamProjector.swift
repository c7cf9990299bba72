import EventLog
import Postgres
import Subscriptions

/// Folds the events of one stream into its projections, one batch a transaction, in the order of positions.
struct StreamProjector: Sendable {
    let pool: PostgresPool
    let streamId: Int32
    /// The app's configured products; nil for an app that is not configured here, which keeps those that its rows
    /// were folded with.
    let products: ProductCatalog?
    var tables = ProjectionTables.live

    enum Progress: Sendable, Hashable {
        /// Up to this position; there may be more.
        case folded(Int64)
        /// Nothing behind the checkpoint.
        case caughtUp
        /// Another projector leads this stream at the moment.
        case ledElsewhere
    }

    /// Folds the next batch. Rows and checkpoint are committed together or not at all, and the batch after a crash
    /// begins where the last one ended.
    ///
    /// - Throws: ``ProjectionError/unfoldable(position:problem:)`` when the first event of the batch cannot be
    ///   folded. Nothing is skipped: those before it are committed by the call before.
    func foldBatch() async throws(ProjectionError) -> Progress {
        let result: Result<Progress, ProjectionError>
        do throws(PostgresError) {
            result = try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
                (connection) async throws(PostgresError) -> Result<Progress, ProjectionError> in
                try await connection.begin(deadline: .now + Limits.statementWaitMax)
                let result = try await BatchFold(
                    connection: connection, streamId: streamId, configured: products, tables: tables
                ).run()
                if case .success(.folded) = result {
                    try await connection.commit(deadline: .now + Limits.statementWaitMax)
                } else {
                    try await connection.rollback(deadline: .now + Limits.statementWaitMax)
                }
                return result
            }
        } catch {
            throw .database(error)
        }
        return try result.get()
    }
}

/// One batch, inside its transaction. Rows that cannot be read are a result and no error of the connection.
private struct BatchFold {
    let connection: PostgresConnection
    let streamId: Int32
    let configured: ProductCatalog?
    let tables: ProjectionTables

    typealias Outcome<Value> = Result<Value, ProjectionError>

    func run() async throws(PostgresError) -> Outcome<StreamProjector.Progress> {
        let id = Parameter(streamId)
        let lead = try await query(Step(ProjectionStatements.lead, [id, Parameter(tables.rawValue)]))
        guard try lead[0].value(Bool.self, at: 0) else { return .success(.ledElsewhere) }

        let checkpoint = try await query(Step(ProjectionStatements.checkpoint, [id]))
        let start: Int64 = checkpoint.count == 0 ? 0 : try checkpoint[0].value(at: 0)
        let foldedWith: String = checkpoint.count == 0 ? "" : try checkpoint[0].value(at: 1)
        let products = configured ?? ProductCatalog(canonicalText: foldedWith)
        let productsText = configured?.canonicalText ?? foldedWith
        if productsText != foldedWith, let failure = try await refoldAll(products) { return .failure(failure) }

        let rows = try await query(
            Step(ProjectionStatements.nextEvents, [id, Parameter(start), Parameter(Limits.batchEventsMax)]))
        let (events, failure) = try Self.decode(rows)
        if events.isEmpty, let failure { return .failure(failure) }
        guard events.count > 0 || productsText != foldedWith else { return .success(.caughtUp) }

        let touched = Set(events.flatMap(\.factsByLine.keys)).sorted()
        let known = try await query(Step(ProjectionStatements.loadSubscriptions, [id, .array(touched)]))
        var lines: [String: ProjectedLine]
        switch try Self.lines(known) {
        case .success(let loaded):
            lines = Dictionary(uniqueKeysWithValues: loaded.map { ($0.facts.originalTransactionId, $0) })
            for id in touched {
                let facts = lines[id]?.facts ?? SubscriptionFacts(originalTransactionId: id)
                lines[id, default: ProjectedLine(facts: facts, position: 0)].written = Subscription(
                    facts, products: products)
            }
        case .failure(let failure): return .failure(failure)
        }
        let before = Set(lines.filter { $0.value.position > 0 }.keys)
        for event in events { event.fold(into: &lines) }
        let after = touched.compactMap { lines[$0] }
        try await write(after, products)
        try await CustomerFold(streamId: streamId, query: query)
            .apply(CustomerChanges(events, after, known: before, after: start))
        let last = events.last?.position ?? start
        _ = try await query(
            Step(ProjectionStatements.writeCheckpoint, [id, Parameter(last), Parameter(productsText)]))
        return .success(.folded(last))
    }

    /// Writes the rows of all lines anew, from the facts that they have. Their products were configured otherwise.
    private func refoldAll(_ products: ProductCatalog) async throws(PostgresError) -> ProjectionError? {
        var after = ""
        while true {
            // There may be many pages, and a server that ends must not wait for them.
            if Task.isCancelled { throw PostgresError(.closed) }
            let rows = try await query(
                Step(
                    ProjectionStatements.pageSubscriptions,
                    [Parameter(streamId), Parameter(after), Parameter(Limits.batchEventsMax)]))
            switch try Self.lines(rows) {
            case .success(let lines):
                guard let last = lines.last else { return nil }
                try await write(lines, products)
                after = last.facts.originalTransactionId
            case .failure(let failure): return failure
            }
        }
    }

    private func write(_ lines: [ProjectedLine], _ products: ProductCatalog) async throws(PostgresError) {
        guard !lines.isEmpty else { return }
        for step in ProjectionWriter(streamId: streamId, products: products).steps(lines) { _ = try await query(step) }
    }

    /// Each statement has its own deadline: how many there are depends on what is in the log.
    private func query(_ step: Step) async throws(PostgresError) -> RowSet {
        try await connection.query(step, deadline: .now + Limits.statementWaitMax)
    }

    /// The events before the first that cannot be read, and why that one cannot.
    private static func decode(_ rows: RowSet) throws(PostgresError) -> ([FoldableEvent], ProjectionError?) {
        var events: [FoldableEvent] = []
        for row in rows {
            switch try FoldableEvent.read(row) {
            case .success(let event): events.append(event)
            case .failure(let failure): return (events, failure)
            }
        }
        return (events, nil)
    }

    private static func lines(_ rows: RowSet) throws(PostgresError) -> Outcome<[ProjectedLine]> {
        var lines: [ProjectedLine] = []
        for row in rows {
            let id: String = try row.value(at: 0)
            let position: Int64 = try row.value(at: 1)
            let facts = try row.json(at: 2, position: position) {
                try SubscriptionFacts(originalTransactionId: id, json: $0)
            }
            switch facts {
            case .success(let facts): lines.append(ProjectedLine(facts: facts, position: position))
            case .failure(let failure): return .failure(failure)
            }
        }
        return .success(lines)
    }
}

package enum ProjectionError: Error, CustomStringConvertible {
    case database(PostgresError)
    /// The fold stops at this event until somebody has looked.
    case unfoldable(position: Int64, problem: String)

    package var description: String {
        switch self {
        case .database(let error): error.description
        case .unfoldable(let position, let problem): "the event at position \(position) cannot be folded: \(problem)"
        }
    }
}
