import Encoding
import EventLog
import SimulatedStore
import SimulatorClient
import StoreClient
import StoreSimulator
import Subscriptions

/// Lets the simulated time of a store and of a server pass: at each step, everything due is sent to the server, and then
/// every check that is due is made.
struct TimetableRun {
    let timetable: Timetable
    let store: SimulatedStore
    let poster: TimetablePoster
    let poller: Poller
    /// Nil for a run without audits.
    let audits: DeliveryAudits?
    let consumption: ConsumptionSender
    let log: LogReader
    let stream: StreamKey

    enum Limits {
        /// Checks are made up to this much later than they are due.
        static let step = Duration.seconds(6 * 3600)
        /// From the end of the stories on, checks are made for this long: until Apple has stopped retrying payments.
        static let checksAfterEnd = Duration.seconds(61 * 86_400)
        static let projectionWaitMax = Duration.seconds(60)
        static let projectionPause = Duration.milliseconds(2)
    }

    struct ProjectionTooSlow: Error, CustomStringConvertible {
        let description = "the projection stands still: see the log lines above"
    }

    struct Outcome: Sendable {
        /// The ends of the steps, ascending.
        var steps: [Instant] = []
        /// The number of questions that the checks asked.
        var asked = 0
        /// In the order in which they were made.
        var audits: [DeliveryAudit] = []
    }

    /// - Parameter onStep: Called after each step with the simulated time.
    func run(onStep: (Instant) -> Void) async throws -> Outcome {
        var position = 0
        var nextDue: Instant?
        var nextAudit = audits == nil ? nil : Simulation.start
        var outcome = Outcome()
        let end = Simulation.end.advanced(by: Limits.checksAfterEnd)
        while let next = [timetable.instant(at: position), nextDue, nextAudit].compactMap(\.self).min(), next <= end,
            poster.isAnswered
        {
            let now = Self.endOfStep(at: next)
            await store.setClock(now)
            let due = timetable.count(through: now)
            await poster.send(position..<due)
            position = due
            var round: PollRound
            repeat {
                try await waitForProjection()
                round = try await poller.round(at: now)
                outcome.asked += round.asked
            } while round.asked > 0
            nextDue = round.nextDue
            if let audits {
                outcome.audits += try await audits.round(at: now)
                nextAudit = AuditDay(containing: now).end.advanced(by: Limits.step)
            }
            _ = try await consumption.round(at: now)
            outcome.steps.append(now)
            onStep(now)
        }
        return outcome
    }

    private static func endOfStep(at instant: Instant) -> Instant {
        let step = Int64(Limits.step / .milliseconds(1))
        let passed = instant.duration(to: Simulation.start) / .milliseconds(-1)
        let steps = (max(0, passed) / Double(step)).rounded(.up)
        return Simulation.start.advanced(byMilliseconds: Int64(steps) * step)
    }

    private func waitForProjection() async throws {
        let last = try await log.lastPosition(of: stream)
        let end = ContinuousClock.now + Limits.projectionWaitMax
        while try await log.foldedPosition(of: stream) < last {
            guard ContinuousClock.now < end else { throw ProjectionTooSlow() }
            try await Task.sleep(for: Limits.projectionPause)
        }
    }
}
