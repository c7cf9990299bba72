import Encoding
import Logging
import Postgres
import Subscriptions

/// Keeps the projections of all streams up to date with the log.
///
/// Any number of projectors may run: for each batch, the first projector that takes the stream's lock leads the stream.
package struct Projector: Sendable {
    /// How many connections the pool must lend for batches to be read, folded and written at the same time.
    package static let connectionsMax = StreamProjector.connectionsMax

    private let pool: PostgresPool
    /// For a separate connection, since listening occupies it.
    private let listener: ConnectionConfiguration
    private let logger: Logger
    private let now: @Sendable () -> Instant
    private let metrics = ProjectorMetrics()
    private let refolds = RefoldHistory()
    private let watch: StallWatch
    private let gaps: GapWatch
    private let ownership: [String: OwnershipRules]
    private let joins: [(app: String, joinedApp: String)]
    private let checks: [String: CheckPolicy]

    /// How long a stream may stay at one position while events wait before it is reported as stalled.
    package static let stallAfter = Limits.stallAfter
    /// How long the projector waits between two looks for products that are not configured, unless it writes a purchase of
    /// one.
    package static let gapPause = Limits.gapPause

    /// - Parameters:
    ///   - ownership: The ownership rules of the configured apps, by bundle id. They are recorded in the database when
    ///     the projector runs.
    ///   - joins: The pairs of apps whose customers are read as one; recorded in the same way. A pair is forgotten if it
    ///     is not among them and one of its apps is in `ownership`.
    ///   - checks: When the subscriptions of these apps are checked; recorded in the same way.
    ///   - stallAfter: See ``stallAfter``.
    ///   - gapPause: See ``gapPause``.
    ///   - now: Decides when the beginning or end of a period is published.
    package init(
        pool: PostgresPool, listener: ConnectionConfiguration, ownership: [String: OwnershipRules] = [:],
        joins: [(String, String)] = [], checks: [String: CheckPolicy] = [:], stallAfter: Duration = Self.stallAfter,
        gapPause: Duration = Self.gapPause, now: @escaping @Sendable () -> Instant, logger: Logger
    ) {
        self.pool = pool
        self.listener = listener
        self.now = now
        self.logger = logger
        self.ownership = ownership
        self.joins = joins.flatMap { one, other in [(app: one, joinedApp: other), (app: other, joinedApp: one)] }
        self.checks = checks
        watch = StallWatch(pool: pool, stallAfter: stallAfter, now: now, logger: logger)
        gaps = GapWatch(pool: pool, pause: gapPause, logger: logger)
    }

    /// The products whose purchases need what their configuration does not say, as of the last look. Empty unless the
    /// projector runs.
    package var unconfiguredProducts: [UnconfiguredProduct] {
        get async { await gaps.products }
    }

    /// The stalled streams as of the last check, which was at most a quarter of ``stallAfter`` ago. Empty unless the
    /// projector runs.
    package var stalledStreams: [StalledStream] {
        get async { await watch.stalled }
    }

    /// Planner settings of its sessions. Every statement looks rows up by key, hundreds at once, and a plan made while
    /// a table was empty would scan the whole table or index. Planning each statement again costs two to three
    /// microseconds of database time per event, by `pg_stat_statements`. Compiling a plan takes longer than a batch: with
    /// it, the recursive search for a customer's store accounts alone took half of the database's time.
    package static let planSettings = ["enable_seqscan": "off", "jit": "off", "plan_cache_mode": "force_custom_plan"]

    /// Settings that its sessions need: a leader that is gone or stopped must not hold its stream forever.
    package static var sessionSettings: [String: String] {
        [
            "client_connection_check_interval": milliseconds(Limits.leaderCheckInterval),
            "idle_in_transaction_session_timeout": milliseconds(Limits.leaderSilenceMax),
        ]
    }

    private static func milliseconds(_ duration: Duration) -> String {
        String(duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000)
    }

    /// Runs until its task is cancelled. Failures are logged and retried; none ends the run.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await keepUp() }
            group.addTask { await watch.run() }
            group.addTask { await gaps.run() }
        }
    }

    private func keepUp() async {
        let channel = ChannelListener(listener, channel: "subledger_event")
        var connection: PostgresConnection?
        var schedule = StreamSchedule(now: .now)
        var hasRecordedRules = ownership.isEmpty && joins.isEmpty && checks.isEmpty
        while !Task.isCancelled {
            if !hasRecordedRules { hasRecordedRules = await recordRules() }
            if connection == nil {
                connection = await listen(on: channel)
                // Notifications sent before this connection listened were missed, so check all streams.
                schedule.scheduleSweep(at: .now)
            }
            let began = ContinuousClock.now
            await fold(&schedule)
            guard let listening = connection else {
                try? await Task.sleep(for: Limits.failurePause)
                continue
            }
            // What arrives meanwhile is folded together.
            try? await Task.sleep(until: began + Limits.foldInterval)
            if await waitForEvents(on: listening, &schedule) == false {
                await listening.close()
                connection = nil
            }
        }
        await connection?.close()
    }

    /// Records the configured ownership rules, joins and leads of checks. Rows that were computed by other ones are recomputed
    /// when their stream is folded next.
    ///
    /// - Returns: False if the database failed.
    private func recordRules() async -> Bool {
        let owned = ownership.sorted { $0.key < $1.key }
        let checked = checks.sorted { $0.key < $1.key }
        let steps = [
            Step(
                ProjectionStatements.recordOwnership,
                [
                    .array(owned.map(\.key)), .array(owned.map(\.value.policy.rawValue)),
                    .array(owned.map { Int64($0.value.storeAccountsPerTokenMax) }),
                ]),
            Step(
                ProjectionStatements.removeJoins,
                [.array(owned.map(\.key)), .array(joins.map(\.app)), .array(joins.map(\.joinedApp))]),
            Step(
                ProjectionStatements.recordJoins, [.array(joins.map(\.app)), .array(joins.map(\.joinedApp))]),
            Step(
                ProjectionStatements.recordChecks, [.array(checked.map(\.key)), .array(checked.map(\.value.lead))]),
        ]
        do throws(PostgresError) {
            _ = try await pool.withConnection(deadline: .now + Limits.readWaitMax) {
                (connection) async throws(PostgresError) -> [RowSet] in
                try await connection.transaction(steps, deadline: .now + Limits.readWaitMax)
            }
            return true
        } catch {
            logger.warning(
                "rules of apps not recorded",
                metadata: ["db.error": "\(error.label)", "db.sqlstate": "\(error.sqlstate ?? "")"])
            return false
        }
    }

    /// Folds all waiting events, stream by stream. A stream that fails does not hold up the others.
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

    /// Folds the streams that are due.
    ///
    /// - Returns: False if something failed.
    @discardableResult
    private func fold(_ schedule: inout StreamSchedule) async -> Bool {
        let selection = schedule.takeDue(now: .now)
        if case .only(let ids) = selection, ids.isEmpty { return true }
        do throws(PostgresError) {
            let rows = try await streams(selection)
            if selection == .all, try await cannotBeNotified() {
                schedule.scheduleSweep(at: .now + NotificationQueue.lookPause)
            }
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

    private func streams(_ selection: StreamSchedule.Selection) async throws(PostgresError) -> RowSet {
        switch selection {
        case .all:
            return try await pool.query(
                ProjectionStatements.streamsToFold,
                [Parameter(now().advanced(by: Limits.sweepInterval)), Parameter(Checkpoint.projectionVersion)],
                deadline: .now + Limits.readWaitMax)
        case .only(let ids):
            return try await pool.query(
                ProjectionStatements.namedStreams, [.array(ids.sorted())], deadline: .now + Limits.readWaitMax)
        }
    }

    private func cannotBeNotified() async throws(PostgresError) -> Bool {
        let rows = try await pool.query(
            NotificationQueue.isNearlyFull, [], deadline: .now + Limits.readWaitMax)
        return try rows[0].value(at: 0)
    }

    /// Ends leaders that stopped in the middle of a statement. The database does not notice those; the projectors that
    /// wait for their streams do.
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
        if ended > 0 { logger.warning("terminated stalled stream leader", metadata: ["count": "\(ended)"]) }
    }

    /// - Parameter end: Only the first batch may begin after this instant, so that other streams get their turn.
    private func fold(
        streamId: Int32, app: String, environment: String, until end: ContinuousClock.Instant
    ) async -> StreamSchedule.Outcome {
        let projector = StreamProjector(
            pool: pool, streamId: streamId, now: now, refolds: refolds,
            onSharedTokens: { [logger, metrics] count in
                metrics.sharedTokens.increment(by: count)
                logger.warning(
                    "account tokens shared by too many store accounts",
                    metadata: [
                        "stream.app": "\(app)", "stream.environment": "\(environment)", "count": "\(count)",
                    ])
            },
            onLostSeats: { [logger, metrics] count in
                metrics.lostSeats.increment(by: count)
                logger.warning(
                    "fewer seats than claims: newest claims lost theirs",
                    metadata: [
                        "stream.app": "\(app)", "stream.environment": "\(environment)", "count": "\(count)",
                    ])
            },
            onNotices: { [logger, metrics] notices in
                for notice in notices {
                    metrics.notices[notice.kind]?.increment()
                    logger.notice(
                        "\(notice.kind.logLine)",
                        metadata: [
                            "stream.app": "\(app)", "stream.environment": "\(environment)",
                            "event.position": "\(notice.position)",
                        ])
                }
            },
            onGaps: { [gaps] found in await gaps.note(app: app, environment: environment, found) },
            onRefold: { [logger] checkpoint in
                logger.notice(
                    "computing all rows again",
                    metadata: [
                        "stream.app": "\(app)", "stream.environment": "\(environment)",
                        "projection.changed": "\(checkpoint.change)",
                    ])
            })
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

    private func listen(on channel: ChannelListener) async -> PostgresConnection? {
        switch await channel.session() {
        case .listening(let connection): return connection
        case .pending: return nil
        case .failed(let error):
            logger.warning(
                "LISTEN failed; polling for events once per second", metadata: ["db.error": "\(error.label)"])
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
        // Products were configured, so rows of any of the app's streams may be out of date.
        if arrived.contains(where: { $0.payload == "products" }) { schedule.scheduleSweep(at: .now) }
        return true
    }
}
