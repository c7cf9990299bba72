import Encoding

/// The order in which a run delivers its notifications, without their content.
struct DeliveryPlan: Sendable {
    /// One notification in one format.
    struct Entry: Sendable, Hashable {
        let signedMilliseconds: Int64
        let index: UInt32
        let subscription: UInt8
        let notification: UInt8
        let isVersion1: Bool
        /// Delivered more than once.
        var isRepeated = false
    }

    /// A subscription, by the number of its story and its number in the story.
    struct SubscriptionKey: Sendable, Hashable {
        let index: UInt32
        let subscription: UInt8
    }

    private(set) var entries: [Entry] = []
    /// Subscriptions with a notification that is never delivered.
    private(set) var lossy: Set<SubscriptionKey> = []
    /// Those of them whose access a server cannot know.
    private(set) var incomplete: Set<SubscriptionKey> = []

    init(_ settings: Simulation.Settings, _ storyteller: Storyteller) {
        var random = SplitMix64(seed: settings.seed, .max)
        for index in 0..<UInt32(settings.subscriptions) {
            let rendered = storyteller.story(at: Int(index))
            var keys: [SubscriptionKey] = []
            for (subscription, content) in rendered.subscriptions.enumerated() {
                let key = SubscriptionKey(index: index, subscription: UInt8(subscription))
                for entry in Self.entries(content, key, rendered.story, settings.format) {
                    if random.fraction() < settings.lose {
                        lossy.insert(key)
                        let lost = content.notifications[Int(entry.notification)]
                        let isFound = settings.isInStep && content.isFoundByAsking(lost)
                        if !isFound { incomplete.insert(key) }
                    } else {
                        entries.append(entry)
                    }
                }
                keys.append(key)
            }
            guard rendered.story.isOneForAll else { continue }
            if keys.contains(where: { lossy.contains($0) }) { lossy.formUnion(keys) }
            if keys.contains(where: { incomplete.contains($0) }) { incomplete.formUnion(keys) }
        }
        arrange(settings.order, &random)
        repeatSome(settings.duplicate, &random)
    }

    static func entries(
        _ subscription: SimulatedSubscription, _ key: SubscriptionKey, _ story: Story, _ format: Simulation.Format
    ) -> [Entry] {
        subscription.notifications.enumerated().flatMap { number, notification in
            func entry(isVersion1: Bool) -> Entry {
                Entry(
                    signedMilliseconds: notification.signedDate.milliseconds, index: key.index,
                    subscription: key.subscription, notification: UInt8(number), isVersion1: isVersion1)
            }
            let first = format != .v1 && notification.version2 != nil
            let second = format != .v2 && notification.version1 != nil && story.isCompleteInVersion1
            return (first ? [entry(isVersion1: false)] : []) + (second ? [entry(isVersion1: true)] : [])
        }
    }

    private mutating func arrange(_ order: Simulation.Order, _ random: inout SplitMix64) {
        switch order {
        case .inOrder: entries.sort(by: Self.precedes)
        case .reversed: entries.sort { Self.precedes($1, $0) }
        case .shuffled: entries.shuffle(using: &random)
        }
    }

    static func precedes(_ left: Entry, _ right: Entry) -> Bool {
        (left.signedMilliseconds, left.index, left.subscription, left.notification, left.isVersion1 ? 1 : 0)
            < (right.signedMilliseconds, right.index, right.subscription, right.notification, right.isVersion1 ? 1 : 0)
    }

    /// Inserts each repeat at a random position after the original.
    private mutating func repeatSome(_ part: Double, _ random: inout SplitMix64) {
        guard part > 0 else { return }
        var repeats: [(place: Double, entry: Entry)] = []
        for position in entries.indices where random.fraction() < part {
            entries[position].isRepeated = true
            let place = Double(position) + random.fraction() * Double(entries.count - position)
            repeats.append((place, entries[position]))
        }
        repeats.sort { $0.place < $1.place }
        var merged: [Entry] = []
        merged.reserveCapacity(entries.count + repeats.count)
        var next = 0
        for position in entries.indices {
            merged.append(entries[position])
            while next < repeats.count, repeats[next].place < Double(position + 1) {
                merged.append(repeats[next].entry)
                next += 1
            }
        }
        entries = merged + repeats[next...].map(\.entry)
    }
}
