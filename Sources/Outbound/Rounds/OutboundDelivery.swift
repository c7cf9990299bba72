import AsyncHTTPClient
import Encoding
import EventLog
import Logging
import Metrics
import Postgres
import Readers
import StoreClient
import Synchronization

/// Delivers changes, and passes notifications on, to all endpoints of the streams that this process leads.
///
/// Everything that is known is in the database, so a server that starts continues where another one ended. Any number of
/// processes may run one: each stream has one that delivers.
package final class OutboundDelivery: Sendable {
    private let log: DeliveryLog
    private let changes: ChangeReader
    private let pool: PostgresPool
    private let archive: BodyArchive
    private let changeSignal: ChangeSignal
    private let eventSignal: ChangeSignal
    private let leadership: StreamLeadership
    private let settings: EndpointClientSettings
    private let context: DeliveryContext
    /// Those of the apps file. What passed notifications on before and is not among them is not served.
    private let forwards: [Forward]
    private let latest = Mutex(DeliveryLog.Figures())
    private let running: Running
    private let pruneAt = Mutex<Instant?>(nil)

    /// - Parameters:
    ///   - pool: With the rights of `subledger_poller`.
    ///   - archive: Where the bodies of past months are.
    ///   - changes: Reads the change feed.
    ///   - changeSignal: Hears of changes; others run it.
    ///   - eventSignal: Hears of events; this runs it.
    ///   - leadership: For endpoints.
    ///   - forwards: The endpoints to which notifications are passed on.
    ///   - keyFile: Nil if no key is configured: messages that need one fail.
    ///   - heldMax: Messages that all endpoints together keep in memory.
    ///   - random: Returns numbers from 0 up to but excluding 1, for the pauses after failures.
    package init(
        pool: PostgresPool, archive: BodyArchive = .none, changes: ChangeReader, changeSignal: ChangeSignal,
        eventSignal: ChangeSignal,
        leadership: StreamLeadership, forwards: [Forward] = [], keyFile: WebhookKeyFile?,
        settings: EndpointClientSettings, clock: StoreClock, plan: RetryPlan = .standard,
        heldMax: Int = Limits.heldMax,
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        metrics factory: any MetricsFactory = MetricsSystem.factory, logger: Logger
    ) {
        log = DeliveryLog(pool: pool)
        self.pool = pool
        self.archive = archive
        self.changes = changes
        self.changeSignal = changeSignal
        self.eventSignal = eventSignal
        self.leadership = leadership
        self.forwards = forwards
        self.settings = settings
        let running = Running()
        self.running = running
        context = DeliveryContext(
            record: log, clock: clock, plan: plan, random: random, limit: FlightLimit(),
            metrics: OutboundMetrics(factory: factory), keyFile: keyFile,
            aheadBytesMax: { Limits.aheadBytesMax / max(1, running.count) },
            heldMax: { max(1, heldMax / max(1, running.count)) },
            leads: { streamId throws(ReadError) in try await leadership.lead([streamId]).contains(streamId) },
            logger: logger)
    }

    /// The state of all endpoints, as of the last round.
    package var figures: DeliveryLog.Figures { latest.withLock { $0 } }

    /// Runs until its task is cancelled. Failures are logged and repeated; none ends the run.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.eventSignal.run() }
            group.addTask { await self.serve() }
            group.addTask { await self.watch() }
        }
        await leadership.release()
    }

    /// Starts and ends the deliveries to endpoints, as they are added, changed and led.
    private func serve() async {
        let ids = Set(forwards.map(\.id))
        await withDiscardingTaskGroup { group in
            var isInStep = false
            while !Task.isCancelled {
                do throws(ReadError) {
                    if !isInStep { try await matchForwards() }
                    isInStep = true
                    let tasks = try await log.tasks().filter { task in
                        task.endpoint.purpose == .changes || ids.contains(task.endpoint.id)
                    }
                    running.keep(tasks)
                    let led = try await leadership.lead(Set(tasks.map(\.streamId)).sorted())
                    for task in tasks where led.contains(task.streamId) && running.begin(task.endpoint.id) {
                        group.addTask {
                            await self.deliver(task)
                            self.running.end(task.endpoint.id)
                        }
                    }
                } catch {
                    if !Task.isCancelled {
                        context.logger.warning("endpoints not read", metadata: ["error": "\(error)"])
                    }
                }
                try? await context.clock.sleep(context.clock.now() + Limits.roundPause)
            }
        }
    }

    /// Adds the endpoints of the apps file that are not known yet, which begin with the next event, and disables those that
    /// it no longer names.
    private func matchForwards() async throws(ReadError) {
        let store = EndpointStore(pool: pool)
        let known = try await store.list().map(\.endpoint).filter { $0.purpose == .events }
        for endpoint in known where endpoint.state.isActive && !forwards.contains(where: { $0.id == endpoint.id }) {
            _ = try await store.disable(endpoint.id, for: .removed, at: context.clock.date())
        }
        for forward in forwards {
            let endpoint = forward.endpoint(createdAt: context.clock.date())
            switch try await store.add(endpoint, after: nil) {
            case .added: context.log(.info, "endpoint for notifications added", endpoint)
            case .exists:
                try await store.setKinds(of: endpoint)
                let old = known.first { $0.id == endpoint.id }
                if case .disabled(.removed, _) = old?.state { _ = try await store.enable(endpoint.id) }
            case .full: context.log(.error, "too many endpoints: notifications are not passed on", endpoint)
            }
        }
    }

    private func deliver(_ task: DeliveryLog.Task) async {
        guard let place = try? await log.takeOver(task) else { return }
        let task = place.task
        let client = EndpointClient(url: task.endpoint.url, settings, now: context.clock.date)
        let delivery = Task {
            switch task.endpoint.purpose {
            case .changes:
                let source = ChangeSource(
                    reader: changes, signal: changeSignal, endpoint: task.endpoint, streamId: task.streamId,
                    now: context.clock.date)
                await EndpointDelivery(task, source, client, place: place, context).run()
            case .events:
                let source = EventFeed(
                    pool: pool, archive: archive, signal: eventSignal, endpoint: task.endpoint, streamId: task.streamId)
                await EndpointDelivery(task, source, client, place: place, context).run()
            }
        }
        // Ends when an operator changes the endpoint, at the latest after a round.
        running.note(task, delivery)
        await withTaskCancellationHandler {
            await delivery.value
        } onCancel: {
            delivery.cancel()
        }
        await Task { await client.shutDown() }.value
    }

    /// Keeps the lead, the figures and the attempts.
    private func watch() async {
        while !Task.isCancelled {
            do throws(ReadError) {
                try await leadership.keep()
                let figures = try await log.figures()
                latest.withLock { $0 = figures }
                let now = context.clock.date()
                context.metrics.note(figures, at: now)
                if pruneAt.withLock({ $0.map { $0 <= now } ?? true }) {
                    let hasMore = try await log.prune(before: now.advanced(by: .zero - Limits.attemptAgeMax))
                    pruneAt.withLock { $0 = hasMore ? now : now.advanced(by: Limits.pruneInterval) }
                }
            } catch {
                // The round that finds the database away reports it.
            }
            try? await context.clock.sleep(context.clock.now() + Limits.roundPause)
        }
    }
}

/// The deliveries of this process, one at a time for each endpoint.
private final class Running: Sendable {
    private struct Delivery {
        /// In which generation it has taken its endpoint over; nil before it has.
        var generation: Int64?
        var task: Task<Void, Never>?
    }

    private let deliveries = Mutex<[String: Delivery]>([:])

    var count: Int { deliveries.withLock(\.count) }

    /// - Returns: False if there is one to the endpoint.
    func begin(_ id: String) -> Bool {
        deliveries.withLock { deliveries in
            guard deliveries[id] == nil else { return false }
            deliveries[id] = Delivery()
            return true
        }
    }

    func note(_ task: DeliveryLog.Task, _ delivery: Task<Void, Never>) {
        deliveries.withLock { $0[task.endpoint.id] = Delivery(generation: task.generation, task: delivery) }
    }

    func end(_ id: String) { deliveries.withLock { $0[id] = nil } }

    /// Cancels the deliveries to endpoints that are no longer served, or that were changed since they were taken over.
    ///
    /// - Parameter tasks: All that are to be served, read after the deliveries began.
    func keep(_ tasks: [DeliveryLog.Task]) {
        let current = Dictionary(uniqueKeysWithValues: tasks.map { ($0.endpoint.id, $0.generation) })
        let ended = deliveries.withLock { deliveries in
            deliveries.compactMap { id, delivery in
                // It can have been taken over after the tasks were read.
                guard let generation = delivery.generation, current[id].map({ $0 > generation }) ?? true else {
                    return Task<Void, Never>?.none
                }
                return delivery.task
            }
        }
        for task in ended { task.cancel() }
    }
}
