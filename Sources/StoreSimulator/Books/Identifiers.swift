/// Makes the ids of one line, each from its number alone: the same run has the same ids, and no two lines share any.
package struct Identifiers: Sendable {
    private let seed: UInt64
    /// Of the line in the run.
    private let line: UInt64
    private var purchases: UInt64 = 0
    private var notifications: UInt64 = 0

    /// More purchases than any story makes.
    private static let purchasesMax: UInt64 = 64
    /// Lines of one story at most.
    package static let linesOfStoryMax = 3

    /// - Parameters:
    ///   - index: Which story of the run, up to 50 million.
    ///   - line: Which line of the story.
    package init(seed: UInt64, index: Int, line: Int) {
        self.seed = seed
        self.line = UInt64(index * Self.linesOfStoryMax + line)
    }

    /// 16 digits, larger for later purchases of a line, and another one for each line of a run. Runs with seeds that
    /// are equal in their last five digits share ids.
    package mutating func transactionId() -> String {
        precondition(purchases < Self.purchasesMax, "a story makes too many purchases")
        let number = line * Self.purchasesMax + purchases
        purchases += 1
        return "2" + Self.digits(seed % 100_000, 5) + Self.digits(number, 10)
    }

    package func webOrderLineItemId(of transactionId: String) -> String {
        "8" + transactionId.dropFirst()
    }

    package func appTransactionId() -> String {
        "70" + Self.digits(seed % 100_000, 5) + Self.digits(line, 10)
    }

    /// Lower case, of version 4.
    package mutating func uuid() -> String {
        notifications += 1
        var random = SplitMix64(seed: seed, line, notifications)
        let high = (random.next() & ~0xF000) | 0x4000
        let low = (random.next() & ~(3 << 62)) | (2 << 62)
        let first = Self.hexadecimal(high)
        let second = Self.hexadecimal(low)
        return "\(first.prefix(8))-\(first.dropFirst(8).prefix(4))-\(first.suffix(4))-\(second.prefix(4))-"
            + second.suffix(12)
    }

    private static func digits(_ number: UInt64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    private static func hexadecimal(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
