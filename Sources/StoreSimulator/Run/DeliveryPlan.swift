import Subscriptions

/// Which notification is delivered when: the order of a run, without its content.
struct DeliveryPlan: Sendable {
    /// One notification in one format.
    struct Entry: Sendable, Hashable {
        let signedMilliseconds: Int64
        let index: UInt32
        let line: UInt8
        let telling: UInt8
        let isVersion1: Bool
        /// Delivered more than once.
        var isRepeated = false
    }

    /// A line by the number of its story and its own in it.
    struct LineKey: Sendable, Hashable {
        let index: UInt32
        let line: UInt8
    }

    private(set) var entries: [Entry] = []
    /// Lines of which something is never told.
    private(set) var incomplete: Set<LineKey> = []

    init(_ settings: Simulation.Settings, _ storyteller: Storyteller) {
        var random = SplitMix64(seed: settings.seed, .max)
        for index in 0..<UInt32(settings.subscriptions) {
            let told = storyteller.story(at: Int(index))
            for (line, content) in told.lines.enumerated() {
                let key = LineKey(index: index, line: UInt8(line))
                for entry in Self.entries(content, key, told.story, settings.format) {
                    if random.fraction() < settings.lose {
                        incomplete.insert(key)
                    } else {
                        entries.append(entry)
                    }
                }
            }
        }
        arrange(settings.order, &random)
        repeatSome(settings.duplicate, &random)
    }

    private static func entries(
        _ line: ToldLine, _ key: LineKey, _ story: Story, _ format: Simulation.Format
    ) -> [Entry] {
        line.tellings.enumerated().flatMap { number, telling in
            func entry(isVersion1: Bool) -> Entry {
                Entry(
                    signedMilliseconds: telling.signedDate.milliseconds, index: key.index, line: key.line,
                    telling: UInt8(number), isVersion1: isVersion1)
            }
            let first = format != .v1 && telling.version2 != nil
            let second = format != .v2 && telling.version1 != nil && story.isTellableInVersion1
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

    private static func precedes(_ left: Entry, _ right: Entry) -> Bool {
        (left.signedMilliseconds, left.index, left.line, left.telling, left.isVersion1 ? 1 : 0)
            < (right.signedMilliseconds, right.index, right.line, right.telling, right.isVersion1 ? 1 : 0)
    }

    /// Puts repeats anywhere behind what they repeat.
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
