import Encoding
import Synchronization

/// The notifications of a run, in the order of sending. Each one is generated on access.
package struct Deliveries: RandomAccessCollection, Sendable {
    let simulation: Simulation

    package var startIndex: Int { 0 }
    package var endIndex: Int { simulation.plan.entries.count }

    package subscript(position: Int) -> SimulatedDelivery { simulation.delivery(simulation.plan.entries[position]) }
}

extension Simulation {
    func delivery(_ entry: DeliveryPlan.Entry) -> SimulatedDelivery {
        let rendered = storyteller.story(at: Int(entry.index))
        return SimulatedDelivery(
            simulation: self, entry: entry, story: rendered.story,
            subscription: rendered.subscriptions[Int(entry.subscription)],
            companions: rendered.companions(of: Int(entry.subscription)),
            account: rendered.account(of: Int(entry.subscription), number: Int(entry.index)))
    }
}

/// The delivery of one notification in one format.
package struct SimulatedDelivery: Sendable {
    let simulation: Simulation
    let entry: DeliveryPlan.Entry
    package let story: Story
    let subscription: SimulatedSubscription
    /// The other subscriptions of the Apple Account.
    let companions: [SimulatedSubscription]
    package let account: SimulatedAccount.Key

    package var notification: StoreNotification { subscription.notifications[Int(entry.notification)] }
    package var signedDate: Instant { notification.signedDate }
    package var originalTransactionId: String { subscription.originalTransactionId }
    package var isVersion1: Bool { entry.isVersion1 }
    /// When a delivery without delay arrives: 1.5 s after signing.
    package var receivedAt: Instant { signedDate.advanced(byMilliseconds: 1500) }

    /// The bytes to post. Repeats of a notification have the same bytes: their signatures are kept, because ECDSA
    /// signatures differ each time.
    package func body() -> [UInt8] {
        let app = simulation.settings.app
        if entry.isVersion1 {
            return notification.version1Body(
                app: app, customer: subscription.customer, companions: companions,
                latestReceipt: simulation.seal.receipt(of: account, app: app, createdAt: signedDate)) ?? []
        }
        guard let version2 = notification.version2Notification(app: app, customer: subscription.customer) else {
            return []
        }
        guard entry.isRepeated else { return version2.body(simulation.signer) }
        return simulation.tapes.withTape(of: entry) { version2.body(simulation.signer, &$0) }
    }
}

/// The signatures of notifications that are delivered more than once, about 200 bytes each.
final class SignatureTapes: Sendable {
    private let tapes = Mutex<[DeliveryPlan.Entry: [[UInt8]]]>([:])

    /// Makes a body with the signatures of the previous call for the same entry, if there was one.
    func withTape(of entry: DeliveryPlan.Entry, _ make: (inout SignatureTape) -> [UInt8]) -> [UInt8] {
        // Locked while signing: two deliveries of one notification may be made concurrently.
        tapes.withLock { tapes in
            var tape = SignatureTape(tapes[entry] ?? [])
            let body = make(&tape)
            tapes[entry] = tape.signatures
            return body
        }
    }
}
