import Encoding
import EventLog
import Postgres
import Simulation
import StoreClient
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
        /// When the server acknowledged purchases, by the number of the story and by purchase token.
        let acknowledged: [Int: [String: Instant]]
        let feed: FeedComparison.Outcome
        let comparison: AnswerComparison.Outcome
    }

    /// The stores' parts in a run. They go on when the server is started again.
    struct Courses: Sendable {
        var apple: AppleCourse?
        var google: PlayCourse?

        /// After the database was restored.
        func restored(_ lost: LostTime) async -> Courses {
            var courses = self
            await courses.apple?.restore(lost)
            await courses.google?.restore(lost)
            return courses
        }
    }

    /// Lets the simulated time of a running server and of its stores pass.
    struct Run: Sendable {
        let site: ServerSite
        private let simulation: SimulationInStep
        private let stores: Stores
        private let posters: Posters
        private let parts: ServerParts
        private let clock: SimulatedClock

        init(
            _ simulation: SimulationInStep, stores: Stores, site: ServerSite, posters: Posters, parts: ServerParts,
            clock: SimulatedClock
        ) {
            self.simulation = simulation
            self.stores = stores
            self.site = site
            self.posters = posters
            self.parts = parts
            self.clock = clock
            simulation.target.set(
                NotificationTarget(url: "\(site.publicAddress)/apple/notifications"),
                pushes: NotificationTarget(url: "\(site.publicAddress)/google/notifications"))
        }

        /// Those of the start.
        func courses() -> Courses { Courses(apple: appleCourse(), google: playCourse()) }

        /// Those of a server that was stopped.
        func courses(after former: Courses) -> Courses {
            var courses = former
            if let server = appleServer() { courses.apple?.server = server }
            if let server = playServer() { courses.google?.server = server }
            return courses
        }

        /// - Parameter end: The last instant, by which everything that is due is done; nil for the end of both courses.
        func pass(
            _ courses: Courses, until end: Instant?, _ onStep: @Sendable (Instant) -> Void
        ) async throws -> Courses {
            var courses = courses
            while let now = [courses.apple?.next, courses.google?.next].compactMap(\.self).min(), now <= end ?? .latest
            {
                try Task.checkCancellation()
                clock.set(now)
                if courses.apple?.next == now { try await courses.apple?.step(to: now) }
                if courses.google?.next == now { try await courses.google?.step(to: now) }
                onStep(now)
            }
            if let end {
                clock.set(end)
                if courses.apple?.next != nil { try await courses.apple?.step(to: end) }
                if courses.google?.next != nil { try await courses.google?.step(to: end) }
            }
            return courses
        }

        /// The number of events in the log.
        func events() async throws -> Int64 {
            var events: Int64 = 0
            for stream in parts.wait.streams { events += try await parts.wait.log.lastPosition(of: stream) }
            return events
        }

        func settle(_ courses: Courses) async throws -> Outcome {
            var outcome = Outcome()
            if let course = courses.apple { outcome.apple = try await settle(course) }
            if let course = courses.google { outcome.google = try await settle(course) }
            return outcome
        }
    }
}

// MARK: - The App Store

extension SimulationInStep.Run {
    private func appleCourse() -> AppleCourse? {
        guard let apple = simulation.simulation, let store = stores.apple, let server = appleServer() else {
            return nil
        }
        let poster = posters.apple {
            TimetablePoster(
                apple.timetable, url: "\(site.publicAddress)/apple/notifications",
                target: LinkTarget(address: site.privateAddress, token: site.token, app: apple.settings.app),
                postsNotifications: simulation.sending == nil, connections: simulation.connections)
        }
        return AppleCourse(
            window: apple.settings.window, timetable: apple.timetable, store: store, poster: poster, server: server)
    }

    private func appleServer() -> AppleCourse.Server? {
        guard let polling = parts.polling else { return nil }
        return AppleCourse.Server(
            poller: polling.poller, audits: simulation.sending == nil ? nil : polling.audits,
            backfills: polling.backfills, consumption: parts.consumption, wait: parts.wait)
    }

    private func settle(_ course: AppleCourse) async throws -> SimulationInStep.AppleOutcome? {
        guard let apple = simulation.simulation, let store = stores.apple else { return nil }
        var audit: AuditBooks?
        var refunds: RefundBooks?
        if simulation.sending != nil {
            let sent = store.notifications
            let stream = StreamKey(app: apple.settings.app.bundleId, environment: apple.settings.app.environment)
            let audits = course.outcome.audits.filter { $0.stream == stream }
            audit = AuditBooks(sent: sent, audits: audits, lost: simulation.faults.lost)
            refunds = RefundBooks(
                sent: sent, audits: audits, answers: store.api.consumptions, steps: course.outcome.steps,
                lost: simulation.faults.lost)
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
    private func playCourse() -> PlayCourse? {
        guard let google = simulation.google, let play = stores.google, let server = playServer() else { return nil }
        let poster = posters.google {
            PurchasePoster(
                address: site.privateAddress, token: site.token, packageName: google.packageName,
                connections: simulation.connections)
        }
        return PlayCourse(play, poster: poster, server: server, serverOutage: simulation.faults.serverOutage)
    }

    private func playServer() -> PlayCourse.Server? {
        parts.asking.map { PlayCourse.Server(poller: $0.poller, voids: $0.voids, wait: parts.wait) }
    }

    private func settle(_ course: PlayCourse) async throws -> SimulationInStep.PlayOutcome? {
        guard let google = simulation.google, let play = stores.google else { return nil }
        let acknowledged = play.acknowledged
        let comparison = AnswerComparison(
            google, acknowledged: acknowledged, address: site.privateAddress, token: site.token,
            connections: simulation.connections)
        let feed = FeedComparison(
            google, acknowledged: acknowledged, address: site.privateAddress, token: site.token)
        let deliveries = play.deliveries
        let faults = simulation.faults
        let acknowledgements = AcknowledgementBooks(
            play, granted: try await granted(google.packageName),
            outages: [faults.storeOutage, faults.serverOutage, faults.lost?.range].compactMap(\.self),
            hasFaults: faults.fraction > 0, lost: faults.lost)
        return SimulationInStep.PlayOutcome(
            handedIn: course.poster.counts, course: course.outcome, pushes: deliveries.count,
            failedPushes: deliveries.count { !$0.isAcknowledged }, acknowledgements: acknowledgements,
            acknowledged: acknowledged, feed: try await feed.run(), comparison: try await comparison.run())
    }

    /// When the server stored the first answer that shows a purchase as paid, by purchase token.
    private func granted(_ packageName: String) async throws -> [String: Instant] {
        let rows = try await parts.readers.query(
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
    var isRight: Bool {
        acknowledgements.differences.isEmpty && feed.differences.isEmpty && comparison.unexplained == 0
    }
}
