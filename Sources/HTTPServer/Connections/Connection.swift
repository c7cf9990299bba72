import NIOCore
import Synchronization

/// An open connection's place in the ``ConnectionTable``.
///
/// Its handler updates the state on its event loop; the table reads it from any thread. The state is one atomic number,
/// so that a request takes no lock.
final class Connection: Sendable {
    /// A sender, with the number of its connections.
    final class Sender: Sendable {
        let address: PeerAddress
        let open = Atomic(0)

        init(address: PeerAddress) {
            self.address = address
        }
    }

    let channel: any Channel
    let sender: Sender
    private let table: ConnectionTable
    private let state: Atomic<UInt64>
    private let wasAnswered = Atomic(false)

    private static let isAnswering = UInt64.max

    init(channel: any Channel, sender: Sender, table: ConnectionTable) {
        self.channel = channel
        self.sender = sender
        self.table = table
        state = Atomic(NIODeadline.now().uptimeNanoseconds)
    }

    /// The time at which the peer began to keep the server waiting, in nanoseconds of ``NIODeadline``: it has not sent
    /// a request or the rest of one, has not read its response, or sends further requests before it has the response to
    /// the first. Nil while the peer waits for one response: such a connection is never closed to make room.
    var waitingSince: UInt64? {
        let since = state.load(ordering: .relaxed)
        return since == Self.isAnswering ? nil : since
    }

    /// Whether the peer has received a response on this connection.
    var hasBeenAnswered: Bool { wasAnswered.load(ordering: .relaxed) }

    func noteAnswer() {
        if !hasBeenAnswered { wasAnswered.store(true, ordering: .relaxed) }
    }

    func peerKeepsUsWaiting(since start: NIODeadline) {
        state.store(start.uptimeNanoseconds, ordering: .relaxed)
    }

    func peerWaitsForAnswer() {
        state.store(Self.isAnswering, ordering: .relaxed)
    }

    /// Whether the connection must be closed after its next response, because another connection needs its place.
    var isPlaceNeeded: Bool { table.isPlaceNeeded(by: sender) }

    func noteClose(_ reason: ConnectionTable.CloseReason) { table.count(reason) }

    func hasStarted() { table.gate.hasStarted() }

    func hasEnded() { table.gate.hasEnded() }

    func hasClosed() { table.remove(self) }
}
