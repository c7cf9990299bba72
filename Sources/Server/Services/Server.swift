import AppStore
import Encoding
import EventLog
import HTTPServer
import Logging
import Projector
import Readers
import ServiceLifecycle
import StoreClient

/// The services of one server process, wired to each other and to the database.
package struct Server {
    /// In start order. They stop in the opposite order, each when it has finished its work. A process without all roles
    /// runs only some of them.
    package let services: [any Service]
    /// Nil for a process that appends nothing.
    package let appending: AppenderServices?
    /// Nil for a process that asks no store.
    package let store: StoreServices?
    /// Nil for a process that verifies no signatures.
    package let verifier: NotificationVerifier?

    /// - Parameter now: Our clock.
    package init(
        _ plan: ServerPlan, database: Database, now: @escaping @Sendable () -> Instant, metrics: MetricsRegistry,
        logger: Logger
    ) async throws {
        let (roles, apps, googleApps) = (plan.roles, plan.apps, plan.googleApps)
        let hasApps = !apps.isEmpty || !googleApps.isEmpty
        let appending = try await AppenderServices.make(
            roles, hasApps: hasApps, database: database, now: now, logger: logger)
        var verifying: VerifierServices?
        let asksAPI = roles.contains(.poller) && apps.contains { $0.isPolled && $0.serverAPIKey != nil }
        if roles.contains(.receiver) || roles.contains(.reader) && !apps.isEmpty || asksAPI, appending != nil {
            verifying = try await VerifierServices(plan.verification, database: database, logger: logger)
        }
        var receiver: ReceiverServices?
        if roles.contains(.receiver), let appending, let verifying {
            receiver = ReceiverServices(
                plan.receiving, apps: apps, googleApps: googleApps, googleAddresses: plan.googleAddresses,
                verifying: verifying, appender: appending.appender, health: appending.health, database: database,
                now: now, logger: logger)
        }
        let projector =
            roles.contains(.projector)
            ? ProjectorServices(apps: apps, googleApps: googleApps, database: database, now: now, logger: logger) : nil
        let trees =
            roles.contains(.projector)
            ? TreeKeeper(pool: database.pool(for: .projecting, logger: logger), signer: plan.signer, logger: logger)
            : nil
        var store: StoreServices?
        var receipts: ReceiptServices?
        var poller: PollerServices?
        var google: GoogleServices?
        var refunds: ConsumptionSender?
        let elector = Elector(database.configuration(.poller))
        let events = ChangeSignal(
            listener: database.configuration(.reader), channel: "subledger_event", logger: logger)
        var handIns: GoogleHandInServices?
        if !roles.isDisjoint(with: [.reader, .poller]), hasApps, let appending {
            let asking = StoreServices(
                addresses: plan.receiptAddresses, apiAddresses: plan.apiAddresses,
                apiBudget: plan.apiBudget, googleAddresses: plan.googleAddresses,
                googleAsking: plan.googleAsking, now: now, logger: logger)
            store = asking
            if roles.contains(.poller) {
                refunds = ConsumptionSender(
                    apps: apps, googleApps: googleApps, store: asking, appender: appending.appender,
                    database: database, elector: elector, logger: logger)
            }
            if roles.contains(.poller), !googleApps.isEmpty {
                google = GoogleServices(
                    apps: googleApps, store: asking, appender: appending.appender, database: database, elector: elector,
                    events: events, logger: logger)
            }
            if roles.contains(.reader) {
                handIns = GoogleHandInServices(
                    apps: googleApps, store: asking, appender: appending.appender, database: database, logger: logger)
            }
            if roles.contains(.reader), !apps.isEmpty, let verifying {
                receipts = ReceiptServices(
                    apps: apps, store: asking, verifier: verifying.verifier, appender: appending.appender,
                    database: database, logger: logger)
            }
            if roles.contains(.poller), !apps.isEmpty {
                poller = PollerServices(
                    apps: apps, store: asking, verifier: verifying?.verifier, appender: appending.appender,
                    database: database, elector: elector, logger: logger)
            }
        }
        let sweep =
            roles.contains(.poller)
            ? HandInSweep(
                purchases: PurchaseQueue(pool: database.pool(for: .asking, logger: logger)),
                receipts: HandInLog(pool: database.pool(for: .asking, logger: logger)),
                clock: StoreClock(date: now), logger: logger) : nil
        let changes = ChangeSignal(listener: database.configuration(.reader), logger: logger)
        let outbound =
            roles.contains(.poller)
            ? OutboundServices(
                plan.outbound, changes: changes, events: events, clock: StoreClock(date: now), database: database,
                elector: elector, logger: logger) : nil
        let conditions: [HealthCheck?] = [
            projector.map { .projection($0.projector) }, projector.map { .products($0.projector) },
            trees.map { .checkpoints($0) },
            poller.map { .polling("checks", "checks", $0.poller.polling) },
            google.map { .polling("google", "purchases", $0.poller.polling) },
            outbound == nil ? nil : .leaders(elector), .rounds(poller, google),
            outbound.map { .endpoints($0.delivery) },
        ]
        var sources = receipts?.handIns ?? HandInSources()
        sources.purchases = handIns?.purchases
        if roles.contains(.reader), let appending {
            sources.grants = GrantServices.service(
                apps: apps, googleApps: googleApps, appender: appending.appender, database: database, logger: logger)
        }
        if roles.contains(.reader), let store, let appending {
            sources.imports = ImportServices.importer(
                sources, apps: apps, googleApps: googleApps, store: store, appender: appending.appender,
                database: database, logger: logger)
        }
        var storeActs: StoreActService?
        if roles.contains(.reader), let store, let appending {
            let log = WriteLog(pool: database.pool(for: .links, logger: logger), appender: appending.appender)
            storeActs = StoreActService(
                writer: StoreWriter(client: store.api, google: store.google, log: log, clock: store.clock),
                orders: handIns.map { handIns in
                    OrderServices.lookup(
                        handIns.purchases, verifier: verifying?.verifier, apps: apps, googleApps: googleApps,
                        store: store, appender: appending.appender, database: database, logger: logger)
                }, apps: apps, googleApps: googleApps, makesChanges: plan.backends.hasStoreWrites)
        }
        let backends = PrivateServices(
            plan.backends, roles: roles, database: database, appender: appending?.appender, handIns: sources,
            storeActs: storeActs,
            consumption: roles.contains(.reader) && appending != nil
                ? ConsumptionLog(pool: database.pool(for: .handIns, logger: logger)) : nil, outbound: plan.outbound,
            health: (appending?.health ?? []) + conditions.compactMap(\.self),
            apps: Set(apps.map(\.bundleId) + googleApps.map(\.packageName)),
            signingKeys: apps.serverAPIKeys,
            refundApps: RefundApps(apps, googleApps),
            asked: AskedApps(apps, googleApps), changes: changes, metrics: metrics, now: now, logger: logger)
        let open = PublicServices(
            plan.open, notifications: receiver?.notifications, apps: backends.apps,
            health: receiver?.health
                ?? [.database(LogReader(pool: database.pool(for: .requests, logger: logger)))],
            logger: logger)
        let readerWatch = database.embedded.map { _ in ReaderWatch(owner: database.owner, logger: logger) }
        let pools = [readerWatch?.pool, backends.healthPool].compactMap(\.self)
        PoolMetrics(database.pools.all + pools).add(to: metrics)
        let rounds = (poller?.rounds ?? []) + [google?.voids.rounds, refunds?.rounds].compactMap(\.self)
        let led =
            rounds.isEmpty
            ? nil : LedRounds(rounds, elector: elector, clock: StoreClock(date: now), logger: logger)
        let services: [(any Service)?] = [
            DatabaseService(database: database, pools: pools),
            CertificateService(
                identities: [
                    open == nil ? nil : plan.open.identity, plan.backends.identity,
                ].compactMap(\.self)),
            readerWatch,
            RunService(appending?.durability) { await $0.run() },
            RunService(appending?.partitions) { await $0.run() },
            RunService(appending?.archive) { await $0.run() },
            RunService(projector?.projector) { await $0.run() },
            RunService(trees) { await $0.run() },
            appending?.service,
            RunService(receiver?.quarantine) { await $0.run() },
            store?.service,
            receiver?.keys,
            // Stops after the listener, whose requests ask as well.
            RunService(receipts?.queue) { await $0.run() },
            RunService(poller?.poller) { await $0.run() },
            RunService(google?.poller) { await $0.run() },
            RunService(sweep) { await $0.run() },
            RunService(led) { await $0.run() },
            RunService(outbound?.delivery) { await $0.run() },
            verifying?.revocation,
            backends.listener,
            // Stops before the listener, which waits for requests that wait for changes.
            RunService(roles.isDisjoint(with: [.reader, .poller]) ? nil : changes) { await $0.run() },
            open?.listener,
        ]
        self.services = services.compactMap(\.self)
        self.appending = appending
        self.store = store
        verifier = verifying?.verifier
    }
}
