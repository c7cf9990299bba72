import HummingbirdCore
import NIOCore
import Synchronization

/// Accepts connections no faster than they can be read.
///
/// An event loop runs all tasks that it was given before it reads from a socket. Without a bound, the loop that accepts
/// could give another one new connections without a pause, and the requests of the earlier ones would not be read.
/// Connections that are not accepted wait in the kernel's queue and use no memory of this process.
final class AcceptGate: AvailableConnectionsDelegate {
    private struct State {
        /// Connections that are accepted and not closed.
        var accepted = 0
        /// Those of them that are read. A connection that closes leaves this number first.
        var started = 0
        var isPaused = false
        var listener: (any Channel)?

        var areAllStarted: Bool { accepted <= started }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: The number of connections beyond which none are accepted.
    init(limit: Int) {
        self.limit = limit
    }

    /// The channel that accepts. The connections before this call are not delayed by it.
    func setListener(_ channel: any Channel) {
        state.withLock { $0.listener = channel }
        channel.read()
    }

    /// A connection is read from now on.
    func hasStarted() {
        let paused = state.withLock { state in
            state.started += 1
            return state.isPaused && state.areAllStarted ? state.listener : nil
        }
        paused?.read()
    }

    /// A connection that was read is closed.
    func hasEnded() {
        state.withLock { $0.started -= 1 }
    }

    // MARK: Called by the channel that accepts

    func connectionOpened() { state.withLock { $0.accepted += 1 } }

    func connectionClosed() { state.withLock { $0.accepted -= 1 } }

    func isAcceptingNewConnections() -> Bool {
        state.withLock { state in
            guard state.accepted < limit else { return false }
            let starting = state.accepted - state.started
            state.isPaused = state.isPaused ? starting > 0 : starting >= Limits.startingConnectionsMax
            return !state.isPaused
        }
    }
}
