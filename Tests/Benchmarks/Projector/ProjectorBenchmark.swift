// Measures how many events per second the projector folds on growing logs: live, in a rebuild, and in a check of all
// subscriptions.
//
//     swift build -c release --product Benchmarks
//     .build/release/Benchmarks projector --events 10000,100000,1000000
//
// A third of the events are version 1 with six transactions, the rest version 2 from the simulator. The first few
// thousand are decoded from bodies. The others are copies about other subscriptions, made in SQL with empty bodies,
// which the projector does not read. Each size continues where the previous one ended, so its rate is that of a log and
// of projections of that size. With --views, the analyst views are read instead of rebuild and check.

import ArgumentParser
import Encoding
import EventLog
import Foundation
import Logging
import Postgres
import Projector
import TestSupport

struct ProjectorBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "projector", abstract: "Measure how many events per second the projector folds.")

    @Option(help: ArgumentHelp("The sizes of the log, ascending, separated by commas.", valueName: "numbers"))
    var events = "10000,100000"

    @Flag(help: "Read the analyst views instead of rebuilding and checking.")
    var views = false

    func validate() throws {
        guard sizes != nil else {
            throw ValidationError("--events is invalid: expected positive numbers in ascending order.")
        }
    }

    func run() async throws {
        guard let sizes else { throw Unusable() }
        let database = try await TestCluster.freshDatabase()
        let log = try await BenchmarkLog.make(in: database)
        let quiet = Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() })
        let session = Self.session(database)
        let pool = PostgresPool(session, limit: Projector.connectionsMax, logger: quiet)
        let projector = Projector(pool: pool, listener: session, now: { log.middle }, logger: quiet)
        guard await projector.foldAllStreams() else { throw Unusable() }
        print("live       events   events/s   projector us/event   database us/event   projections bytes/event")
        for size in sizes {
            let before = try await log.grow(to: size)
            let usage = try await ProcessorTime.now()
            let start = ContinuousClock.now
            guard await projector.foldAllStreams() else { throw Unusable() }
            let (time, used) = (ContinuousClock.now - start, try await ProcessorTime.now() - usage)
            // The coordinator of a distributed database has no rows.
            let bytes = CitusCluster.isWanted ? nil : try await LogSize.projections(database)
            Self.report(size, size - before, time, used, bytes: bytes)
        }
        if views {
            await pool.close()
            return try await ViewTimes(database: database).measure()
        }
        let (events, one) = try await Self.rebuild(database, pool, workers: 1, now: log.middle)
        let (_, two) = try await Self.rebuild(database, pool, workers: 2, now: log.middle)
        print(String(format: "rebuild, rate with two workers to that with one: %.2f", one / two))
        await pool.close()
        try await Self.verify(database, events)
    }

    /// Rebuilds, and returns the number of events and how long it took.
    private static func rebuild(
        _ database: ConnectionConfiguration, _ pool: PostgresPool, workers: Int, now: Instant
    ) async throws -> (events: Int, time: Duration) {
        print("rebuild, workers: \(workers)")
        let usage = try await ProcessorTime.now()
        let start = ContinuousClock.now
        let rebuild = ProjectionRebuild(
            owner: database, pool: pool, app: nil, environment: nil, now: { now }, workers: workers)
        let outcome = try await rebuild.run { @Sendable _ in }
        guard outcome.rowsReplaced == 0 else { throw Unusable() }
        let (events, time) = (Int(outcome.eventsFolded), ContinuousClock.now - start)
        report(events, events, time, try await ProcessorTime.now() - usage)
        return (events, time)
    }

    /// The session settings of the server and the commands.
    private static func session(_ database: ConnectionConfiguration) -> ConnectionConfiguration {
        var session = database.with(role: "subledger_projector")
        session.sessionSettings.merge(Projector.planSettings) { $1 }
        return session
    }

    /// Checks all subscriptions against a new fold, like the second part of `verify --all`.
    private static func verify(_ database: ConnectionConfiguration, _ events: Int) async throws {
        let session = session(database)
        let (first, second) = (try await TestCluster.connect(session), try await TestCluster.connect(session))
        print("verify")
        let usage = try await ProcessorTime.now()
        let start = ContinuousClock.now
        let audit = try await ProjectionAudit(connection: first, others: [second], seed: 1)
        guard try await audit.check(stream: 1, .all, onProgress: { _, _ in }) > 0 else { throw Unusable() }
        report(events, events, ContinuousClock.now - start, try await ProcessorTime.now() - usage)
        await first.close()
        await second.close()
    }

    /// Nil if the option is invalid.
    private var sizes: [Int]? {
        let numbers = events.split(separator: ",").map { Int($0) ?? 0 }
        return numbers.isEmpty || numbers.contains { $0 <= 0 } || numbers != numbers.sorted() ? nil : numbers
    }

    private static func report(
        _ size: Int, _ events: Int, _ time: Duration, _ used: ProcessorTime, bytes: Int64? = nil
    ) {
        func each(_ seconds: Double) -> String { String(format: "%.1f", seconds * 1e6 / Double(events)) }
        let rate = String(format: "%.0f", Double(events) / time.inSeconds)
        let disk = bytes.map { " " + pad($0 / Int64(size), 25) } ?? ""
        print("\(pad(size, 17)) \(pad(rate, 10)) \(pad(each(used.own), 20)) \(pad(each(used.database), 19))\(disk)")
    }

    private static func pad(_ value: some CustomStringConvertible, _ width: Int) -> String {
        let text = value.description
        return String(repeating: " ", count: max(0, width - text.count)) + text
    }
}
