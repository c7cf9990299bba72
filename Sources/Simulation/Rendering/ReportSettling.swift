import Encoding

/// How much later than it was made the stores' reports have a purchase or refund.
package struct ReportSettling: Sendable {
    /// The most days.
    let days: Int
    let seed: UInt64

    package init(days: Int, seed: UInt64) {
        self.days = days
        self.seed = seed
    }

    /// Moves each entry by some of the days, and puts them in the order of time.
    package func delay<Entry>(_ entries: inout [Entry], _ at: WritableKeyPath<Entry, Instant>) {
        guard days > 0 else { return }
        for index in entries.indices { entries[index][keyPath: at] = settled(entries[index][keyPath: at], index) }
        entries.sort { $0[keyPath: at] < $1[keyPath: at] }
    }

    /// When the entry with a number is settled.
    func settled(_ instant: Instant, _ number: Int) -> Instant {
        guard days > 0 else { return instant }
        var random = SplitMix64(seed: seed, .max - 40, UInt64(number))
        return instant.advanced(by: .seconds(Int64.random(in: 0...Int64(days), using: &random) * 86_400))
    }
}
