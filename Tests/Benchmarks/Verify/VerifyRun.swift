import AppStore
import Crypto
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import Simulation
import TestSupport

/// The rate at which `subledger verify` checks a log with its sample of subscriptions, and the floor below its processor
/// time: the signatures, the digests of bodies, and parsing their JSON.
///
/// The log has notifications of both versions, as the simulator posts them.
struct VerifyRun {
    let settings: RunSettings
    let events: Int
    let runs: Int

    private static let limit = 3600.0
    /// The number of bodies of the floor.
    private static let sampleCount = 2000
    private static let appendsAtOnce = 200
    /// The simulation of both versions has more for each of its subscriptions.
    private static let eventsOfSubscription = 5

    func measure(_ samples: inout Samples) async throws {
        let root = settings.folder.file("root.pem")
        try Data(TestCertificates.standard.rootPEM.utf8).write(to: URL(fileURLWithPath: root))
        let database = try await SharedDatabase.make()
        let bodies = try await fill(database)
        // The simulation may repeat a body.
        let stored = Int(try await database.lines("select count(*)::text from subledger.event")[0]) ?? 0
        for round in 1...runs {
            progress("verify, run \(round) of \(runs)")
            try await verify(database, of: stored, root, &samples)
            try floor(bodies, &samples)
        }
        try await database.drop()
    }

    /// Makes the log and folds it.
    ///
    /// - Returns: Some of the bodies, of all times.
    private func fill(_ database: SharedDatabase) async throws -> [[UInt8]] {
        progress("making a log of \(events) events")
        let app = SimulatedApp(
            bundleId: V1Body.app, appAppleId: 1, environment: .production, sharedSecret: V1Body.secret)
        var run = Simulation.Settings(app: app)
        run.format = .both
        run.subscriptions = max(100, events / Self.eventsOfSubscription)
        guard let deliveries = Simulation(run)?.deliveries, deliveries.count >= events,
            let roots = RootCertificates(file: TestCertificates.standard.rootDER)
        else { throw BenchError("the simulation has too few notifications") }
        let verifier = NotificationVerifier(
            apps: Apps([App(bundleId: V1Body.app, appAppleId: 1, sharedSecrets: [V1Body.secret])]),
            signatures: SignatureVerifier(roots: roots))
        let quiet = Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() })
        let receiver = PostgresPool(
            database.configuration.with(role: "subledger_receiver"), limit: 2, logger: quiet)
        let appender = Appender(pool: receiver, logger: quiet)
        let running = Task { await appender.run() }
        for start in stride(from: 0, to: events, by: Self.appendsAtOnce) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in start..<min(start + Self.appendsAtOnce, events) {
                    group.addTask {
                        let delivery = deliveries[number]
                        let verified = try await verifier.verify(delivery.body(), receivedAt: delivery.receivedAt)
                        _ = try await appender.append(PreparedEvent(verified, receivedAt: delivery.receivedAt))
                    }
                }
                try await group.waitForAll()
            }
        }
        await appender.stop()
        await running.value
        await receiver.close()
        try await fold(database, until: deliveries[events - 1].receivedAt, quiet)
        return stride(from: 0, to: events, by: max(1, events / Self.sampleCount)).map { deliveries[$0].body() }
    }

    private func fold(_ database: SharedDatabase, until now: Instant, _ logger: Logger) async throws {
        progress("folding it")
        var session = database.configuration.with(role: "subledger_projector")
        session.sessionSettings.merge(Projector.planSettings) { $1 }
        let pool = PostgresPool(session, limit: Projector.connectionsMax, logger: logger)
        let projector = Projector(pool: pool, listener: session, now: { now }, logger: logger)
        guard await projector.foldAllStreams() else { throw BenchError("the log was not folded") }
        await pool.close()
        let owner = try await TestCluster.connect(database.configuration)
        // A running server does both as it goes.
        for work in ["vacuum analyze", "checkpoint"] {
            try await owner.script(work, deadline: .now + .seconds(1800))
        }
        await owner.close()
    }

    private func verify(
        _ database: SharedDatabase, of events: Int, _ root: String, _ samples: inout Samples
    ) async throws {
        let before = (try await ProcessorTime.now().database, Wrk.childSeconds())
        let start = ContinuousClock.now
        let run = try ServerProcess.run(
            ["verify", "--root", root, "--seed", "1"], environment: database.environment(), limit: Self.limit)
        let seconds = (ContinuousClock.now - start).inSeconds
        let used = (try await ProcessorTime.now().database - before.0, Wrk.childSeconds() - before.1)
        guard run.status == 0, run.output.contains(", events \(events),") else {
            throw BenchError("verify: \(run.output)\(run.error)")
        }
        samples.add("verify.rate", Double(events) / seconds)
        samples.add("verify.million", seconds * 1e6 / Double(events))
        samples.add("verify.server", used.1 * 1e6 / Double(events))
        samples.add("verify.database", used.0 * 1e6 / Double(events))
    }

    private func floor(_ bodies: [[UInt8]], _ samples: inout Samples) throws {
        let key = TestCertificates.standard.leafKey.publicKey
        let works = try bodies.map { body in
            let isSigned = String(decoding: body.prefix(20), as: UTF8.self).contains("signedPayload")
            return (body: body, parts: isSigned ? try SignedParts(body) : nil)
        }
        samples.add(
            "verify.floor.server",
            try ParseFloor.microseconds(works[...]) { work in
                guard SHA256.hash(data: work.body).first(where: { $0 != 0 }) != nil else { throw Unusable() }
                for text in work.parts?.texts ?? [work.body] { _ = try JSONDocument(text) }
                for part in work.parts?.all ?? [] where !key.isValidSignature(part.signature, for: part.signedText) {
                    throw BenchError("a signature does not match")
                }
            })
    }
}
