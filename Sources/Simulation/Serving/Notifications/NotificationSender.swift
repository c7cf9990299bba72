import Encoding
import Subscriptions
import Synchronization

/// Sends the notifications that are due on the store's clock, and tries again on Apple's plan.
final class NotificationSender: Sendable {
    /// An attempt that is to be made.
    private struct Due: DueItem {
        let at: Instant
        /// See ``NotificationJournal/Place``.
        let serial: Int
        /// The number of earlier attempts.
        let number: Int

        static func precedes(_ left: Due, _ right: Due) -> Bool { (left.at, left.serial) < (right.at, right.serial) }
    }

    private struct State {
        var nextMade = 0
        var nextExtra = NotificationJournal.Place.extras
        var later = DueQueue<Due>()
    }

    private let journal: NotificationJournal
    private let sending: NotificationSending
    private let seed: UInt64
    /// The waits before the attempts after the first one.
    private let retries: [Int64]
    private let courier: Courier
    private let state = Mutex(State())

    private static let hourMilliseconds: Int64 = 3_600_000
    /// The first attempt comes this long after signing.
    private static let lagMilliseconds: Int64 = 1500
    private static let failures = SendAttempt.Result.allCases.filter { $0 != .success }

    init(
        _ journal: NotificationJournal, _ sending: NotificationSending, seed: UInt64,
        environment: Subscriptions.Environment
    ) {
        self.journal = journal
        self.sending = sending
        self.seed = seed
        courier = Courier(connections: sending.connections)
        // Hours of version 2, each counted from the attempt before. The sandbox tries once.
        retries = environment == .production ? [1, 12, 24, 48, 72].map { $0 * Self.hourMilliseconds } : []
    }

    /// Makes all attempts that are due until the instant, those that become due by failures included. Calls run one after
    /// the other, so that attempts of earlier calls have ended when this returns.
    func sendDue(at now: Instant) async {
        await courier.afterEarlierCalls { await self.sendAll(until: now) }
    }

    private func sendAll(until now: Instant) async {
        var round: UInt64 = 0
        while true {
            var due = takeDue(at: now)
            guard !due.isEmpty else { return }
            if sending.isShuffled {
                var random = SplitMix64(seed: seed, UInt64(now.milliseconds), round, .max - 9)
                due.shuffle(using: &random)
            }
            round += 1
            _ = await courier.deliver(due) { await self.send($0) }
        }
    }

    /// Removes what is due from the plan, in the order of time.
    private func takeDue(at now: Instant) -> [Due] {
        let made = journal.made
        return state.withLock { state in
            var due: [Due] = []
            while let attempt = state.later.takeFirst(dueBy: now) { due.append(attempt) }
            while state.nextMade < made.endIndex {
                let first = made.signedDate(at: state.nextMade).advanced(byMilliseconds: Self.lagMilliseconds)
                guard first <= now else { break }
                due.append(Due(at: first, serial: state.nextMade, number: 0))
                state.nextMade += 1
            }
            // These may be made for a later time, in any order.
            for (serial, extra) in journal.extras(from: state.nextExtra) {
                let first = extra.signedDate
                let attempt = Due(at: first, serial: serial, number: 0)
                if first <= now { due.append(attempt) } else { state.later.insert(attempt) }
                state.nextExtra = serial + 1
            }
            return due.sorted(by: Due.precedes)
        }
    }

    private func send(_ due: Due) async {
        let result: SendAttempt.Result
        if let failure = plannedFailure(due) {
            result = failure
        } else {
            let payload = journal.item(due.serial).signedPayload()
            result = await sending.post(V2Notification.body(signedPayload: payload))
        }
        journal.record(SendAttempt(at: due.at, result: result), of: due.serial)
        guard result != .success, due.number < retries.count else { return }
        let next = Due(
            at: due.at.advanced(byMilliseconds: retries[due.number]), serial: due.serial, number: due.number + 1)
        state.withLock { $0.later.insert(next) }
    }

    /// The result of an attempt that the run loses; nil for one that is posted. Tests and other notifications that no
    /// story has are never lost.
    private func plannedFailure(_ due: Due) -> SendAttempt.Result? {
        guard due.serial < NotificationJournal.Place.extras else { return nil }
        var fate = SplitMix64(seed: seed, UInt64(due.serial), .max - 10)
        let drawn = fate.fraction()
        let isLost = drawn < sending.lose
        let isDelayed = !isLost && drawn < sending.lose + sending.delay
        guard isLost || isDelayed && due.number < Int.random(in: 1...3, using: &fate) else { return nil }
        var random = SplitMix64(seed: seed, UInt64(due.serial), UInt64(due.number), .max - 11)
        return Self.failures.randomElement(using: &random)
    }
}
