import Encoding

/// The notifications of version 2 that the store of a run makes, ordered by signing time. Those that a run of the
/// simulator loses are among them. Each one is generated on access.
package struct MadeNotifications: RandomAccessCollection, Sendable {
    private let simulation: Simulation
    private let entries: [DeliveryPlan.Entry]
    /// By the number of the story, ascending.
    private let positions: [UInt32: [Int]]

    package var startIndex: Int { 0 }
    package var endIndex: Int { entries.count }

    /// Renders every story once.
    package init(_ simulation: Simulation) {
        self.simulation = simulation
        var entries: [DeliveryPlan.Entry] = []
        for index in 0..<UInt32(simulation.settings.subscriptions) {
            let rendered = simulation.storyteller.story(at: Int(index))
            for (subscription, content) in rendered.subscriptions.enumerated() {
                let key = DeliveryPlan.SubscriptionKey(index: index, subscription: UInt8(subscription))
                entries += DeliveryPlan.entries(content, key, rendered.story, .v2)
            }
        }
        // Posted, and read again from the history.
        for index in entries.indices { entries[index].isRepeated = true }
        let sorted = entries.sorted(by: DeliveryPlan.precedes)
        self.entries = sorted
        positions = Dictionary(grouping: sorted.indices) { sorted[$0].index }
    }

    package subscript(position: Int) -> SimulatedDelivery { simulation.delivery(entries[position]) }

    package func signedDate(at position: Int) -> Instant {
        Instant.earliest.advanced(byMilliseconds: entries[position].signedMilliseconds)
    }

    /// The positions of the notifications about a story, ascending.
    package func positions(ofStory number: Int) -> [Int] { positions[UInt32(number)] ?? [] }

    /// The position of the first notification that was signed at the instant or later.
    package func firstIndex(notBefore instant: Instant) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].signedMilliseconds < instant.milliseconds { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension SimulatedDelivery {
    /// The signed payload as in the body, without the JSON object around it.
    ///
    /// - Parameter isSignedAnew: Makes other signatures than those of the body.
    package func signedPayload(isSignedAnew: Bool = false) -> [UInt8] {
        guard isSignedAnew else { return V2Notification.signedPayload(in: body()) }
        let version2 = notification.version2Notification(
            app: simulation.settings.app, customer: subscription.customer)
        return version2.map { V2Notification.signedPayload(in: $0.body(simulation.signer)) } ?? []
    }
}
