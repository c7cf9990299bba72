/// Sends the items of a timetable to a server, as far as the simulated time has come.
package final class TimetablePoster: Sendable {
    private let timetable: Timetable
    private let session: PostingSession
    private let connections: Int
    private let postsNotifications: Bool

    /// - Parameters:
    ///   - url: Where notifications are posted.
    ///   - target: The private listener, for link statements and receipts.
    ///   - postsNotifications: False if the store posts them.
    package init(
        _ timetable: Timetable, url: String, target: LinkTarget, postsNotifications: Bool = true, connections: Int
    ) {
        self.timetable = timetable
        self.postsNotifications = postsNotifications
        session = PostingSession(url: url, links: target, connections: connections)
        self.connections = connections
    }

    package var outcome: PostingOutcome { session.outcome }

    /// False after a request failed without an answer while no other request had been answered.
    package var isAnswered: Bool { session.isAnswered }

    /// Closes the connections. Call it once, when no request is in flight.
    package func end() async { await session.end() }

    /// Sends the items at the positions: notifications and receipts concurrently, link statements one after the other,
    /// since servers order them by arrival. Returns when all are answered.
    package func send(_ positions: Range<Int>) async {
        await send(positions, postsNotifications: postsNotifications)
    }

    /// Sends the receipts and link statements at the positions once more, as a backend does that keeps them.
    package func sendAgain(_ positions: Range<Int>) async {
        await send(positions, postsNotifications: false)
    }

    private func send(_ positions: Range<Int>, postsNotifications: Bool) async {
        let next = SharedCounter()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for position in positions {
                    if case .statement(let statement) = self.timetable[position] { await self.session.send(statement) }
                }
            }
            for _ in 0..<min(connections, positions.count) {
                group.addTask {
                    while self.session.isAnswered {
                        let position = positions.lowerBound + next.add()
                        guard position < positions.upperBound else { return }
                        switch self.timetable[position] {
                        case .notification(let delivery):
                            if postsNotifications { await self.session.send(delivery) }
                        case .handIn(let handIn): await self.session.send(handIn)
                        case .statement: break
                        }
                    }
                }
            }
        }
    }
}
