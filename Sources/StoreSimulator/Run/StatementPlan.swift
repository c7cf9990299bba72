/// When each link statement is made: between the notifications, and those about one customer in their order.
struct StatementPlan: Sendable {
    struct Entry: Sendable, Hashable {
        /// Of the story.
        let index: UInt32
        /// Of the statement in the story.
        let number: UInt8
        /// In the order of sending, notifications included.
        var position = 0
        /// Where the statement stands that must have been taken before; nil for the first about a customer.
        var predecessor: Int?
    }

    /// By position.
    private(set) var entries: [Entry] = []

    /// A statement to be placed behind so many notifications.
    private struct Draft {
        var entry: Entry
        let customerId: String
        let statedMilliseconds: Int64
        var place = 0
    }

    init(_ settings: Simulation.Settings, _ storyteller: Storyteller, _ notifications: [DeliveryPlan.Entry]) {
        var random = SplitMix64(seed: settings.seed, .max - 1)
        var drafts: [Draft] = []
        for index in 0..<UInt32(settings.subscriptions) {
            for (number, statement) in storyteller.story(at: Int(index)).statements.enumerated() {
                let draft = Draft(
                    entry: Entry(index: index, number: UInt8(number)), customerId: statement.customerId,
                    statedMilliseconds: statement.statedAt.milliseconds)
                drafts.append(draft)
                // A backend that states the same once more changes nothing.
                if random.fraction() < settings.duplicate { drafts.append(draft) }
            }
        }
        switch settings.order {
        case .inOrder: Self.placeByTime(&drafts, notifications)
        // Statements are facts of the backend, ordered by their arrival: only notifications come in any order.
        case .shuffled, .reversed: Self.placeAnywhere(&drafts, notifications.count, &random)
        }
        entries = Self.positioned(drafts)
    }

    private static func placeByTime(_ drafts: inout [Draft], _ notifications: [DeliveryPlan.Entry]) {
        drafts = drafts.enumerated()
            .sorted { ($0.element.statedMilliseconds, $0.offset) < ($1.element.statedMilliseconds, $1.offset) }
            .map(\.element)
        var place = 0
        for number in drafts.indices {
            while place < notifications.count,
                notifications[place].signedMilliseconds <= drafts[number].statedMilliseconds
            {
                place += 1
            }
            drafts[number].place = place
        }
    }

    private static func placeAnywhere(_ drafts: inout [Draft], _ count: Int, _ random: inout SplitMix64) {
        var start = 0
        while start < drafts.count {
            let story = drafts[start].entry.index
            let end = drafts[start...].firstIndex { $0.entry.index != story } ?? drafts.count
            for customerId in Set(drafts[start..<end].map(\.customerId)).sorted() {
                let own = (start..<end).filter { drafts[$0].customerId == customerId }
                let places = own.map { _ in Int.random(in: 0...count, using: &random) }.sorted()
                for (number, place) in zip(own, places) { drafts[number].place = place }
            }
            start = end
        }
        drafts = drafts.enumerated().sorted { ($0.element.place, $0.offset) < ($1.element.place, $1.offset) }
            .map(\.element)
    }

    private static func positioned(_ drafts: [Draft]) -> [Entry] {
        var last: [String: Int] = [:]
        return drafts.enumerated().map { number, draft in
            var entry = draft.entry
            entry.position = draft.place + number
            entry.predecessor = last.updateValue(entry.position, forKey: draft.customerId)
            return entry
        }
    }

    /// How many statements stand before the position, and the one that stands there.
    func lookUp(_ position: Int) -> (before: Int, entry: Entry?) {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].position < position { low = middle + 1 } else { high = middle }
        }
        return (low, low < entries.count && entries[low].position == position ? entries[low] : nil)
    }
}
