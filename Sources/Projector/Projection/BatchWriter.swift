import Encoding
import EventLog
import Postgres
import Subscriptions

/// Writes folded batches of one stream, each in its own transaction under the lock of the stream's leader.
struct BatchWriter: Sendable {
    let pool: PostgresPool
    let streamId: Int32
    let tables: ProjectionTables
    let now: @Sendable () -> Instant
    /// See ``StreamProjector/onSharedTokens``.
    let onSharedTokens: @Sendable (Int) -> Void
    /// See ``StreamProjector/onLostSeats``.
    var onLostSeats: @Sendable (Int) -> Void = { _ in }
    /// See ``StreamProjector/onNotices``.
    let onNotices: @Sendable ([CustomerNotice]) -> Void
    /// See ``StreamProjector/onGaps``.
    var onGaps: @Sendable (Set<ProductGap>) async -> Void = { _ in }

    /// The stream's current checkpoint. Creates its row if the stream is new.
    func checkpoint() async -> ProjectionOutcome<Checkpoint> {
        let selectTables = Step(ProjectionStatements.selectTables, [Parameter(tables.rawValue)])
        let make = Step(
            ProjectionStatements.makeCheckpoint, [Parameter(streamId), Parameter(Checkpoint.projectionVersion)])
        let read = Step(ProjectionStatements.checkpoint, [Parameter(streamId)])
        do throws(PostgresError) {
            return .success(
                try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
                    (connection) async throws(PostgresError) -> Checkpoint in
                    let found = try Self.checkpoint(
                        try await connection.transaction(
                            [selectTables, read], deadline: .now + Limits.statementWaitMax)[1])
                    guard found.version.isEmpty else { return found }
                    return try Self.checkpoint(
                        try await connection.transaction(
                            [selectTables, make, read], deadline: .now + Limits.statementWaitMax)[2])
                })
        } catch {
            return .failure(.database(error))
        }
    }

    /// Writes the batch and moves the checkpoint to its end.
    ///
    /// - Parameter expected: The checkpoint after which the batch was folded.
    /// - Returns: The new checkpoint; nil if another projector leads the stream, the checkpoint is not the expected
    ///   one, the batch does not begin there, or due boundaries must be published first. Nothing of the batch is
    ///   written then.
    func write(_ batch: FoldedBatch, after expected: Checkpoint) async -> ProjectionOutcome<Checkpoint?> {
        guard batch.start == expected.position else { return .success(nil) }
        let written = await leading(after: expected) {
            (connection, changeWriter) async throws(PostgresError) -> ProjectionOutcome<Written> in
            for step in batch.steps { _ = try await connection.query(step) }
            let customers = CustomerFold(streamId: streamId, rules: expected.rules, connection: connection)
            let applied: CustomerFold.Applied
            switch try await customers.apply(batch.customers, batch.subscriptions) {
            case .success(let found): applied = found
            case .failure(let failure): return .failure(failure)
            }
            changeWriter?.add(batch.differences) { .event(position: $0.position) }
            changeWriter?.add(applied.moved, batch.products)
            try await changeWriter?.add(batch.notices)
            return .success(
                Written(
                    checkpoint: try await move(
                        expected, to: batch.position, by: expected.rowProducts, connection),
                    newlySharedTokens: applied.newlySharedTokens,
                    lostSeats: applied.moved.reduce(0) { $0 + $1.lostSeats }))
        }
        if case .success(.some) = written, tables == .live {
            if !batch.notices.isEmpty { onNotices(batch.notices) }
            if !batch.gaps.isEmpty { await onGaps(batch.gaps) }
        }
        return report(written)
    }

    /// What a committed transaction wrote.
    private struct Written: Sendable {
        let checkpoint: Checkpoint
        let newlySharedTokens: Int
        var lostSeats = 0
    }

    /// Reports the newly shared tokens and the lost seats of a committed transaction.
    private func report(_ written: ProjectionOutcome<Written?>) -> ProjectionOutcome<Checkpoint?> {
        written.map { written in
            if let written, written.newlySharedTokens > 0 { onSharedTokens(written.newlySharedTokens) }
            if let written, written.lostSeats > 0, tables == .live { onLostSeats(written.lostSeats) }
            return written?.checkpoint
        }
    }

    /// Moves the checkpoint to a position up to which all rows were written without it.
    ///
    /// - Parameter written: The checkpoint as it was before. The rows were computed with its products and rules; other ones
    ///   may be configured by now.
    /// - Returns: Nil if the checkpoint has been written since, or an event was skipped.
    func record(_ position: Int64, after written: Checkpoint) async -> ProjectionOutcome<Checkpoint?> {
        switch await checkpoint() {
        case .failure(let failure): return .failure(failure)
        case .success(let found):
            guard found.version == written.version, found.skips == written.skips else { return .success(nil) }
            return await leading(after: found) {
                (connection, _) async throws(PostgresError) -> ProjectionOutcome<Checkpoint> in
                .success(try await move(written, to: position, by: written.rowProducts, connection))
            }
        }
    }

    /// Recomputes the rows of all subscriptions from their stored facts, because products or the rules of the app were
    /// configured differently, or a release with another projection version wrote the rows.
    func refoldAll(
        _ products: ProductCatalog, after expected: Checkpoint
    ) async -> ProjectionOutcome<StreamProjector.Progress> {
        let written = await leading(after: expected) {
            (connection, changeWriter) async throws(PostgresError) -> ProjectionOutcome<Written> in
            let old = ProductCatalog(configured: expected.products.text)
            changeWriter?.products = products
            let writer = ProjectionWriter(
                streamId: streamId, products: products, checks: expected.checks, tables: tables)
            let customers = CustomerFold(streamId: streamId, rules: expected.rules, connection: connection)
            var after = ""
            while true {
                // There may be many pages, and shutdown must not wait for them.
                if Task.isCancelled { throw PostgresError(.closed) }
                let rows = try await connection.query(
                    ProjectionStatements.pageSubscriptions,
                    [Parameter(streamId), Parameter(after), Parameter(Limits.batchEventsMax)],
                    deadline: .now + Limits.statementWaitMax)
                let states: [ProjectedSubscription]
                switch try ProjectedSubscription.read(rows) {
                case .success(let read): states = read
                case .failure(let failure): return .failure(failure)
                }
                guard let last = states.last else { break }
                let subscriptions = writer.subscriptions(states)
                for step in writer.steps(states, subscriptions) { _ = try await connection.query(step) }
                let differences = zip(states, subscriptions).compactMap { state, subscription in
                    SubscriptionDifference(
                        from: Subscription(state.facts, products: old), to: subscription, of: state, after: .max)
                }
                changeWriter?.add(differences) { _ in .products }
                switch try await customers.refresh(states) {
                case .success(let moved): changeWriter?.add(moved, products)
                case .failure(let failure): return .failure(failure)
                }
                try await changeWriter?.write()
                after = last.facts.originalTransactionId
            }
            let crossed = try await customers.recountAllTokens()
            for token in crossed.newlyShared + crossed.noLongerShared {
                switch try await customers.update(subscriptionsOf: token, position: 0, cause: { _ in .ownership }) {
                case .success(let moved): changeWriter?.add(moved, products)
                case .failure(let failure): return .failure(failure)
                }
                try await changeWriter?.write()
            }
            if case .failure(let failure) = try await customers.refreshLinkedKeys() { return .failure(failure) }
            return .success(
                Written(
                    checkpoint: try await move(
                        expected, to: expected.position, by: expected.configured, connection),
                    newlySharedTokens: crossed.newlyShared.count))
        }
        return report(written).map { $0.map { .folded($0.position) } ?? .ledElsewhere }
    }

    /// Publishes the boundaries that are due, up to the limit of one transaction.
    ///
    /// - Returns: False if another projector leads the stream. Nothing is written then.
    func publishDueBoundaries() async -> ProjectionOutcome<Bool> {
        await leading(after: nil) { (_, _) async throws(PostgresError) -> ProjectionOutcome<Void> in
            .success(())
        }.map { $0 != nil }
    }

    /// How long until the next unpublished boundary: zero or less if it is due; nil if there is none.
    func untilNextOnClock() async -> ProjectionOutcome<Duration?> {
        do throws(PostgresError) {
            let rows = try await pool.query(
                ChangeStatements.next, [Parameter(streamId)], deadline: .now + Limits.statementWaitMax)
            guard rows.count == 1, let next: Instant = try rows[0].optional(at: 0) else { return .success(nil) }
            return .success(now().held(by: try rows[0].value(at: 1)).duration(to: next))
        } catch {
            return .failure(.database(error))
        }
    }

    /// Runs the body in a transaction that leads the stream, and commits unless the body fails.
    ///
    /// - Parameters:
    ///   - expected: Nil if the body does not depend on the checkpoint.
    ///   - body: Adds the changes to publish. Only changes of live rows are published.
    /// - Returns: Nil if another projector leads the stream, the checkpoint is not the expected one, or due period
    ///   boundaries must be published first. The body is not run then.
    private func leading<Value: Sendable>(
        after expected: Checkpoint?,
        _ body:
            @Sendable (PostgresConnection, inout ChangeWriter?) async throws(PostgresError) ->
            ProjectionOutcome<Value>
    ) async -> ProjectionOutcome<Value?> {
        do throws(PostgresError) {
            return try await pool.withConnection(deadline: .now + Limits.statementWaitMax) {
                (connection) async throws(PostgresError) -> ProjectionOutcome<Value?> in
                // Read the checkpoint after the lock in a separate statement, so that it is the one that the last
                // leader committed.
                let first = try await connection.begin(
                    with: [
                        Step(ProjectionStatements.selectTables, [Parameter(tables.rawValue)]),
                        Step(ProjectionStatements.lockStream, [Parameter(streamId)]),
                        Step(ProjectionStatements.checkpoint, [Parameter(streamId)]),
                    ], deadline: .now + Limits.statementWaitMax)
                var (locked, rows) = (first[1], first[2])
                if try rows[0].value(Bool.self, at: 11) {
                    _ = try await connection.query(Step(ProjectionStatements.holdStream, [Parameter(streamId)]))
                    locked = try await connection.query(Step(ProjectionStatements.lockStream, [Parameter(streamId)]))
                    rows = try await connection.query(Step(ProjectionStatements.checkpoint, [Parameter(streamId)]))
                }
                let found = try Self.checkpoint(rows)
                guard locked.count == 1, expected == nil || found == expected else {
                    try await connection.rollback(deadline: .now + Limits.statementWaitMax)
                    return .success(nil)
                }
                let clock = now().held(by: try rows[0].value(at: 6))
                var changeWriter =
                    tables == .live
                    ? try await ChangeWriter.start(
                        streamId, connection, now: clock, products: ProductCatalog(configured: found.rowProducts.text))
                    : nil
                let mustWait = expected != nil && changeWriter?.hasMoreDue == true
                let result: ProjectionOutcome<Value?> =
                    mustWait ? .success(nil) : try await body(connection, &changeWriter).map(Optional.some)
                if case .success = result {
                    try await changeWriter?.write()
                    try await connection.commit(deadline: .now + Limits.statementWaitMax)
                    if changeWriter?.hasWritten == true { await connection.wake("subledger_change", [streamId]) }
                } else {
                    try await connection.rollback(deadline: .now + Limits.statementWaitMax)
                }
                return result
            }
        } catch {
            return .failure(.database(error))
        }
    }

    /// Records that the rows up to the position were computed with the products, and with the ownership rules and checks
    /// configured in the checkpoint.
    private func move(
        _ checkpoint: Checkpoint, to position: Int64, by products: ByteString, _ connection: PostgresConnection
    ) async throws(PostgresError) -> Checkpoint {
        let rows = try await connection.query(
            ProjectionStatements.writeCheckpoint,
            [
                Parameter(streamId), Parameter(position), Parameter(products.text),
                Parameter(checkpoint.rules.text), Parameter(checkpoint.checks.lead),
                Parameter(Checkpoint.projectionVersion),
            ],
            deadline: .now + Limits.statementWaitMax)
        var moved = checkpoint
        moved.position = position
        moved.products = products
        moved.ownership = checkpoint.rules.text
        moved.checkLead = checkpoint.checks.lead
        moved.projectionVersion = Checkpoint.projectionVersion
        moved.version = try rows[0].value(at: 0)
        return moved
    }

    private static func checkpoint(_ rows: RowSet) throws(PostgresError) -> Checkpoint {
        Checkpoint(
            position: try rows[0].value(at: 0), products: ByteString(try rows[0].value(at: 1)),
            projectionVersion: try rows[0].value(at: 2), configured: ByteString(try rows[0].value(at: 3)),
            version: try rows[0].value(at: 4), skips: try rows[0].value(at: 5),
            ownership: try rows[0].value(at: 7),
            rules: OwnershipRules(text: try rows[0].value(at: 8)) ?? .standard,
            checkLead: try rows[0].value(at: 9),
            checks: (CheckPolicy(recorded: try rows[0].value(at: 10)) ?? .standard)
                .of(Environment(rawValue: try rows[0].value(at: 12))))
    }
}

extension PostgresConnection {
    /// Notifies the listeners of some streams, if that succeeds at once. They also poll every
    /// ``Limits/sweepInterval``, so a full notification queue stops nothing.
    ///
    /// Call it outside the transaction that writes: a commit that notifies fails if the notification queue is full, and
    /// any role can fill the queue.
    func wake(_ channel: String, _ streamIds: [Int32]) {
        let notification: [Parameter] = [Parameter(channel), .array(streamIds)]
        _ = try? query(StreamNotifier.statement, notification, deadline: .now + Limits.wakeWaitMax)
    }

    /// Runs a statement of a batch with its own deadline, since the amount of work depends on the log.
    func query(_ step: Step) throws(PostgresError) -> RowSet {
        try query(step, deadline: .now + Limits.statementWaitMax)
    }
}
