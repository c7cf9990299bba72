import SimulatedStore
import Synchronization

/// The notification URL of a server that is not up yet when its store is made.
final class LateTarget: Sendable {
    private let target = Mutex<NotificationTarget?>(nil)

    func set(_ target: NotificationTarget) { self.target.withLock { $0 = target } }

    func post(_ body: [UInt8]) async -> SendAttempt.Result {
        guard let target = target.withLock({ $0 }) else { return .noResponse }
        return await target.post(body)
    }
}
