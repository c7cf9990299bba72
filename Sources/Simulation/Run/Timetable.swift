import Encoding

/// Everything that a run sends, each at its simulated time: the deliveries of notifications, a backend's link statements,
/// and the receipts that apps hand in.
///
/// Notifications of a shuffled run arrive late, each by a time of its own, and repeats later than their originals.
package struct Timetable: Sendable {
    package enum Item: Sendable {
        case notification(SimulatedDelivery)
        case statement(SimulatedStatement)
        case handIn(SimulatedHandIn)
    }

    private enum Key: Sendable {
        /// The position of a notification or statement among the run's steps.
        case step(Int)
        /// The position among the run's hand-ins.
        case handIn(Int)
    }

    private let steps: Steps
    private let handIns: [SimulatedHandIn]
    /// In the order of time. Statements of one story keep their order.
    private let entries: [(at: Instant, key: Key)]

    /// Apple retries production notifications for three days in version 1 and six in version 2.
    private static let delayMillisecondsMax = 3 * 86_400_000.0

    init(_ simulation: Simulation) {
        steps = simulation.steps
        handIns = simulation.handIns
        var random = SplitMix64(seed: simulation.settings.seed, .max - 3)
        let isDelayed = simulation.settings.order != .inOrder
        var arrived: [DeliveryPlan.Entry: Instant] = [:]
        var entries: [(at: Instant, key: Key)] = []
        for position in steps.indices {
            let (before, statement) = simulation.statementPlan.lookUp(position)
            if let statement {
                let sent = simulation.storyteller.story(at: Int(statement.index)).statements[Int(statement.number)]
                entries.append((sent.sentAt, .step(position)))
                continue
            }
            let entry = simulation.plan.entries[position - before]
            let original = arrived[entry]
            let earliest = original ?? Instant.earliest.advanced(byMilliseconds: entry.signedMilliseconds + 1500)
            let isLate = isDelayed || original != nil
            let delay = isLate ? Int64(random.fraction() * Self.delayMillisecondsMax) : 0
            let at = earliest.advanced(byMilliseconds: delay)
            if entry.isRepeated { arrived[entry] = at }
            entries.append((at, .step(position)))
        }
        for (number, handIn) in handIns.enumerated() { entries.append((handIn.at, .handIn(number))) }
        self.entries = entries.enumerated()
            .sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    }

    package var count: Int { entries.count }

    /// The number of items before or at an instant.
    package func count(through instant: Instant) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].at <= instant { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// When the item at the position is sent; nil after the last one.
    package func instant(at position: Int) -> Instant? {
        entries.indices.contains(position) ? entries[position].at : nil
    }

    package subscript(position: Int) -> Item {
        switch entries[position].key {
        case .handIn(let number): return .handIn(handIns[number])
        case .step(let number):
            switch steps[number] {
            case .notification(let delivery): return .notification(delivery)
            case .statement(let statement): return .statement(statement)
            }
        }
    }
}

extension Simulation {
    /// What the run sends, in the order of the simulated time.
    package var timetable: Timetable { Timetable(self) }
}
