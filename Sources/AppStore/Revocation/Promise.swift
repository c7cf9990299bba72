import Synchronization

/// A value that is set once and awaited by any number of tasks.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Value, Never>])
        case kept(Value)
    }

    private let state = Mutex(State.waiting([]))

    /// Sets the value and resumes all waiting tasks. Later calls have no effect.
    func keep(_ value: Value) {
        let waiting = state.withLock { state -> [CheckedContinuation<Value, Never>] in
            guard case .waiting(let continuations) = state else { return [] }
            state = .kept(value)
            return continuations
        }
        for continuation in waiting { continuation.resume(returning: value) }
    }

    /// Waits for the value and ignores cancellation; see ``within(_:_:)``.
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

/// Returns the result of the operation, or nil when the limit passes or the caller is cancelled.
///
/// Unlike a task group, it does not wait for a cancelled operation to end.
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
