/// Which events say something about which lines: a part of the lines, so that memory has a bound. What belongs to the
/// part is told by the line's hash alone, for events and rows alike.
struct LineIndex {
    let parts: UInt64
    let part: UInt64
    let seed: UInt64
    /// All events up to this position are in.
    private(set) var upTo: Int64 = 0
    /// Each event of each line of the part, in the order of lines and positions once they are sorted.
    private var mentions: [Mention] = []
    private var checked: Set<UInt64> = []

    private struct Mention: Comparable {
        let line: UInt64
        let position: Int64

        static func < (left: Mention, right: Mention) -> Bool {
            (left.line, left.position) < (right.line, right.position)
        }
    }

    init(part: UInt64, of parts: UInt64, seed: UInt64) {
        self.part = part
        self.parts = parts
        self.seed = seed
    }

    func contains(_ line: String) -> Bool {
        hash(line) % parts == part
    }

    /// Adds the next event, with the lines that it speaks of. Call ``sort()`` behind the last one.
    mutating func add(_ position: Int64, about lines: some Sequence<String>) {
        upTo = position
        for line in Set(lines.map(hash)) where line % parts == part {
            mentions.append(Mention(line: line, position: position))
        }
    }

    mutating func sort() {
        mentions.sort()
    }

    /// The events about some lines, ascending; perhaps with some about others.
    func events(about lines: some Sequence<String>, upTo last: Int64) -> [Int64] {
        var positions: Set<Int64> = []
        for line in lines {
            let line = hash(line)
            var index = firstMention(of: line)
            while index < mentions.count, mentions[index].line == line, mentions[index].position <= last {
                positions.insert(mentions[index].position)
                index += 1
            }
        }
        return positions.sorted()
    }

    private func firstMention(of line: UInt64) -> Int {
        var (low, high) = (0, mentions.count)
        while low < high {
            let middle = (low + high) / 2
            if mentions[middle].line < line { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func markChecked(_ lines: some Sequence<String>) {
        for line in lines { checked.insert(hash(line)) }
    }

    /// Whether the line is of this part and was not checked yet.
    func isUnchecked(_ line: String) -> Bool {
        let hash = hash(line)
        return hash % parts == part && !checked.contains(hash)
    }

    /// An event of each line that was not checked yet, ascending.
    var uncheckedEvents: [Int64] {
        var positions: Set<Int64> = []
        for (index, mention) in mentions.enumerated()
        where (index == 0 || mentions[index - 1].line != mention.line) && !checked.contains(mention.line) {
            positions.insert(mention.position)
        }
        return positions.sorted()
    }

    /// FNV-1a over seed and text, mixed so that the low bits depend on all others.
    private func hash(_ line: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ seed
        for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        hash = (hash ^ (hash >> 33)) &* 0xFF51_AFD7_ED55_8CCD
        hash = (hash ^ (hash >> 33)) &* 0xC4CE_B9FE_1A85_EC53
        return hash ^ (hash >> 33)
    }
}
