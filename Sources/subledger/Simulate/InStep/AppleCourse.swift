import Encoding
import EventLog
import SimulatedStore
import SimulatorClient
import StoreClient
import StoreSimulator
import Subscriptions

/// The App Store's part in a run in step: at each step, everything due is sent to the server, and then every check that is
/// due is made.
struct AppleCourse: StoreCourse {
    let timetable: Timetable
    let store: SimulatedStore
    let poster: TimetablePoster
    let poller: Poller
    /// Nil for a run without audits.
    let audits: DeliveryAudits?
    /// Nil without a key.
    let backfills: HistoryBackfills?
    let consumption: ConsumptionSender
    let wait: ProjectionWait
    private(set) var outcome = Outcome()
    private var position = 0
    private var nextDue: Instant?
    private var nextAudit: Instant?

    private enum Limits {
        /// Checks are made up to this much later than they are due.
        static let step = Duration.seconds(6 * 3600)
        /// From the end of the stories on, checks are made for this long: until Apple has stopped retrying payments.
        static let checksAfterEnd = Duration.seconds(61 * 86_400)
    }

    struct Outcome: Sendable {
        /// The ends of the steps, ascending.
        var steps: [Instant] = []
        /// The number of questions that the checks asked.
        var asked = 0
        /// The number of accounts whose past was read.
        var backfilled = 0
        /// In the order in which they were made.
        var audits: [DeliveryAudit] = []
    }

    init(
        timetable: Timetable, store: SimulatedStore, poster: TimetablePoster, poller: Poller, audits: DeliveryAudits?,
        backfills: HistoryBackfills?, consumption: ConsumptionSender, wait: ProjectionWait
    ) {
        self.timetable = timetable
        self.store = store
        self.poster = poster
        self.poller = poller
        self.audits = audits
        self.backfills = backfills
        self.consumption = consumption
        self.wait = wait
        nextAudit = audits == nil ? nil : Simulation.start
    }

    var next: Instant? {
        let due = [timetable.instant(at: position), nextDue, nextAudit].compactMap(\.self).min()
        guard let due, due <= Simulation.end.advanced(by: Limits.checksAfterEnd), poster.isAnswered else { return nil }
        return due.endOfStep(Limits.step)
    }

    mutating func step(to now: Instant) async throws {
        await store.setClock(now)
        let due = timetable.count(through: now)
        await poster.send(position..<due)
        position = due
        if let backfills {
            try await wait()
            outcome.backfilled += try await backfills.round()
        }
        var round: PollRound
        repeat {
            try await wait()
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
    }
}
