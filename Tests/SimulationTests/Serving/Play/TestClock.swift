import Synchronization

/// A clock that a test sets, in seconds since 1970.
final class TestClock: Sendable {
    private let state: Mutex<Int64>

    init(_ second: Int64) {
        state = Mutex(second)
    }

    var second: Int64 {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
