import Foundation
import Simulation
import TestSupport

/// One storm: a database, two servers, a sender and the faults.
struct StormRun: Sendable {
    let seed: UInt64
    let report: StormReport
    let database: StormDatabase
    let servers: [StormServer]
    let sender: Sender
    let receipts: ReceiptStorm
    let deliveries: DeliveryStorm
    /// Of a token that may change endpoints.
    let endpointToken: String
    let supervisors: [Task<Void, Never>]
    /// The resources of the server that is never killed, before the storm.
    let baseline: Resources

    static func start(folder: String, load: StormLoad, seed: UInt64, report: StormReport) async throws -> StormRun {
        let database = try await StormDatabase.start(folder: folder + "/db")
        let root = folder + "/root.pem"
        try (TestCertificates.standard.rootPEM + SignedReceipt.rootPEM())
            .write(toFile: root, atomically: false, encoding: .utf8)
        let receipts = try await ReceiptStorm(seed: seed, report: report)
        let deliveries = try await DeliveryStorm(seed: seed, report: report)
        let apps = folder + "/apps.json"
        // The store knows nothing of the load's app.
        try """
        [{"bundleId":"\(StormLoad.app)","appAppleId":\(StormLoad.appleId),"sharedSecrets":["\(Canary.secret)"],
        "receipts":{"polling":false},"forward":\(deliveries.forward)},
        {"bundleId":"\(HostileCustomers.app)","receipts":{"polling":false}},
        {"bundleId":"\(ReceiptStorm.app)","sharedSecrets":["\(Canary.secret)"],"receipts":{"callsPerMinute":6000}}]
        """.write(toFile: apps, atomically: false, encoding: .utf8)
        let servers = try [("server 1", "info"), ("server 2", "trace")].map { name, level in
            try StormServer(
                name: name, database: database, folder: folder, rootFile: root, appsFile: apps,
                store: receipts.address, logLevel: level, more: DeliveryStorm.environment(folder))
        }
        var supervisors = servers.map { server in Task { await server.supervise(report) } }
        supervisors.append(Task { await database.server.supervise() })
        supervisors.append(Task { await database.trackProcess() })
        for server in servers {
            _ = try await eventually(within: .seconds(60), "\(server.name) is up") { server.ports }
        }
        let client = StormClient(connections: Sender.Limits.connections, token: try await database.token())
        let sender = Sender(
            load: load, servers: servers, client: client, ledger: SentLedger(report), report: report, seed: seed)
        let endpointToken = try await database.token(.admin)
        await deliveries.addEndpoints(client, endpointToken, servers[1].ports?.private ?? 0)
        await sender.warmUp()
        let baseline = try Resources(of: servers[1])
        report.log("baseline of \(servers[1].name): \(baseline)")
        return StormRun(
            seed: seed, report: report, database: database, servers: servers, sender: sender,
            receipts: receipts, deliveries: deliveries, endpointToken: endpointToken, supervisors: supervisors,
            baseline: baseline)
    }

    /// Posts the load and injects faults for the duration, then reverts the faults and posts the rest.
    func storm(for duration: Duration, canFillDisk: Bool) async {
        let mischief = Task { await Mischief(sender: sender, report: report, seed: seed).run() }
        let sending = Task { await sender.sendAll(over: duration) }
        let handing = Task { await receipts.run(over: duration, sender, seed: seed) }
        let injector = FaultInjector(database: database, servers: servers, report: report)
        await injector.run(
            FaultPlan(seed: seed, servers: servers.count, canFillDisk: canFillDisk), until: .now + duration, seed: seed)
        report.log("last fault reverted, \(sender.remaining) notifications left to send")
        mischief.cancel()
        await mischief.value
        for server in servers {
            let isUp = try? await eventually(within: .seconds(60), "\(server.name) is up") { server.ports }
            if isUp == nil { report.problem("\(server.name) is not up one minute after the last fault") }
        }
        await sending.value
        await handing.value
        await sender.sendUnacknowledged()
    }

    /// Posts the load while reading roles hold what they can and customers send junk. Nothing is killed: purchases must give
    /// access in time, and health must be ok.
    ///
    /// - Parameter fillsQueue: See ``HostileReaders``.
    func hostileStorm(for duration: Duration, fillsQueue: Bool) async {
        let mischief = Task { await Mischief(sender: sender, report: report, seed: seed).run() }
        let readers = Task { await HostileReaders(database: database, report: report, fillsQueue: fillsQueue).run() }
        let customers = HostileCustomers(
            servers: servers, client: sender.client, report: report, fillsQueue: fillsQueue)
        let flood = Task { await customers.run(seed: seed) }
        let sending = Task { await sender.sendAll(over: duration) }
        let handing = Task { await receipts.run(over: duration, sender, seed: seed) }
        try? await Task.sleep(for: duration)
        report.log("end of the hostile sessions, \(sender.remaining) notifications left to send")
        for task in [mischief, readers, flood] { task.cancel() }
        for task in [mischief, readers, flood] { await task.value }
        customers.check()
        await sending.value
        await handing.value
        await sender.sendUnacknowledged()
    }

    /// Checks log, projections, answers, resources and canaries.
    func check() async {
        // Questions about receipts wait until a dead server's claims end, and deliveries until they are due again. What is
        // checked beside them concerns another app, or changes no more.
        async let receiptsChecked: Void = checked("the receipts") { try await receipts.check(self) }
        await checked("the log") { try await LogCheck(run: self).run() }
        await checked("catching up") { try await ProjectionCheck(run: self).waitUntilCaughtUp() }
        async let deliveriesChecked: Void = checked("the deliveries") {
            try await deliveries.check(self, endpointToken)
        }
        await checked("the answers") { try await AnswerCheck(run: self).run() }
        await deliveriesChecked
        await receiptsChecked
        await sender.client.close()
        await checked("resources") { try await checkResources() }
        await checked("canaries in metrics") { try await CanaryCheck(run: self).metrics() }
        for server in servers {
            await checked("the end of \(server.name)") {
                let status = try await server.stop()
                if status != 0 { report.problem("\(server.name) ended on SIGTERM with status \(status ?? -1)") }
            }
        }
        await checked("the rebuild") { try await ProjectionCheck(run: self).rebuild() }
        await checked("canaries in logs") { try await CanaryCheck(run: self).logs() }
    }

    private func checked(_ what: String, _ check: () async throws -> Void) async {
        do {
            try await check()
            report.log("checked \(what)")
        } catch {
            report.problem("check of \(what) failed: \(error)")
        }
    }

    private func checkResources() async throws {
        let server = servers[1]
        let limit = baseline.descriptors + Resources.descriptorsSpare
        // Idle HTTP connections are closed after half a minute.
        _ = try? await eventually(within: .seconds(45), "descriptors are released") {
            try Resources(of: server).descriptors <= limit ? true : nil
        }
        let now = try Resources(of: server)
        report.log("\(server.name) after the storm: \(now)")
        if now.descriptors > limit { report.problem("\(server.name) leaks descriptors: \(baseline), then \(now)") }
        if now.megabytes > baseline.megabytes + Resources.megabytesSpare {
            report.problem("\(server.name) leaks memory: \(baseline), then \(now)")
        }
    }

    func end() async {
        await receipts.end()
        await deliveries.end()
        for server in servers { server.proxy.stop() }
        await database.server.stop()
        for supervisor in supervisors { supervisor.cancel() }
    }
}

/// The memory and file descriptors of a process.
struct Resources: CustomStringConvertible {
    /// For connections that a pool may or may not have open, and for eight to each of four endpoints.
    static let descriptorsSpare = 12 + 32
    /// For memory that the allocator keeps after a peak: the bodies of a full queue.
    static let megabytesSpare = 96

    let megabytes: Int
    let descriptors: Int

    init(of server: StormServer) throws {
        let pid = server.process?.pid ?? 0
        megabytes = try ProcessMemory.resident(pid) >> 20
        descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count
    }

    var description: String { "\(megabytes) MB, \(descriptors) descriptors" }
}
