import AppStore
import Synchronization

/// The ``CircuitBreaker`` of one host, shared by all questions.
final class HostBreaker: Sendable {
    private let breaker = Mutex(CircuitBreaker())
    private let onChange: @Sendable (BreakerState) -> Void

    /// - Parameter onChange: Called in order with each new state. Must not call the breaker.
    init(onChange: @escaping @Sendable (BreakerState) -> Void) {
        self.onChange = onChange
    }

    var state: BreakerState { breaker.withLock { $0.state } }

    func rejection(at now: ContinuousClock.Instant) -> Duration? {
        breaker.withLock { $0.rejection(at: now) }
    }

    func begin(at now: ContinuousClock.Instant) -> CircuitBreaker.Verdict {
        change { $0.begin(at: now) }
    }

    func end(_ permit: CircuitBreaker.Permit, _ result: CircuitBreaker.Result, at now: ContinuousClock.Instant) {
        change { $0.end(permit, result, at: now) }
    }

    private func change<Value: Sendable>(_ body: (inout CircuitBreaker) -> Value) -> Value {
        breaker.withLock { breaker in
            let before = breaker.state
            let value = body(&breaker)
            if breaker.state != before { onChange(breaker.state) }
            return value
        }
    }
}
