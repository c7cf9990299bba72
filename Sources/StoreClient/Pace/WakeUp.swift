import Synchronization

/// Wakes one task that waits for something to do. What wakes it before it waits is not lost.
package final class WakeUp: Sendable {
    private struct State {
        var isWoken = false
        var continuation: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    package init() {}

    package func wake() {
        let continuation = state.withLock { state in
            let waiting = state.continuation
            state.continuation = nil
            if waiting == nil { state.isWoken = true }
            return waiting
        }
        continuation?.resume()
    }

    /// Waits until the next call of ``wake()``, or returns at once if there was one since.
    package func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWoken = state.withLock { state in
                    if state.isWoken || Task.isCancelled {
                        state.isWoken = false
                        return true
                    }
                    state.continuation = continuation
                    return false
                }
                if isWoken { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }
}
