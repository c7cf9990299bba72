import Encoding
import EventLog
import Postgres
import SimulatedStore
import SimulatorClient
import StoreClient
import StoreSimulator
import Subscriptions

extension SimulationInStep {
    /// What happened in the App Store's part of a run.
    struct AppleOutcome: Sendable {
        let sent: PostingOutcome
        /// The number of questions that the checks asked.
        let asked: Int
        /// The number of accounts whose past was read.
        let backfilled: Int
        /// Nil without audits.
        let audit: AuditBooks?
        /// Nil if the server does not ask the API.
        let refunds: RefundBooks?
        let comparison: AnswerComparison.Outcome
    }

    /// What happened in Google Play's part of a run.
    struct PlayOutcome: Sendable {
        let handedIn: PostingCounts
        let course: PlayCourse.Outcome
        /// The number of pushes, and of those that were not acknowledged.
        let pushes: Int
        let failedPushes: Int
        let acknowledgements: AcknowledgementBooks
        let comparison: AnswerComparison.Outcome
    }

    /// Lets the simulated time of a server and of its stores pass.
    struct Run: Sendable {
        /// Where the server listens.
        struct Site: Sendable {
            let publicAddress: String
            let privateAddress: String
            let token: String
        }

        private let simulation: SimulationInStep
        private let stores: Stores
        private let clock: SimulatedClock
        private let polling: PollerServices?
        private let asking: GoogleServices?
        private let readers: PostgresPool

        init(
            _ simulation: SimulationInStep, stores: Stores, plan: ServerPlan, server: Server, database: Database,
            clock: SimulatedClock
        ) throws {
            guard let appending = server.appending, let store = server.store else {
                throw SettingError(description: "the database user cannot append events")
            }
            self.simulation = simulation
            self.stores = stores
            self.clock = clock
            polling =
                plan.apps.isEmpty
                ? nil
                : PollerServices(
                    apps: plan.apps, store: store, verifier: server.verifier, appender: appending.appender,
                    database: database, auditWindows: 1, logger: simulation.logger)
            asking =
                plan.googleApps.isEmpty
                ? nil
                : GoogleServices(
                    apps: plan.googleApps, store: store, appender: appending.appender, database: database,
                    logger: simulation.logger)
            readers = database.pool(.reader, limit: 1, logger: simulation.logger)
        }

        func close() async {
            for pool in (polling?.pools ?? []) + (asking?.pools ?? []) + [readers] { await pool.close() }
        }

        private var wait: ProjectionWait {
            ProjectionWait(log: LogReader(pool: readers), streams: simulation.streams)
        }

        func outcome(at site: Site, _ onStep: @Sendable (Instant) -> Void) async throws -> Outcome {
            simulation.target.set(
                NotificationTarget(url: "\(site.publicAddress)/apple/notifications"),
                pushes: NotificationTarget(url: "\(site.publicAddress)/google/notifications"))
            let posters = (apple: timetablePoster(site), google: purchasePoster(site))
            var courses = (apple: appleCourse(posters.apple), google: playCourse(posters.google))
            let passed: Result<Void, any Error>
            do {
                passed = .success(try await pass(&courses.apple, &courses.google, onStep))
            } catch {
                passed = .failure(error)
            }
            await posters.apple?.end()
            await posters.google?.end()
            try passed.get()
            var outcome = Outcome()
            if let course = courses.apple { outcome.apple = try await settle(course, site) }
            if let course = courses.google, let poster = posters.google {
                outcome.google = try await settle(course, poster, site)
            }
            return outcome
        }

        private func pass(
            _ apple: inout AppleCourse?, _ google: inout PlayCourse?, _ onStep: @Sendable (Instant) -> Void
        ) async throws {
            while let now = [apple?.next, google?.next].compactMap(\.self).min() {
                try Task.checkCancellation()
                clock.set(now)
                if apple?.next == now { try await apple?.step(to: now) }
                if google?.next == now { try await google?.step(to: now) }
                onStep(now)
            }
        }
    }
}

// MARK: - The App Store

extension SimulationInStep.Run {
    private func timetablePoster(_ site: Site) -> TimetablePoster? {
        guard let apple = simulation.simulation else { return nil }
        return TimetablePoster(
            apple.timetable, url: "\(site.publicAddress)/apple/notifications",
            target: LinkTarget(address: site.privateAddress, token: site.token, app: apple.settings.app),
            postsNotifications: simulation.sending == nil, connections: simulation.connections)
    }

    private func appleCourse(_ poster: TimetablePoster?) -> AppleCourse? {
        guard let apple = simulation.simulation, let store = stores.apple, let polling, let poster else { return nil }
        return AppleCourse(
            timetable: apple.timetable, store: store, poster: poster, poller: polling.poller,
            audits: simulation.sending == nil ? nil : polling.audits, backfills: polling.backfills,
            consumption: polling.consumption.sender, wait: wait)
    }

    private func settle(_ course: AppleCourse, _ site: Site) async throws -> SimulationInStep.AppleOutcome? {
        guard let apple = simulation.simulation, let store = stores.apple else { return nil }
        var audit: AuditBooks?
        var refunds: RefundBooks?
        if simulation.sending != nil {
            let sent = store.notifications
            let stream = StreamKey(app: apple.settings.app.bundleId, environment: apple.settings.app.environment)
            let audits = course.outcome.audits.filter { $0.stream == stream }
            audit = AuditBooks(sent: sent, audits: audits)
            refunds = RefundBooks(
                sent: sent, audits: audits, answers: store.api.consumptions, steps: course.outcome.steps)
        }
        let comparison = AnswerComparison(
            simulation: apple, address: site.privateAddress, token: site.token, connections: simulation.connections)
        return SimulationInStep.AppleOutcome(
            sent: course.poster.outcome, asked: course.outcome.asked, backfilled: course.outcome.backfilled,
            audit: audit, refunds: refunds, comparison: try await comparison.run())
    }
}

// MARK: - Google Play

extension SimulationInStep.Run {
    private func purchasePoster(_ site: Site) -> PurchasePoster? {
        simulation.google.map { google in
            PurchasePoster(
                address: site.privateAddress, token: site.token, packageName: google.packageName,
                connections: simulation.connections)
        }
    }

    private func playCourse(_ poster: PurchasePoster?) -> PlayCourse? {
        guard let play = stores.google, let asking, let poster else { return nil }
        return PlayCourse(
            play, poster: poster, poller: asking.poller, voids: asking.voids.audits, wait: wait,
            serverOutage: simulation.faults.serverOutage)
    }

    private func settle(
        _ course: PlayCourse, _ poster: PurchasePoster, _ site: Site
    ) async throws -> SimulationInStep.PlayOutcome? {
        guard let google = simulation.google, let play = stores.google else { return nil }
        let comparison = AnswerComparison(
            google, acknowledged: play.acknowledged, address: site.privateAddress, token: site.token,
            connections: simulation.connections)
        let deliveries = play.deliveries
        let faults = simulation.faults
        let acknowledgements = AcknowledgementBooks(
            play, granted: try await granted(google.packageName),
            outages: [faults.storeOutage, faults.serverOutage].compactMap(\.self), hasFaults: faults.fraction > 0)
        return SimulationInStep.PlayOutcome(
            handedIn: poster.counts, course: course.outcome, pushes: deliveries.count,
            failedPushes: deliveries.count { !$0.isAcknowledged }, acknowledgements: acknowledgements,
            comparison: try await comparison.run())
    }

    /// When the server stored the first answer that shows a purchase as paid, by purchase token.
    private func granted(_ packageName: String) async throws -> [String: Instant] {
        let rows = try await readers.query(
            Self.grantedStatement, [Parameter(packageName)], deadline: .now + Self.queryWaitMax)
        var granted: [String: Instant] = [:]
        for row in rows { granted[try row.value(at: 0)] = try row.value(at: 1) as Instant }
        return granted
    }

    private static let queryWaitMax = Duration.seconds(60)

    private static let grantedStatement = Statement(
        "simulation_granted",
        """
        select fact ->> 'purchaseToken', min(event.received_at)
        from subledger.stream
        join subledger.event using (stream_id)
        cross join lateral jsonb_array_elements(event.facts -> 'purchases') as fact
        where stream.app = $1
          and event.source in ('google-api', 'google-device')
          and fact ->> 'fact' = 'snapshot'
          and fact ->> 'state' in ('ACTIVE', 'CANCELED', 'IN_GRACE_PERIOD', 'PURCHASED')
        group by 1
        """)
}

extension SimulationInStep.PlayOutcome {
    /// Whether the books agree with the server.
    var isRight: Bool { acknowledgements.differences.isEmpty && comparison.unexplained == 0 }
}
