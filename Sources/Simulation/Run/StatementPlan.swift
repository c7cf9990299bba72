/// The positions of link statements among the notifications. Statements of one story keep their order: a later one takes
/// what it names from the customer of an earlier one.
struct StatementPlan: Sendable {
    struct Entry: Sendable, Hashable {
        /// The number of the story.
        let index: UInt32
        /// The number of the statement in the story.
        let number: UInt8
        /// The position in the order of sending, notifications included.
        var position = 0
        /// The position of the previous statement of the story, which must be answered first; nil for the first one.
        var predecessor: Int?
    }

    /// Sorted by position.
    private(set) var entries: [Entry] = []

    /// A statement with the number of notifications before it.
    private struct Draft {
        var entry: Entry
        let sentMilliseconds: Int64
        var place = 0
    }

    init(_ settings: Simulation.Settings, _ storyteller: Storyteller, _ notifications: [DeliveryPlan.Entry]) {
        var random = SplitMix64(seed: settings.seed, .max - 1)
        var drafts: [Draft] = []
        for index in 0..<UInt32(settings.subscriptions) {
            for (number, statement) in storyteller.story(at: Int(index)).statements.enumerated() {
                let draft = Draft(
                    entry: Entry(index: index, number: UInt8(number)), sentMilliseconds: statement.sentAt.milliseconds)
                drafts.append(draft)
                // A backend that sends the same statement twice changes nothing.
                if random.fraction() < settings.duplicate { drafts.append(draft) }
            }
        }
        switch settings.order {
        case .inOrder: Self.placeByTime(&drafts, notifications)
        // A server orders link statements by arrival, so only notifications are reordered.
        case .shuffled, .reversed: Self.placeAnywhere(&drafts, notifications.count, &random)
        }
        entries = Self.positioned(drafts)
    }

    private static func placeByTime(_ drafts: inout [Draft], _ notifications: [DeliveryPlan.Entry]) {
        drafts = drafts.enumerated()
            .sorted { ($0.element.sentMilliseconds, $0.offset) < ($1.element.sentMilliseconds, $1.offset) }
            .map(\.element)
        var place = 0
        for number in drafts.indices {
            while place < notifications.count,
                notifications[place].signedMilliseconds <= drafts[number].sentMilliseconds
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
            let places = (start..<end).map { _ in Int.random(in: 0...count, using: &random) }.sorted()
            for (number, place) in zip(start..<end, places) { drafts[number].place = place }
            start = end
        }
        drafts = drafts.enumerated().sorted { ($0.element.place, $0.offset) < ($1.element.place, $1.offset) }
            .map(\.element)
    }

    private static func positioned(_ drafts: [Draft]) -> [Entry] {
        var last: [UInt32: Int] = [:]
        return drafts.enumerated().map { number, draft in
            var entry = draft.entry
            entry.position = draft.place + number
            entry.predecessor = last.updateValue(entry.position, forKey: entry.index)
            return entry
        }
    }

    /// Returns the number of statements before the position, and the statement at it.
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
