import AppStore
import Encoding
import EventLog

/// Stores signed notifications of apps that are not configured.
package struct QuarantineKeeper: Sendable {
    private let quarantine: Quarantine
    private let metrics = QuarantineMetrics()

    enum Outcome: String, CaseIterable {
        case kept
        /// It was kept before: Apple repeats it.
        case known
        /// The database did not confirm that it is stored.
        case failed
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
        do throws(ReadError) {
            let (isNew, dropped) = try await quarantine.keep(notification, receivedAt: receivedAt)
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
