import AppStore
import Synchronization

/// A ``HostBreaker`` for each app and host: what one app is refused for a while stops no other one.
final class AppBreakers<Host: Hashable & Sendable>: Sendable {
    private struct Key: Sendable, Hashable {
        let app: String
        let host: Host
    }

    private let breakers = Mutex<[Key: HostBreaker]>([:])
    private let states = Mutex<[Key: BreakerState]>([:])
    private let onChange: @Sendable (_ app: String, Host, BreakerState, _ worst: BreakerState) -> Void

    /// - Parameter onChange: Called with each new state of an app's breaker, and with the worst state of any app's breaker
    ///   of the host. Must not call a breaker.
    init(onChange: @escaping @Sendable (_ app: String, Host, BreakerState, _ worst: BreakerState) -> Void) {
        self.onChange = onChange
    }

    /// - Parameter app: The bundle id or package name.
    func breaker(of app: String, _ host: Host) -> HostBreaker {
        let key = Key(app: app, host: host)
        return breakers.withLock { breakers in
            if let known = breakers[key] { return known }
            let breaker = HostBreaker { [weak self] state in self?.note(state, of: key) }
            breakers[key] = breaker
            return breaker
        }
    }

    /// The worst state of any app's breaker of the host.
    func worst(of host: Host) -> BreakerState {
        states.withLock { Self.worst(of: host, in: $0) }
    }

    private func note(_ state: BreakerState, of key: Key) {
        let worst = states.withLock { states in
            states[key] = state
            return Self.worst(of: key.host, in: states)
        }
        onChange(key.app, key.host, state, worst)
    }

    private static func worst(of host: Host, in states: [Key: BreakerState]) -> BreakerState {
        states.filter { $0.key.host == host }.values.max { $0.rawValue < $1.rawValue } ?? .closed
    }
}
