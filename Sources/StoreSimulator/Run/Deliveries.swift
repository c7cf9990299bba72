import Subscriptions
import Synchronization

/// The notifications of a run, in the order of sending. Each is told when it is asked for.
package struct Deliveries: RandomAccessCollection, Sendable {
    let simulation: Simulation

    package var startIndex: Int { 0 }
    package var endIndex: Int { simulation.plan.entries.count }

    package subscript(position: Int) -> SimulatedDelivery {
        let entry = simulation.plan.entries[position]
        let told = simulation.storyteller.story(at: Int(entry.index))
        return SimulatedDelivery(
            simulation: simulation, entry: entry, story: told.story, line: told.lines[Int(entry.line)],
            companions: told.companions(of: Int(entry.line)))
    }
}

/// One notification on its way, in one format.
package struct SimulatedDelivery: Sendable {
    let simulation: Simulation
    let entry: DeliveryPlan.Entry
    package let story: Story
    let line: ToldLine
    /// The other lines of the Apple Account.
    let companions: [ToldLine]

    package var telling: Telling { line.tellings[Int(entry.telling)] }
    package var signedDate: Instant { telling.signedDate }
    package var originalTransactionId: String { line.originalTransactionId }
    package var isVersion1: Bool { entry.isVersion1 }
    /// When it would arrive if nothing were late: a little after its signing.
    package var receivedAt: Instant { signedDate.advanced(byMilliseconds: 1500) }

    /// The bytes to post. The same bytes each time for what is delivered more than once: its signatures are kept,
    /// since a new one would differ.
    package func body() -> [UInt8] {
        let app = simulation.settings.app
        if entry.isVersion1 {
            return telling.version1Body(app: app, customer: line.customer, companions: companions) ?? []
        }
        guard let notification = telling.version2Notification(app: app, customer: line.customer) else { return [] }
        guard entry.isRepeated else { return notification.body(simulation.signer) }
        return simulation.tapes.withTape(of: entry) { notification.body(simulation.signer, &$0) }
    }
}

/// The signatures of what is delivered more than once, some 200 bytes for each.
final class SignatureTapes: Sendable {
    private let tapes = Mutex<[DeliveryPlan.Entry: [[UInt8]]]>([:])

    /// Makes a body with the signatures of its first making, if there was one.
    func withTape(of entry: DeliveryPlan.Entry, _ make: (inout SignatureTape) -> [UInt8]) -> [UInt8] {
        // Locked while signing: two deliveries of one notification may be made at once.
        tapes.withLock { tapes in
            var tape = SignatureTape(tapes[entry] ?? [])
            let body = make(&tape)
            tapes[entry] = tape.signatures
            return body
        }
    }
}
