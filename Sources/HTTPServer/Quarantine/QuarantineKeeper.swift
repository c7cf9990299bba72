import AppStore
import Encoding
import EventLog
import Synchronization

/// Stores signed notifications of apps that are not configured.
///
/// A repetition of one that is stored costs no query, and few wait for the database: anyone with an account of a developer
/// has such a notification, and could repeat it.
package final class QuarantineKeeper: Sendable {
    private let quarantine: Quarantine
    private let metrics = QuarantineMetrics()
    private let state = Mutex(State())

    private struct State {
        /// When each of the last notifications was stored, by its digest.
        var stored: [[UInt8]: Instant] = [:]
        /// The same digests, oldest first.
        var order: [[UInt8]] = []
        var waiting = 0

        mutating func remember(_ digest: [UInt8], at now: Instant) {
            if stored.updateValue(now, forKey: digest) == nil { order.append(digest) }
            guard order.count > Limits.quarantineDigestsMax else { return }
            // Half of them, since removing the first element moves all others.
            for old in order.prefix(order.count / 2) { stored[old] = nil }
            order.removeFirst(order.count / 2)
        }

        mutating func forget() {
            stored = [:]
            order = []
        }
    }

    enum Outcome: String, CaseIterable {
        case kept
        /// It was kept before: Apple repeats it.
        case known
        /// The database did not confirm that it is stored.
        case failed
        /// Too many wait for the database. It was not stored.
        case busy
    }

    /// What became of a notification. An error, because its sender receives a refusal in each case.
    struct Refusal: Error {
        let outcome: Outcome
        /// How many older ones were deleted to make room.
        let dropped: Int64
    }

    package init(_ quarantine: Quarantine) {
        self.quarantine = quarantine
    }

    /// Stores a notification. It is refused in any case: the sender must repeat it until its app is configured.
    ///
    /// - Parameter receivedAt: Our clock.
    func keep(_ notification: UnconfiguredNotification, receivedAt: Instant) async -> Refusal {
        let early = state.withLock { state -> Outcome? in
            if let storedAt = state.stored[notification.bodyDigest],
                storedAt.duration(to: receivedAt) < Limits.quarantineDigestAgeMax
            {
                return .known
            }
            guard state.waiting < Limits.quarantineWaitingMax else { return .busy }
            state.waiting += 1
            return nil
        }
        if let early { return refusal(early, dropped: 0) }
        defer { state.withLock { $0.waiting -= 1 } }
        do throws(ReadError) {
            let (isNew, dropped) = try await quarantine.keep(notification, receivedAt: receivedAt)
            state.withLock { state in
                // It is not known which ones: Apple's next attempt stores them again.
                if dropped.count > 0 { state.forget() }
                state.remember(notification.bodyDigest, at: receivedAt)
            }
            metrics.note(dropped)
            return refusal(isNew ? .kept : .known, dropped: dropped.count)
        } catch {
            return refusal(.failed, dropped: 0)
        }
    }

    private func refusal(_ outcome: Outcome, dropped: Int64) -> Refusal {
        metrics.note(outcome)
        return Refusal(outcome: outcome, dropped: dropped)
    }
}
