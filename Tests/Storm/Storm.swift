import ArgumentParser
import Foundation
import Simulation
import TestSupport

@main
struct Storm: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Inject faults around running servers and check that no notification is lost.",
        discussion: """
            Equal seeds give equal faults, in the same order, and an equal load. The processes reach them at different \
            moments each time, so reproducing a failure may take several runs.
            """)

    @Option(help: "How long to inject faults.")
    var minutes = 1.0

    @Option var seed: UInt64 = 20_180_220

    @Option(help: "Notifications per second.")
    var rate = 40

    @Option(help: "An empty folder. Its path must be short, because it contains a socket.")
    var folder: String

    @Flag(help: "Fill the disk too. The folder must be a file system of its own.")
    var fillDisk = false

    @Flag(help: "Instead of faults: sessions of reading roles that hold what they can, and customers who send junk.")
    var hostile = false

    @Flag(help: "With --hostile: fill PostgreSQL's queue of notifications, too. It takes nine gigabytes of the folder.")
    var fillQueue = false

    func validate() throws {
        guard hostile || !fillQueue else { throw ValidationError("--fill-queue needs --hostile.") }
        guard minutes > 0, minutes <= 600 else {
            throw ValidationError("--minutes is out of range: expected more than 0 and at most 600.")
        }
        guard (1...1000).contains(rate) else { throw ValidationError("--rate is out of range: expected 1 to 1000.") }
    }

    /// The time for start, recovery and checks. It grows with the duration, because more is sent again and checked.
    private var checkingMax: Duration { .seconds(300 + minutes * 60) }

    func run() async throws {
        let report = StormReport()
        limitTime(report)
        let signals = endOnSignals()
        defer { for signal in signals { signal.cancel() } }
        let load = StormLoad(seed: seed, deliveries: Int(minutes * 60) * rate)
        report.log("seed \(seed), \(minutes) minutes, \(load.count) deliveries")
        if !fillDisk, !hostile {
            report.log("skipped: full disk, because the folder is not a file system of its own (needs root)")
        }

        let run = try await StormRun.start(folder: folder, load: load, seed: seed, report: report)
        if hostile {
            await run.hostileStorm(for: .seconds(minutes * 60), fillsQueue: fillQueue)
        } else {
            await run.storm(for: .seconds(minutes * 60), canFillDisk: fillDisk)
        }
        await run.check()
        await run.end()
        let content = run.sender.ledger.content
        for (answer, count) in content.answers.sorted(by: { $0.key < $1.key }) { report.log("\(count) x \(answer)") }
        let verdict = report.verdict(seed: seed, sent: content.sent, acknowledged: content.acknowledged.count)
        try FileHandle.standardOutput.write(contentsOf: Data(verdict.utf8))
        if !report.hasPassed { throw ExitCode.failure }
    }

    /// Kills all started processes on a signal. PostgreSQL has a session of its own, so Ctrl-C does not reach it.
    private func endOnSignals() -> [any DispatchSourceSignal] {
        [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number)
            source.setEventHandler {
                Started.killAll()
                Foundation.exit(128 + number)
            }
            source.resume()
            return source
        }
    }

    /// Ends the storm and all started processes at the time limit.
    private func limitTime(_ report: StormReport) {
        let limit = Duration.seconds(minutes * 60) + checkingMax
        let ends = ContinuousClock.now + limit
        Thread.detachNewThread {
            while ContinuousClock.now < ends { sleep(1) }
            report.problem("the storm did not end within \(limit.components.seconds) s")
            Started.killAll()
            Foundation.exit(1)
        }
    }
}
