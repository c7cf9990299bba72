import Simulation
import Synchronization

/// The notification URLs of a server that is not up yet when its stores are made.
final class LateTarget: Sendable {
    private let targets = Mutex<(posts: NotificationTarget, pushes: NotificationTarget)?>(nil)

    func set(_ target: NotificationTarget, pushes: NotificationTarget) { targets.withLock { $0 = (target, pushes) } }

    func post(_ body: [UInt8]) async -> SendAttempt.Result {
        guard let target = targets.withLock({ $0?.posts }) else { return .noResponse }
        return await target.post(body)
    }

    /// Posts a push of Google Play. Returns the HTTP status; nil if there was no answer.
    func push(_ request: PlaySending.Request) async -> Int? {
        guard let target = targets.withLock({ $0?.pushes }) else { return nil }
        return await target.push(request)
    }
}
