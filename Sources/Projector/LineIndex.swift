/// Which events say something about which lines: a part of the lines, so that memory has a bound. What belongs to the
/// part is told by the line's hash alone, for events and rows alike.
struct LineIndex {
    let parts: UInt64
    let part: UInt64
    let seed: UInt64
    /// All events up to this position are in.
    private(set) var upTo: Int64 = 0
    private var positions: [UInt64: [Int64]] = [:]
    private var checked: Set<UInt64> = []

    init(part: UInt64, of parts: UInt64, seed: UInt64) {
        self.part = part
        self.parts = parts
        self.seed = seed
    }

    func contains(_ line: String) -> Bool {
        hash(line) % parts == part
    }

    mutating func add(_ event: FoldableEvent) {
        upTo = event.position
        for line in event.factsByLine.keys {
            let hash = hash(line)
            if hash % parts == part { positions[hash, default: []].append(event.position) }
        }
    }

    /// The events about some lines, ascending; perhaps with some about others.
    func events(about lines: some Sequence<String>, upTo last: Int64) -> [Int64] {
        Set(lines.flatMap { positions[hash($0)] ?? [] }).filter { $0 <= last }.sorted()
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
        positions.compactMap { hash, positions in checked.contains(hash) ? nil : positions.first }.sorted()
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
