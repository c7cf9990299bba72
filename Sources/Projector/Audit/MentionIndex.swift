/// Records which events mention which subscriptions, for one part of the subscriptions, so that memory is bounded. The
/// hash of the id alone decides which part a subscription belongs to, for events and rows alike.
struct MentionIndex {
    let parts: UInt64
    private(set) var part: UInt64
    let seed: UInt64
    /// All events up to this position are indexed.
    private(set) var upTo: Int64 = 0
    /// Each event of each subscription of the part; after ``sort()``, in order of subscription and position.
    private(set) var mentions: [Mention] = []
    private var checked: Set<UInt64> = []
    /// For a subscription that is counted as one with others, a smaller one of these.
    private var joined: [UInt64: UInt64] = [:]

    struct Mention: Comparable {
        let subscription: UInt64
        let position: Int64

        static func < (left: Mention, right: Mention) -> Bool {
            (left.subscription, left.position) < (right.subscription, right.position)
        }
    }

    init(part: UInt64, of parts: UInt64, seed: UInt64) {
        self.part = part
        self.parts = parts
        self.seed = seed
    }

    /// Counts two subscriptions as one, in every part. Call it before events are added.
    mutating func join(_ one: String, _ other: String) {
        let (one, other) = (key(of: one), key(of: other))
        if one != other { joined[max(one, other)] = min(one, other) }
    }

    /// Begins another part, without events.
    mutating func begin(_ part: UInt64) {
        self.part = part
        upTo = 0
        mentions.removeAll(keepingCapacity: true)
        checked = []
    }

    func contains(_ subscription: String) -> Bool {
        key(of: subscription) % parts == part
    }

    /// Adds the next event, with the subscriptions that it mentions. Call ``sort()`` after the last one.
    mutating func add(_ position: Int64, about subscriptions: some Sequence<String>) {
        upTo = position
        for subscription in Set(subscriptions.map(key(of:))) where subscription % parts == part {
            mentions.append(Mention(subscription: subscription, position: position))
        }
    }

    mutating func sort() {
        mentions.sort()
    }

    /// The positions of the events about some subscriptions, ascending; may include events about others.
    func events(about subscriptions: some Sequence<String>, upTo last: Int64) -> [Int64] {
        var positions: Set<Int64> = []
        for subscription in subscriptions {
            let subscription = key(of: subscription)
            var index = firstMention(of: subscription)
            while index < mentions.count, mentions[index].subscription == subscription, mentions[index].position <= last
            {
                positions.insert(mentions[index].position)
                index += 1
            }
        }
        return positions.sorted()
    }

    private func firstMention(of subscription: UInt64) -> Int {
        var (low, high) = (0, mentions.count)
        while low < high {
            let middle = (low + high) / 2
            if mentions[middle].subscription < subscription { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func markChecked(_ subscriptions: some Sequence<String>) {
        for subscription in subscriptions { checked.insert(key(of: subscription)) }
    }

    /// Whether the subscription belongs to this part and has not been checked yet.
    func isUnchecked(_ subscription: String) -> Bool {
        let key = key(of: subscription)
        return key % parts == part && !checked.contains(key)
    }

    /// The position of an event of each unchecked subscription, ascending.
    var uncheckedEvents: [Int64] {
        var positions: Set<Int64> = []
        for (index, mention) in mentions.enumerated()
        where (index == 0 || mentions[index - 1].subscription != mention.subscription)
            && !checked.contains(mention.subscription)
        {
            positions.insert(mention.position)
        }
        return positions.sorted()
    }

    /// The same for subscriptions that are counted as one.
    func key(of subscription: String) -> UInt64 {
        var key = hash(subscription)
        while let smaller = joined[key] { key = smaller }
        return key
    }

    /// FNV-1a over seed and text, mixed so that the low bits depend on all others.
    private func hash(_ subscription: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ seed
        for byte in subscription.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash = (hash ^ (hash >> 33)) &* 0xFF51_AFD7_ED55_8CCD
        hash = (hash ^ (hash >> 33)) &* 0xC4CE_B9FE_1A85_EC53
        return hash ^ (hash >> 33)
    }
}
