import Encoding

/// Generates the ids of one subscription. Equal runs generate equal ids; no two subscriptions of a run share one.
package struct Identifiers: Sendable {
    private let seed: UInt64
    /// The number of the subscription in the run.
    private let subscription: UInt64
    /// The subscriptions of a story beyond ``storySubscriptionsMax`` are numbered apart.
    private let range: IdRange
    private var purchases: UInt64 = 0
    private var notifications: UInt64 = 0

    /// Above the number of purchases of any story.
    private static let purchasesMax: UInt64 = 64
    /// The largest number of subscriptions and one-time purchases in most stories.
    package static let storySubscriptionsMax = 3

    /// A range of ids, with the digits that they begin with.
    private enum IdRange: Int, CaseIterable {
        case usual, beyond

        /// The largest number of subscriptions of a story in the range.
        var storyMax: Int { self == .usual ? Identifiers.storySubscriptionsMax : 16 }
        var ofTransactions: String { self == .usual ? "2" : "3" }
        var ofLineItems: String { self == .usual ? "8" : "9" }
        var ofAccounts: String { self == .usual ? "70" : "71" }
    }

    /// - Parameters:
    ///   - index: The number of the story in the run, up to 9 million.
    ///   - subscription: The number of the subscription in the story.
    package init(seed: UInt64, index: Int, subscription: Int) {
        self.seed = seed
        range = subscription < Self.storySubscriptionsMax ? .usual : .beyond
        let number = range == .usual ? subscription : subscription - Self.storySubscriptionsMax
        precondition(number < range.storyMax, "a story has too many subscriptions")
        self.subscription = UInt64(index * range.storyMax + number)
    }

    /// 16 digits. Ids of one subscription ascend. Runs whose seeds have equal last five digits share ids.
    package mutating func transactionId() -> String {
        precondition(purchases < Self.purchasesMax - 1, "a story has too many purchases")
        purchases += 1
        return transactionId(purchases - 1)
    }

    /// The transaction id of a purchase that was restored on another device. No purchase has it.
    package var restoredTransactionId: String { transactionId(Self.purchasesMax - 1) }

    private func transactionId(_ purchase: UInt64) -> String {
        range.ofTransactions + Self.digits(seed % 100_000, 5)
            + Self.digits(subscription * Self.purchasesMax + purchase, 10)
    }

    /// The number of the story whose subscription has the transaction; nil if the text is no transaction id of a run
    /// with this seed.
    package static func story(of transactionId: String, seed: UInt64) -> Int? {
        guard transactionId.count == 16 else { return nil }
        return story(of: transactionId, \.ofTransactions, seed) { Int($0 / purchasesMax) }
    }

    /// The number of the story whose Apple Account has the app transaction id; nil if no run with this seed has it.
    package static func story(ofAccount appTransactionId: String, seed: UInt64) -> Int? {
        guard appTransactionId.count == 17 else { return nil }
        return story(of: appTransactionId, \.ofAccounts, seed) { Int($0) }
    }

    /// - Parameter subscription: The number of a subscription in the run, from the digits of the id.
    private static func story(
        of id: String, _ digitsOfRange: (IdRange) -> String, _ seed: UInt64, _ subscription: (UInt64) -> Int
    ) -> Int? {
        for range in IdRange.allCases {
            let prefix = digitsOfRange(range) + digits(seed % 100_000, 5)
            guard id.hasPrefix(prefix), let number = UInt64(id.dropFirst(prefix.count)) else { continue }
            return subscription(number) / range.storyMax
        }
        return nil
    }

    package func webOrderLineItemId(of transactionId: String) -> String {
        range.ofLineItems + transactionId.dropFirst()
    }

    package func appTransactionId() -> String {
        range.ofAccounts + Self.digits(seed % 100_000, 5) + Self.digits(subscription, 10)
    }

    /// A lower-case UUID of version 4.
    package mutating func uuid() -> String {
        notifications += 1
        // Another number of words, so that no text of one range is one of the other.
        var random =
            range == .usual
            ? SplitMix64(seed: seed, subscription, notifications)
            : SplitMix64(seed: seed, subscription, notifications, UInt64(range.rawValue))
        let high = (random.next() & ~0xF000) | 0x4000
        let low = (random.next() & ~(3 << 62)) | (2 << 62)
        let first = Hex.text(high)
        let second = Hex.text(low)
        return "\(first.prefix(8))-\(first.dropFirst(8).prefix(4))-\(first.suffix(4))-\(second.prefix(4))-"
            + second.suffix(12)
    }

    private static func digits(_ number: UInt64, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
}
