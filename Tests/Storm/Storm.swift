import ArgumentParser
import Foundation
import StoreSimulator
import TestSupport

@main
struct Storm: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Breaks whatever can break around running servers, and checks that nothing was lost.",
        discussion: """
            The same seed gives the same faults in the same order with the same load. Real processes meet them at other \
            moments each time, so a failure may take some runs to come back.
            """)

    @Option(help: "How long things go wrong.")
    var minutes = 1.0

    @Option var seed: UInt64 = 20_180_220

    @Option(help: "Notifications a second.")
    var rate = 40

    @Option(help: "An empty folder; short, since it holds a socket.")
    var folder: String

    @Flag(help: "The folder is a disk of its own, which may be filled.")
    var fillDisk = false

    func validate() throws {
        guard minutes > 0, minutes <= 600 else { throw ValidationError("--minutes must be a number from 0 to 600.") }
        guard (1...1000).contains(rate) else { throw ValidationError("--rate must be a number from 1 to 1000.") }
    }

    /// Beyond the storm itself, for starting, healing and checking: the longer it was, the more there is to be sent
    /// again and to be checked.
    private var checkingMax: Duration { .seconds(300 + minutes * 60) }

    func run() async throws {
        let report = StormReport()
        limitTime(report)
        let signals = endOnSignals()
        defer { for signal in signals { signal.cancel() } }
        let load = StormLoad(seed: seed, deliveries: Int(minutes * 60) * rate)
        report.say("seed \(seed), \(minutes) minutes, \(load.count) deliveries")
        if !fillDisk { report.say("skipped: a full disk, since the folder is not a disk of its own (needs root)") }

        let run = try await StormRun.start(folder: folder, load: load, seed: seed, report: report)
        await run.storm(for: .seconds(minutes * 60), canFillDisk: fillDisk)
        await run.check()
        await run.end()
        let content = run.sender.ledger.content
        for (answer, count) in content.answers.sorted(by: { $0.key < $1.key }) { report.say("\(count) x \(answer)") }
        let verdict = report.verdict(seed: seed, sent: content.sent, acknowledged: content.acknowledged.count)
        try FileHandle.standardOutput.write(contentsOf: Data(verdict.utf8))
        if !report.hasPassed { throw ExitCode.failure }
    }

    /// What was started goes with us. PostgreSQL has a session of its own, so that Ctrl-C does not reach it.
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

    /// Ends the storm and all that it started if it does not end by itself.
    private func limitTime(_ report: StormReport) {
        let limit = Duration.seconds(minutes * 60) + checkingMax
        let ends = ContinuousClock.now + limit
        Thread.detachNewThread {
            while ContinuousClock.now < ends { sleep(1) }
            report.problem("the storm did not end in \(limit.components.seconds) s")
            Started.killAll()
            Foundation.exit(1)
        }
    }
}
