import Encoding
import EventLog
import Simulation
import StoreClient
import Subscriptions

/// The App Store's part in a run in step: at each step, everything due is sent to the server, and then every check that is
/// due is made.
struct AppleCourse: StoreCourse {
    let window: StoryWindow
    let timetable: Timetable
    let store: SimulatedStore
    let poster: TimetablePoster
    /// Those of the server that runs now.
    var server: Server
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

    /// What the server asks with.
    struct Server: Sendable {
        let poller: Poller
        /// Nil for a run without audits.
        let audits: DeliveryAudits?
        /// Nil without a key.
        let backfills: HistoryBackfills?
        let consumption: ConsumptionSender
        let wait: ProjectionWait
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

    init(window: StoryWindow, timetable: Timetable, store: SimulatedStore, poster: TimetablePoster, server: Server) {
        self.window = window
        self.timetable = timetable
        self.store = store
        self.poster = poster
        self.server = server
        nextAudit = server.audits == nil ? nil : Simulation.start
    }

    var next: Instant? {
        let due = [timetable.instant(at: position), nextDue, nextAudit].compactMap(\.self).min()
        guard let due, poster.isAnswered else { return nil }
        return window.endOfStep(Limits.step, due: due, rest: Limits.checksAfterEnd)
    }

    mutating func step(to now: Instant) async throws {
        await store.setClock(now)
        let due = timetable.count(through: now)
        await poster.send(position..<due)
        position = due
        if let backfills = server.backfills {
            try await server.wait()
            outcome.backfilled += try await backfills.round()
        }
        var round: PollRound
        repeat {
            try await server.wait()
            round = try await server.poller.round(at: now)
            outcome.asked += round.asked
        } while round.asked > 0
        nextDue = round.nextDue
        if let audits = server.audits {
            outcome.audits += try await audits.round(at: now)
            nextAudit = AuditDay(containing: now).end.advanced(by: Limits.step)
        }
        _ = try await server.consumption.round(at: now)
        outcome.steps.append(now)
    }

    mutating func restore(_ lost: LostTime) async {
        await poster.sendAgain(timetable.count(through: lost.start)..<position)
        outcome.audits.removeAll { lost.contains($0.auditedAt) }
        nextDue = lost.end
        nextAudit = server.audits == nil ? nil : lost.end
    }
}
