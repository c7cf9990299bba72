import Encoding
import EventLog
import Postgres
import Subscriptions

/// Folds the whole log into a second set of tables while the live projection continues, and swaps the rows in once it
/// has caught up.
package struct ProjectionRebuild: Sendable {
    private let owner: ConnectionConfiguration
    let pool: PostgresPool
    private let app: String?
    private let environment: Environment?
    private let now: @Sendable () -> Instant
    private let workers: Int
    private let eventsIndexedMax: Int64
    private let eventsAtOnceMax: Int
    private let refolds = RefoldHistory()

    /// - Parameters:
    ///   - owner: Creates the tables.
    ///   - pool: Has the rights of the projector.
    ///   - app: Only this app's streams; nil for all.
    ///   - environment: Only this environment's streams; nil for all.
    ///   - now: Decides what is published.
    ///   - workers: How many connections fold a stream at once, at most as many as the pool lends.
    ///   - eventsIndexedMax: Most events, for each worker, that are indexed at a time. The log is read once for each such part.
    ///   - eventsAtOnceMax: Most events whose subscriptions a worker folds at a time.
    package init(
        owner: ConnectionConfiguration, pool: PostgresPool, app: String?, environment: Environment?,
        now: @escaping @Sendable () -> Instant, workers: Int = 1,
        eventsIndexedMax: Int64 = ProjectionRebuild.eventsIndexedMax,
        eventsAtOnceMax: Int = ProjectionRebuild.eventsAtOnceMax
    ) {
        self.owner = owner
        self.pool = pool
        self.app = app
        self.environment = environment
        self.now = now
        self.workers = min(workers, pool.limit)
        self.eventsIndexedMax = eventsIndexedMax
        self.eventsAtOnceMax = eventsAtOnceMax
    }

    /// Needs about 30 bytes of memory for each event and subscription that it mentions.
    package static let eventsIndexedMax = Limits.eventsIndexedMax
    package static let eventsAtOnceMax = Limits.historyEventsMax

    /// How much of the log is folded.
    package struct Progress: Sendable, Hashable {
        package let eventsFolded: Int64
        package let eventsTotal: Int64
    }

    package struct Outcome: Sendable, Hashable {
        package let streams: Int
        package let eventsFolded: Int64
        /// Live rows that were deleted or inserted; a changed row counts twice. 0 if all rows came out the same.
        package let rowsReplaced: Int
    }

    struct Stream {
        let id: Int32
        let app: String
        let environment: String
        var folded: Int64 = 0
        var head: Int64
    }

    /// Rebuilds and swaps. Safe to repeat: if it fails or is killed, the live rows are unchanged.
    ///
    /// - Parameter onProgress: Called after each batch.
    /// - Throws: ``RebuildError``, ``PostgresError``.
    package func run(onProgress: (Progress) async throws -> Void) async throws -> Outcome {
        // The claim and the swap share one transaction, so a rebuild that has lost its claim cannot swap.
        try await claiming { connection, claim in try await run(connection, claim, onProgress) }
    }

    /// Runs the body in a transaction that excludes other rebuilds, with another connection of the owner.
    func claiming<Value>(
        _ body: (_ connection: PostgresConnection, _ claim: PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let claim = try await PostgresConnection.connect(owner, deadline: .now + Limits.statementWaitMax)
        do {
            let outcome = try await claimed(claim, body)
            await claim.close()
            return outcome
        } catch {
            // A session outlives its client for a moment, and the next rebuild may start at once.
            try? await claim.rollback(deadline: .now + Limits.statementWaitMax)
            await claim.close()
            throw error
        }
    }

    private func claimed<Value>(
        _ claim: PostgresConnection, _ body: (PostgresConnection, PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await claim.begin(deadline: .now + Limits.statementWaitMax)
        guard try await claim.lockOutRebuilds(by: RebuildStatements.claim) else { throw RebuildError.runsAlready }
        let connection = try await PostgresConnection.connect(owner, deadline: .now + Limits.statementWaitMax)
        do {
            let outcome = try await body(connection, claim)
            await connection.close()
            return outcome
        } catch {
            await connection.close()
            throw error
        }
    }

    private func run(
        _ connection: PostgresConnection, _ claim: PostgresConnection,
        _ onProgress: (Progress) async throws -> Void
    ) async throws -> Outcome {
        var streams = try await self.streams(connection)
        try await connection.script(RebuildStatements.makeTables.text, deadline: .now + Limits.statementWaitMax)
        for _ in 0..<Limits.rebuildRoundsMax {
            let before = streams.reduce(0) { $0 + $1.folded }
            for index in streams.indices { try await catchUp(&streams, index, onProgress) }
            if streams.reduce(0, { $0 + $1.folded }) - before <= Limits.rebuildLagMax { break }
        }
        try await connection.script(RebuildStatements.analyze.text, deadline: .now + Limits.tableWaitMax)
        let replaced = try await swap(&streams, claim)
        return Outcome(
            streams: streams.count, eventsFolded: streams.reduce(0) { $0 + $1.folded }, rowsReplaced: replaced)
    }

    /// - Throws: ``RebuildError/noStream``, ``PostgresError``.
    func streams(_ connection: PostgresConnection) async throws -> [Stream] {
        let rows = try await connection.query(
            RebuildStatements.streams, [Parameter(app), Parameter(environment?.rawValue)],
            deadline: .now + Limits.statementWaitMax)
        var streams: [Stream] = []
        for row in rows {
            streams.append(
                Stream(
                    id: try row.value(at: 0), app: try row.value(at: 1), environment: try row.value(at: 2),
                    head: try row.value(at: 3)))
        }
        guard !streams.isEmpty || (app == nil && environment == nil) else { throw RebuildError.noStream }
        return streams
    }

    /// Folds what a stream contains so far from whole histories, and then what was appended meanwhile in batches.
    ///
    /// - Parameter last: No event after this position is folded.
    func catchUp(
        _ streams: inout [Stream], _ index: Int, through last: Int64 = .max,
        _ onProgress: (Progress) async throws -> Void
    ) async throws {
        let end = min(last, streams[index].head)
        if streams[index].folded == 0, end > 0 {
            let before = streams.reduce(0) { $0 + $1.folded }
            let total = streams.reduce(0) { $0 + $1.head }
            try await foldHistories(streams[index], through: end) { folded in
                try await onProgress(Progress(eventsFolded: before + folded, eventsTotal: total))
            }
            streams[index].folded = end
        }
        while try await fold(&streams[index], batchesMax: Limits.batchesAtOnceMax, through: last) {
            try await onProgress(
                Progress(
                    eventsFolded: streams.reduce(0) { $0 + $1.folded },
                    eventsTotal: streams.reduce(0) { $0 + $1.head }))
        }
    }

    private func foldHistories(
        _ stream: Stream, through last: Int64, _ onProgress: (Int64) async throws -> Void
    ) async throws {
        let writer = BatchWriter(
            pool: pool, streamId: stream.id, tables: .rebuild, now: now, onSharedTokens: { _ in }, onNotices: { _ in })
        let histories = HistoryFold(
            writer: writer, workers: workers, eventsIndexedMax: eventsIndexedMax * Int64(workers),
            eventsAtOnceMax: eventsAtOnceMax)
        do {
            try await histories.run(through: last, onProgress: onProgress)
        } catch let error as ProjectionError {
            throw Self.reason(error, stream)
        }
    }

    /// - Returns: False if there was nothing to fold.
    private func fold(_ stream: inout Stream, batchesMax: Int, through last: Int64 = .max) async throws -> Bool {
        try Task.checkCancellation()
        let projector = StreamProjector(
            pool: pool, streamId: stream.id, tables: .rebuild, now: now, refolds: refolds)
        do throws(ProjectionError) {
            switch try await projector.fold(batchesMax: batchesMax, through: last) {
            case .folded(let position):
                stream.folded = position
                stream.head = max(stream.head, position)
                return true
            case .caughtUp: return false
            case .ledElsewhere: break
            }
        } catch {
            throw Self.reason(error, stream)
        }
        // A rebuild that has lost its claim without noticing still leads the stream.
        throw RebuildError.runsAlready
    }

    private static func reason(_ error: ProjectionError, _ stream: Stream) -> any Error {
        switch error {
        case .database(let cause): cause
        case .unfoldable: RebuildError.unfoldable(stream: "\(stream.app), \(stream.environment)", error)
        case .repeatedRefold: RebuildError.repeatedRefold(stream: "\(stream.app), \(stream.environment)", error)
        }
    }

    /// Leads all streams, folds the remaining events and replaces the live rows, in the transaction of the claim:
    /// readers see the old rows until it commits, and the live projection continues after it.
    private func swap(_ streams: inout [Stream], _ connection: PostgresConnection) async throws -> Int {
        func query(_ step: Step, _ limit: Duration) async throws(PostgresError) -> RowSet {
            try await connection.query(step, deadline: .now + limit)
        }
        for stream in streams {
            _ = try await pool.query(
                RebuildStatements.makeLiveCheckpoint, [Parameter(stream.id), Parameter(Checkpoint.projectionVersion)],
                deadline: .now + Limits.statementWaitMax)
        }
        _ = try await query(Step(RebuildStatements.workAsProjector), Limits.statementWaitMax)
        _ = try await query(Step(RebuildStatements.disableJIT), Limits.statementWaitMax)
        let isDistributed = try await Distribution.isInUse(connection)
        for stream in streams {
            let id = Parameter(stream.id)
            if isDistributed { _ = try await query(Step(ProjectionStatements.holdStream, [id]), Limits.leadWaitMax) }
            _ = try await query(Step(RebuildStatements.lockLive, [id]), Limits.leadWaitMax)
        }
        var replaced = 0
        var changed: [Int32] = []
        for index in streams.indices {
            let id = Parameter(streams[index].id)
            let live = try await query(Step(RebuildStatements.liveCheckpoint, [id]), Limits.statementWaitMax)
            let position: Int64 = try live[0].value(at: 0)
            // Events after the live checkpoint are left to the live projection.
            if position > 0 {
                while try await fold(&streams[index], batchesMax: 1), streams[index].folded < position {}
            }
            let clock = now().held(by: try live[0].value(at: 1))
            let products = ProductCatalog(configured: try live[0].value(at: 2))
            var changeWriter = try await ChangeWriter.start(
                streams[index].id, connection, now: clock, products: products)
            while changeWriter.hasMoreDue {
                try await changeWriter.write()
                changed.append(streams[index].id)
                changeWriter = try await ChangeWriter.start(
                    streams[index].id, connection, now: clock, products: products)
            }
            for statement in [RebuildStatements.restoreChecks, RebuildStatements.restoreClaims] {
                _ = try await query(Step(statement, [id]), Limits.tableWaitMax)
            }
            for table in RebuildStatements.swap {
                let isSame = try await query(Step(table.isSame, [id]), Limits.tableWaitMax)
                if try isSame[0].value(Bool.self, at: 0) { continue }
                for statement in [table.delete, table.insert] {
                    replaced += try await query(Step(statement, [id]), Limits.tableWaitMax).affectedRows
                }
            }
            try await RebuildChanges(
                streamId: streams[index].id, connection: connection, livePosition: position
            ).publish(&changeWriter)
            if changeWriter.hasWritten { changed.append(streams[index].id) }
            _ = try await query(Step(RebuildStatements.swapCheckpoint, [id]), Limits.statementWaitMax)
        }
        _ = try await query(Step(RebuildStatements.workAsOwner), Limits.statementWaitMax)
        if !isDistributed { _ = try await query(Step(RebuildStatements.dropTables), Limits.statementWaitMax) }
        try await connection.commit(deadline: .now + Limits.statementWaitMax)
        // Wakes the projectors, since a period may begin or end sooner than before the swap, and the readers.
        await connection.wake("subledger_event", streams.map(\.id))
        await connection.wake("subledger_change", Array(Set(changed)))
        if isDistributed { await dropTables(connection) }
        return replaced
    }

    /// Drops the tables of this rebuild after its commit: in a distributed database, the owner cannot drop what the
    /// projector's role wrote in the same transaction. If another rebuild has begun, or this fails, that or the next
    /// one drops them.
    private func dropTables(_ connection: PostgresConnection) async {
        do {
            try await connection.begin(deadline: .now + Limits.statementWaitMax)
            if try await connection.lockOutRebuilds(by: RebuildStatements.claim) {
                _ = try await connection.query(
                    RebuildStatements.dropTables, deadline: .now + Limits.statementWaitMax)
                try await connection.commit(deadline: .now + Limits.statementWaitMax)
            } else {
                try await connection.rollback(deadline: .now + Limits.statementWaitMax)
            }
        } catch {
            try? await connection.rollback(deadline: .now + Limits.statementWaitMax)
        }
    }
}

/// Why a rebuild failed. The live rows are unchanged.
package enum RebuildError: Error, CustomStringConvertible {
    case runsAlready
    case noStream
    case unfoldable(stream: String, ProjectionError)
    case repeatedRefold(stream: String, ProjectionError)

    package var description: String {
        switch self {
        case .runsAlready: "another rebuild of this database is running: wait until it ends"
        case .noStream: "no such stream: see `subledger projector status`"
        case .unfoldable(let stream, let error):
            "stream \(stream): \(error); install a release that can fold it, or skip it with `subledger projector skip`"
        case .repeatedRefold(let stream, let error): "stream \(stream): \(error)"
        }
    }
}
