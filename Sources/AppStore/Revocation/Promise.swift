import Synchronization

/// A value that comes later, for any number of tasks that wait for it.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Value, Never>])
        case kept(Value)
    }

    private let state = Mutex(State.waiting([]))

    /// Hands the value to all who wait and will wait. The first call counts.
    func keep(_ value: Value) {
        let waiting = state.withLock { state -> [CheckedContinuation<Value, Never>] in
            guard case .waiting(let continuations) = state else { return [] }
            state = .kept(value)
            return continuations
        }
        for continuation in waiting { continuation.resume(returning: value) }
    }

    /// Not cut short by cancellation: see ``within(_:_:)``.
    var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let kept = state.withLock { state -> Value? in
                    switch state {
                    case .kept(let value): return value
                    case .waiting(let continuations):
                        state = .waiting(continuations + [continuation])
                        return nil
                    }
                }
                if let kept { continuation.resume(returning: kept) }
            }
        }
    }
}

/// Returns the outcome of the operation, or nil once the time is over or the caller is cancelled.
///
/// Does not wait for the operation to obey its cancellation, as a task group would.
func within<Value: Sendable>(
    _ limit: Duration, _ operation: @escaping @Sendable () async -> Value
) async -> Value? {
    let outcome = Promise<Value?>()
    let work = Task { outcome.keep(await operation()) }
    let timer = Task {
        try? await Task.sleep(for: limit)
        outcome.keep(nil)
    }
    defer {
        work.cancel()
        timer.cancel()
    }
    return await withTaskCancellationHandler {
        await outcome.value
    } onCancel: {
        outcome.keep(nil)
    }
}
