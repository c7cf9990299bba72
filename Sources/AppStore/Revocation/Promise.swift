import Synchronization

/// A value that is set once and awaited by any number of tasks.
final class Promise<Value: Sendable>: Sendable {
    private enum State {
        case waiting([CheckedContinuation<Value, Never>])
        case fulfilled(Value)
    }

    private let state = Mutex(State.waiting([]))

    /// Sets the value and resumes all waiting tasks. Later calls have no effect.
    func fulfill(_ value: Value) {
        let waiting = state.withLock { state -> [CheckedContinuation<Value, Never>] in
            guard case .waiting(let continuations) = state else { return [] }
            state = .fulfilled(value)
            return continuations
        }
        for continuation in waiting { continuation.resume(returning: value) }
    }

    /// Waits for the value and ignores cancellation; see ``withTimeout(_:_:)``.
    var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let fulfilled = state.withLock { state -> Value? in
                    switch state {
                    case .fulfilled(let value): return value
                    case .waiting(let continuations):
                        state = .waiting(continuations + [continuation])
                        return nil
                    }
                }
                if let fulfilled { continuation.resume(returning: fulfilled) }
            }
        }
    }
}

/// Returns the result of the operation, or nil when the limit passes or the caller is cancelled.
///
/// Unlike a task group, it does not wait for a cancelled operation to end.
func withTimeout<Value: Sendable>(
    _ limit: Duration, _ operation: @escaping @Sendable () async -> Value
) async -> Value? {
    let outcome = Promise<Value?>()
    let work = Task { outcome.fulfill(await operation()) }
    let timer = Task {
        try? await Task.sleep(for: limit)
        outcome.fulfill(nil)
    }
    defer {
        work.cancel()
        timer.cancel()
    }
    return await withTaskCancellationHandler {
        await outcome.value
    } onCancel: {
        outcome.fulfill(nil)
    }
}
