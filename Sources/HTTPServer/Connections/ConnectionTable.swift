import EventLog
import NIOCore
import Synchronization

/// The connections of a listener, bounded in total and for each peer address.
///
/// When nearly all places are in use, or an address exceeds its share, each new connection displaces the one that has
/// kept the server waiting longest: an idle one, one that is slow to send its request or to read its response, or one
/// that sends more requests before it has the response to the first. A connection that has sent one complete request
/// and waits for its response is never displaced, so a genuine sender is delayed only by its own bytes. A new connection
/// has a moment to send its request; one that is displaced before it has received a response receives 503. The
/// ``AcceptGate`` bounds the connections that are open.
package final class ConnectionTable: Sendable {
    /// Why the server closed a connection. The raw values are values of a metric's label.
    enum CloseReason: String, CaseIterable {
        /// Another connection needed the place.
        case room
        /// Another connection from the same address needed the place.
        case address
        /// No request, or no end of a request, arrived in time.
        case idle
        /// The peer did not read its response.
        case answerUnread = "answer_unread"
    }

    private struct State {
        var open: [ObjectIdentifier: Connection] = [:]
        var senders: [PeerAddress: Connection.Sender] = [:]
    }

    let gate: AcceptGate
    private let perAddress: Int
    /// Beyond this many connections, new ones displace others. The remaining places are for connections that wait for
    /// their response or are being closed.
    private let displacingFrom: Int
    private let state = Mutex(State())
    private let openCount = Atomic(0)
    private let closed: CounterTable
    private let listener: String

    /// - Parameters:
    ///   - perAddress: The number of connections from one address beyond which its own are displaced.
    ///   - listener: The listener's name in metrics.
    package init(limit: Int, perAddress: Int, listener: String) {
        gate = AcceptGate(limit: limit)
        self.perAddress = perAddress
        self.listener = listener
        displacingFrom = limit - max(1, limit / Limits.reservedPlacesDivisor)
        closed = CounterTable(
            "subledger_connections_closed_total",
            [MetricLabel("listener", [listener]), MetricLabel("reason", CloseReason.allCases)])
    }

    /// Adds a connection, and displaces another one if necessary. Called on the connection's event loop.
    func open(_ channel: any Channel) -> Connection {
        let address = PeerAddress(channel.remoteAddress)
        var isLate = false
        let (connection, displaced, reason) = state.withLock { state in
            let sender = state.senders[address] ?? Connection.Sender(address: address)
            state.senders[address] = sender
            let connection = Connection(channel: channel, sender: sender, table: self)
            state.open[ObjectIdentifier(connection)] = connection
            sender.open.add(1, ordering: .relaxed)
            openCount.add(1, ordering: .relaxed)
            var displaced: Connection?
            var reason = CloseReason.address
            if sender.open.load(ordering: .relaxed) > perAddress {
                displaced = Self.longestWaiting(state) { $0 !== connection && $0.sender === sender }
            } else if state.open.count > displacingFrom {
                reason = .room
                displaced = Self.longestWaitingForRoom(state)
                isLate = displaced == nil
            }
            if let displaced { Self.remove(displaced, from: &state, openCount) }
            return (connection, displaced, reason)
        }
        if let displaced { displace(displaced, reason) }
        if isLate { makeRoomLater(channel.eventLoop) }
        return connection
    }

    /// Displaces a connection as soon as one has had its moment, if places are still scarce. Until then, only new connections
    /// could make room, and the newest one uses a reserved place.
    private func makeRoomLater(_ eventLoop: any EventLoop) {
        eventLoop.scheduleTask(in: Limits.newcomerWaitMin) {
            let (displaced, isScarce) = self.state.withLock { state -> (Connection?, Bool) in
                guard state.open.count > self.displacingFrom else { return (nil, false) }
                let displaced = Self.longestWaitingForRoom(state)
                if let displaced { Self.remove(displaced, from: &state, self.openCount) }
                return (displaced, true)
            }
            if let displaced {
                self.displace(displaced, .room)
            } else if isScarce {
                self.makeRoomLater(eventLoop)
            }
        }
    }

    private func displace(_ connection: Connection, _ reason: CloseReason) {
        count(reason)
        connection.channel.triggerUserOutboundEvent(ConnectionHandler.Displaced(), promise: nil)
    }

    private static func longestWaitingForRoom(_ state: State) -> Connection? {
        let newcomersSince = (NIODeadline.now() - Limits.newcomerWaitMin).uptimeNanoseconds
        return longestWaiting(state) { $0.hasBeenAnswered || $0.waitingSince ?? .max <= newcomersSince }
    }

    /// Examines every connection. This happens only while places are scarce, and takes microseconds.
    private static func longestWaiting(
        _ state: State, where isCandidate: (Connection) -> Bool
    ) -> Connection? {
        var longest: (connection: Connection, since: UInt64)?
        for connection in state.open.values where isCandidate(connection) {
            guard let since = connection.waitingSince, since < longest?.since ?? .max else { continue }
            longest = (connection, since)
        }
        return longest?.connection
    }

    /// Safe to repeat: a displaced connection is removed before it has closed.
    func remove(_ connection: Connection) {
        state.withLock { Self.remove(connection, from: &$0, openCount) }
    }

    private static func remove(_ connection: Connection, from state: inout State, _ openCount: borrowing Atomic<Int>) {
        guard state.open.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
        openCount.subtract(1, ordering: .relaxed)
        let sender = connection.sender
        if sender.open.subtract(1, ordering: .relaxed).newValue == 0 { state.senders[sender.address] = nil }
    }

    func isPlaceNeeded(by sender: Connection.Sender) -> Bool {
        openCount.load(ordering: .relaxed) > displacingFrom || sender.open.load(ordering: .relaxed) > perAddress
    }

    func count(_ reason: CloseReason) { closed.increment([listener, reason.rawValue]) }
}
