import Encoding
import Logging
import Postgres

/// Keeps the projections of all streams up with the log.
///
/// Any number of projectors may run: each stream is led by whoever takes its lock first, batch by batch.
package struct Projector: Sendable {
    /// What a pool must lend for batches to be written, folded and read at the same time.
    package static let connectionsMax = StreamProjector.connectionsMax

    private let pool: PostgresPool
    /// A connection of its own, since listening ties it up.
    private let listener: ConnectionConfiguration
    private let logger: Logger
    private let now: @Sendable () -> Instant
    private let metrics = ProjectorMetrics()
    private let refolds = RefoldHistory()
    private let watch: StallWatch

    /// How long a stream may stand still while events wait before that is reported.
    package static let stallAfter = Limits.stallAfter

    /// - Parameters:
    ///   - stallAfter: See ``stallAfter``.
    ///   - now: Decides when the beginning or end of a period is published.
    package init(
        pool: PostgresPool, listener: ConnectionConfiguration, stallAfter: Duration = Self.stallAfter,
        now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.pool = pool
        self.listener = listener
        self.now = now
        self.logger = logger
        watch = StallWatch(pool: pool, stallAfter: stallAfter, now: now, logger: logger)
    }

    /// The streams that do not move although events wait, as of the last look, a quarter of ``stallAfter`` ago at most.
    /// Empty while nothing runs.
    package var stalledStreams: [StalledStream] {
        get async { await watch.stalled }
    }

    /// How its statements are planned. Everything is looked up by key, hundreds of them at once, and a plan made for a
    /// table while that was empty would read all of it, or all of an index. Planning each of the statements anew takes
    /// two to three microseconds of the database's time for an event, by `pg_stat_statements`, and is the price for
    /// that.
    package static let planSettings = ["enable_seqscan": "off", "plan_cache_mode": "force_custom_plan"]

    /// What the sessions of a projector need: a leader that is gone or stopped must not hold its stream for ever.
    package static var sessionSettings: [String: String] {
        [
            "client_connection_check_interval": milliseconds(Limits.leaderCheckInterval),
            "idle_in_transaction_session_timeout": milliseconds(Limits.leaderSilenceMax),
        ]
    }

    private static func milliseconds(_ duration: Duration) -> String {
        String(duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)
    }

    /// Runs until its task is cancelled. Failures are logged and tried again; none ends it.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await keepUp() }
            group.addTask { await watch.run() }
        }
    }

    private func keepUp() async {
        var connection: PostgresConnection?
        var schedule = StreamSchedule(now: .now)
        while !Task.isCancelled {
            if connection == nil {
                connection = await listen()
                // Only looking shows what was said while nobody listened.
                schedule.scheduleSweep(at: .now)
            }
            await fold(&schedule)
            guard let listening = connection else {
                try? await Task.sleep(for: Limits.failurePause)
                continue
            }
            if await waitForEvents(on: listening, &schedule) == false {
                await listening.close()
                connection = nil
            }
        }
        await connection?.close()
    }

    /// Folds whatever is behind, stream by stream. A stream that cannot go on does not hold up the others.
    ///
    /// - Returns: False if something failed.
    @discardableResult
    package func foldAllStreams() async -> Bool {
        var schedule = StreamSchedule(now: .now)
        var isHealthy = await fold(&schedule)
        while schedule.next <= .now, !Task.isCancelled {
            if await fold(&schedule) == false { isHealthy = false }
        }
        return isHealthy
    }

    /// Folds what is due.
    ///
    /// - Returns: False if something failed.
    @discardableResult
    private func fold(_ schedule: inout StreamSchedule) async -> Bool {
        let selection = schedule.takeDue(now: .now)
        if case .only(let ids) = selection, ids.isEmpty { return true }
        do throws(PostgresError) {
            let rows = try await behind(selection)
            var lag: Int64 = 0
            for row in rows { lag += try row.value(Int64.self, at: 3) }
            metrics.lag.record(lag)
            var isHealthy = true
            for row in rows {
                let id: Int32 = try row.value(at: 0)
                let app: String = try row.value(at: 1)
                let environment: String = try row.value(at: 2)
                let outcome = await fold(
                    streamId: id, app: app, environment: environment,
                    until: max(.now + Limits.turnMin, min(schedule.next, .now + Limits.turnMax)))
                schedule.record(id, outcome, now: .now)
                if outcome == .failed {
                    metrics.failures.increment()
                    isHealthy = false
                } else if outcome != .unfinished {
                    lag -= try row.value(Int64.self, at: 3)
                    metrics.lag.record(lag)
                }
            }
            try await endSilentLeaders(of: schedule.takeLedElsewhere(now: .now))
            schedule.couldRead = true
            return isHealthy
        } catch {
            metrics.failures.increment()
            if schedule.couldRead, !Task.isCancelled {
                logger.warning(
                    "projector cannot read the log",
                    metadata: ["db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "")"])
            }
            schedule.couldRead = false
            schedule.scheduleSweep(at: .now + Limits.failurePause)
            return false
        }
    }

    private func behind(_ selection: StreamSchedule.Selection) async throws(PostgresError) -> RowSet {
        switch selection {
        case .all:
            return try await pool.query(
                ProjectionStatements.streamsBehind,
                [Parameter(now().advanced(by: Limits.sweepInterval)), Parameter(Checkpoint.projectionVersion)],
                deadline: .now + Limits.readWaitMax)
        case .only(let ids):
            return try await pool.query(
                ProjectionStatements.namedStreams, [.array(ids.sorted())], deadline: .now + Limits.readWaitMax)
        }
    }

    /// A leader that is stopped in the middle of a statement is not missed by the database, but by who would lead
    /// instead.
    private func endSilentLeaders(of streams: [Int32]) async throws(PostgresError) {
        guard !streams.isEmpty else { return }
        var leaders: [String] = []
        for row in try await pool.query(
            ProjectionStatements.leaders, [.array(streams)], deadline: .now + Limits.readWaitMax)
        {
            leaders.append(try row.value(at: 0))
        }
        let steps = [
            Step(ProjectionStatements.workAsLogin),
            Step(
                ProjectionStatements.endSilentLeaders,
                [.array(leaders), Parameter(Limits.leaderSilenceMax.components.seconds)]),
        ]
        let ended = try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
            (connection) async throws(PostgresError) -> Int in
            try await connection.transaction(steps, deadline: .now + Limits.readWaitMax)[1].count
        }
        if ended > 0 { logger.warning("projector ended a leader that was silent", metadata: ["count": "\(ended)"]) }
    }

    /// - Parameter end: Others wait for their turn.
    private func fold(
        streamId: Int32, app: String, environment: String, until end: ContinuousClock.Instant
    ) async -> StreamSchedule.Outcome {
        let projector = StreamProjector(pool: pool, streamId: streamId, now: now, refolds: refolds)
        do throws(ProjectionError) {
            let progress = try await projector.fold(batchesMax: Limits.batchesAtOnceMax, until: end)
            if progress == .ledElsewhere {
                await watch.noteLedElsewhere(streamId)
                return .ledElsewhere
            }
            await watch.noteSuccess(streamId)
            guard case .caughtUp(let untilNextOnClock) = progress else {
                return Task.isCancelled ? .done(for: nil) : .unfinished
            }
            return .done(for: untilNextOnClock)
        } catch {
            if Task.isCancelled { return .done(for: nil) }
            guard await watch.note(streamId, failed: error) else { return .failed }
            var metadata: Logger.Metadata = [
                "stream.app": "\(app)", "stream.environment": "\(environment)", "error": "\(error)",
            ]
            if case .database(let cause) = error {
                metadata["db.error"] = "\(cause.label)"
                metadata["db.sqlstate"] = "\(cause.sqlstate ?? "none")"
                metadata["db.statement"] = "\(cause.statement ?? "none")"
            }
            logger.error("projector stopped", metadata: metadata)
            return .failed
        }
    }

    private func listen() async -> PostgresConnection? {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(listener, deadline: .now + Limits.readWaitMax)
            try await connection.listen(to: "subledger_event", deadline: .now + Limits.readWaitMax)
            return connection
        } catch {
            logger.warning("projector cannot listen for events", metadata: ["db.error": "\(error.label)"])
            return nil
        }
    }

    /// Returns when there may be something to fold; false if the connection is lost.
    private func waitForEvents(on connection: PostgresConnection, _ schedule: inout StreamSchedule) async -> Bool {
        let next = schedule.next
        let arrived = await withTaskCancellationHandler { () -> [ServerNotification]? in
            do throws(PostgresError) {
                return try await connection.notifications(until: next)
            } catch {
                return nil
            }
        } onCancel: {
            connection.interrupt()
        }
        guard let arrived else { return false }
        schedule.markDirty(arrived.compactMap { Int32($0.payload) })
        // Products were stated anew; any of their app's streams may be folded with others.
        if arrived.contains(where: { $0.payload == "products" }) { schedule.scheduleSweep(at: .now) }
        return true
    }
}
