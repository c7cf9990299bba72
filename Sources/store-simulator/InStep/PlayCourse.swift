import Encoding
import Simulation
import StoreClient

/// Google Play's part in a run in step: at each step, the messages that are due are pushed, apps hand purchases in, and
/// the server asks about every purchase that is due and compares the list of voided purchases.
struct PlayCourse: StoreCourse {
    private let play: SimulatedPlay
    let poster: PurchasePoster
    /// Those of the server that runs now.
    var server: Server
    /// When the server is down; nil for a run in which it never is.
    private let serverOutage: Range<Instant>?
    /// What apps will hand in, in the order of time. What is bought depends on what was acknowledged before.
    private var handIns: [HandIn] = []
    private var handedIn: Set<String> = []
    /// Those that the server could not take, which are handed in later than the story says.
    private var delayed: Set<String> = []
    /// The number of acknowledgements after which ``handIns`` was made.
    private var acknowledgements = 0
    private var nextDue: Instant?
    private var nextVoids = Simulation.start
    private var now = Simulation.start
    private(set) var next: Instant? = Simulation.start
    private(set) var outcome = Outcome()

    /// What the server asks with.
    struct Server: Sendable {
        let poller: PurchasePoller
        let voids: VoidAudits
        let wait: ProjectionWait
    }

    struct Outcome: Sendable {
        /// The number of questions about purchases.
        var asked = 0
        /// The number of comparisons with the list of voided purchases, and of the voids that they found.
        var comparisons = 0
        var voidsFound: Int64 = 0
    }

    private enum Limits {
        /// Everything happens up to this much later than it is due.
        static let step = Duration.seconds(60)
        /// From the end of the stories on, questions are asked for this long: the last pushes may be days late, and the
        /// list of voided purchases is compared once a day.
        static let questionsAfterEnd = Duration.seconds(8 * 86_400)
        /// An app hands a purchase in again after this time.
        static let handInPause = Duration.seconds(600)
        /// A comparison that failed is made again after this time.
        static let voidsPause = Duration.seconds(900)
        static let voidsInterval = Duration.seconds(86_400)
    }

    init(
        _ play: SimulatedPlay, poster: PurchasePoster, server: Server, serverOutage: Range<Instant>?
    ) {
        self.play = play
        self.poster = poster
        self.server = server
        self.serverOutage = serverOutage
        plan(0..<play.storyCount)
    }

    mutating func step(to now: Instant) async throws {
        self.now = now
        await play.setClock(now)
        if let serverOutage, serverOutage.contains(now) {
            next = planned([serverOutage.upperBound, play.nextPush])
            return
        }
        await handIn()
        var round: PollRound
        repeat {
            try await server.wait()
            round = try await server.poller.round(at: now)
            outcome.asked += round.asked
        } while round.asked > 0
        nextDue = round.nextDue
        if nextVoids <= now {
            let made = try await server.voids.round(at: now)
            outcome.comparisons += made.count
            for audit in made { outcome.voidsFound += audit.appended }
            nextVoids = now.advanced(by: made.isEmpty ? Limits.voidsPause : Limits.voidsInterval)
            // Purchases of which the list names a void are due now.
            nextDue = made.contains { $0.appended > 0 } ? now : nextDue
        }
        followAcknowledgements()
        next = planned([play.nextPush, handIns.first?.handIn.at, nextDue, nextVoids])
    }

    /// Apps hand in again what was lost.
    mutating func restore(_ lost: LostTime) async {
        play.forgetEnds { lost.contains($0) }
        let stories = (0..<play.storyCount).filter { story in
            let again = play.story(story).handIns.filter { lost.contains($0.at) }.map(\.purchaseToken)
            handedIn.subtract(again)
            return !again.isEmpty
        }
        plan(stories)
        nextDue = lost.end
        nextVoids = lost.end
        next = planned([lost.end])
    }

    private struct HandIn {
        let story: Int
        var handIn: PlayHandIn
        var order: (Instant, String) { (handIn.at, handIn.purchaseToken) }
    }

    private mutating func handIn() async {
        let due = handIns.prefix { $0.handIn.at <= now }
        guard !due.isEmpty else { return }
        handIns.removeFirst(due.count)
        let failed = Set(await poster.send(due.map(\.handIn)).map(\.purchaseToken))
        for item in due {
            guard failed.contains(item.handIn.purchaseToken) else {
                handedIn.insert(item.handIn.purchaseToken)
                continue
            }
            delayed.insert(item.handIn.purchaseToken)
            var later = item
            later.handIn.at = now.advanced(by: Limits.handInPause)
            handIns.append(later)
        }
        handIns.sort { $0.order < $1.order }
    }

    /// Reads again what apps hand in, in stories that go on differently after an acknowledgement.
    private mutating func followAcknowledgements() {
        let made = play.acknowledgements
        let stories = Set(
            made.dropFirst(acknowledgements).compactMap { play.storyteller.place(ofToken: $0.purchaseToken)?.story })
        acknowledgements = made.count
        plan(stories.sorted())
    }

    private mutating func plan(_ stories: some Sequence<Int>) {
        let changed = Set(stories)
        guard !changed.isEmpty else { return }
        for story in changed.sorted() {
            handIns.removeAll { $0.story == story && !delayed.contains($0.handIn.purchaseToken) }
            handIns += play.story(story).handIns.filter {
                !handedIn.contains($0.purchaseToken) && !delayed.contains($0.purchaseToken)
            }.map { HandIn(story: story, handIn: $0) }
        }
        handIns.sort { $0.order < $1.order }
    }

    /// The end of the next step: later than this one.
    private func planned(_ instants: [Instant?]) -> Instant? {
        guard let due = instants.compactMap(\.self).min() else { return nil }
        return play.storyteller.settings.window.endOfStep(
            Limits.step, due: due, after: now, rest: Limits.questionsAfterEnd)
    }
}
