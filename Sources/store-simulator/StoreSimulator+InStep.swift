import ArgumentParser
import Encoding
import Server
import Simulation

extension StoreSimulator {
    /// Runs the stores and a server on one simulated clock, reports what came of it, and writes the expected answers.
    func runInStep(_ simulation: Simulation?, _ google: PlaySimulation?) async throws {
        let settings = Settings(flags: database.values)
        var logger = try settings.logger()
        if database.logLevel == nil { logger.logLevel = .warning }
        try settings.leaveRoot(logger: logger)
        let target = LateTarget()
        let run = SimulationInStep(
            simulation: simulation, google: google, settings: settings, connections: connections, target: target,
            sending: byAPI ? sending { await target.post($0) } : nil,
            pushing: pushing(audience: SimulationInStep.pushAudience) { await target.push($0) },
            faults: faults(simulation, google), logger: logger)
        let days = Int64(Simulation.start.duration(to: scenario.window.end) / .seconds(86_400))
        let progress = ProgressReport("simulated", unit: "days")
        let outcome = try await run.run { instant in
            progress.update(Int64(Simulation.start.duration(to: instant) / .seconds(86_400)), of: days)
        }
        if let lost = outcome.lostEvents { printError("restored the database, which lacked \(lost) events then") }
        if let apple = outcome.apple { report(apple) }
        if let google = outcome.google { report(google) }
        if let expected {
            try SimulationFiles.writeAnswers(
                of: simulation, google, acknowledged: outcome.google?.acknowledged ?? [:], to: expected)
        }
        if let figures {
            try SimulationFiles.writeFigures(
                of: simulation, google, acknowledged: outcome.google?.acknowledged ?? [:], to: figures)
        }
        if let writeReports {
            try SimulationFiles.writeReports(
                of: simulation, google, acknowledged: outcome.google?.acknowledged ?? [:], to: writeReports)
        }
        guard outcome.apple?.audit?.differences.isEmpty ?? true, outcome.apple?.refunds?.differences.isEmpty ?? true
        else { throw ExitCode.failure }
        let sent = outcome.apple?.sent.all
        let handedIn = outcome.google?.handedIn
        guard sent?.failed ?? 0 == 0 else { throw ExitCode.unavailable }
        guard sent?.rejected ?? 0 == 0, handedIn?.rejected ?? 0 == 0 else { throw ExitCode.dataError }
        guard outcome.apple?.comparison.unexplained ?? 0 == 0, sent?.wronglyAccepted ?? 0 == 0,
            outcome.google?.isRight ?? true
        else { throw ExitCode.failure }
    }

    /// With an outage of a day, in which the first purchase of a story is made, and the days that a restored database lacks.
    /// The seed determines them.
    private func faults(_ apple: Simulation?, _ google: PlaySimulation?) -> SimulationInStep.FaultSettings {
        var faults = SimulationInStep.FaultSettings()
        faults.fraction = storeFaults
        faults.lost = restore ? lostTime(apple, google) : nil
        var random = SplitMix64(seed: scenario.seed, .max - 30)
        guard let outage = play.outage, let bought = google?.firstHandIns.randomElement(using: &random) else {
            return faults
        }
        let start = bought.advanced(by: .seconds(-Int64.random(in: 1...20, using: &random) * 3600))
        switch outage {
        case .store: faults.storeOutage = start..<start.advanced(by: .seconds(86_400))
        case .server: faults.serverOutage = start..<start.advanced(by: .seconds(86_400))
        }
        return faults
    }

    /// Three days in which something was handed in.
    private func lostTime(_ apple: Simulation?, _ google: PlaySimulation?) -> LostTime? {
        var random = SplitMix64(seed: scenario.seed, .max - 31)
        let handedIn = (apple?.handIns.map(\.at) ?? []) + (google?.firstHandIns ?? [])
        guard let middle = handedIn.randomElement(using: &random) else { return nil }
        let start = middle.advanced(by: .seconds(-Int64.random(in: 1...60, using: &random) * 3600))
        return LostTime(start: start, end: start.advanced(by: .seconds(3 * 86_400)))
    }

    private func report(_ apple: SimulationInStep.AppleOutcome) {
        printError(apple.sent.posted.description())
        printError(apple.sent.handedIn.description("handed in"))
        printError(apple.sent.linked.description("sent link statements"))
        printError("asked in checks: \(apple.asked)")
        if apple.backfilled > 0 { printError("histories read: \(apple.backfilled)") }
        for difference in apple.audit?.differences ?? [] { print(difference) }
        if let audit = apple.audit { print(audit.description) }
        for difference in apple.refunds?.differences ?? [] { print(difference) }
        if let refunds = apple.refunds { print(refunds.description) }
        for difference in apple.comparison.differences { print(difference.description) }
        print(apple.comparison.description)
    }

    private func report(_ google: SimulationInStep.PlayOutcome) {
        printError("pushed \(google.pushes), not acknowledged: \(google.failedPushes)")
        printError(google.handedIn.description("handed in"))
        printError(
            "asked about purchases: \(google.course.asked), compared voided purchases: \(google.course.comparisons), "
                + "voids found: \(google.course.voidsFound)")
        for difference in google.acknowledgements.differences { print(difference) }
        print(google.acknowledgements.description)
        for difference in google.feed.differences { print(difference) }
        print(google.feed.description)
        for difference in google.comparison.differences { print(difference.description) }
        print(google.comparison.description)
    }
}
