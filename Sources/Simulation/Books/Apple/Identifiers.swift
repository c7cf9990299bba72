import Encoding

/// Generates the ids of one subscription. Equal runs generate equal ids; no two subscriptions of a run share one.
package struct Identifiers: Sendable {
    private let seed: UInt64
    /// The number of the subscription in the run.
    private let subscription: UInt64
    private var purchases: UInt64 = 0
    private var notifications: UInt64 = 0

    /// Above the number of purchases of any story.
    private static let purchasesMax: UInt64 = 64
    /// The largest number of subscriptions and one-time purchases in one story.
    package static let storySubscriptionsMax = 3

    /// - Parameters:
    ///   - index: The number of the story in the run, up to 50 million.
    ///   - subscription: The number of the subscription in the story.
    package init(seed: UInt64, index: Int, subscription: Int) {
        self.seed = seed
        self.subscription = UInt64(index * Self.storySubscriptionsMax + subscription)
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
        "2" + Self.digits(seed % 100_000, 5) + Self.digits(subscription * Self.purchasesMax + purchase, 10)
    }

    /// The number of the story whose subscription has the transaction; nil if the text is no transaction id of a run
    /// with this seed.
    package static func story(of transactionId: String, seed: UInt64) -> Int? {
        let prefix = "2" + digits(seed % 100_000, 5)
        guard transactionId.count == 16, transactionId.hasPrefix(prefix),
            let number = UInt64(transactionId.dropFirst(prefix.count))
        else { return nil }
        return Int(number / purchasesMax) / storySubscriptionsMax
    }

    /// The number of the story whose Apple Account has the app transaction id; nil if no run with this seed has it.
    package static func story(ofAccount appTransactionId: String, seed: UInt64) -> Int? {
        let prefix = "70" + digits(seed % 100_000, 5)
        guard appTransactionId.count == 17, appTransactionId.hasPrefix(prefix),
            let number = UInt64(appTransactionId.dropFirst(prefix.count))
        else { return nil }
        return Int(number) / storySubscriptionsMax
    }

    package func webOrderLineItemId(of transactionId: String) -> String {
        "8" + transactionId.dropFirst()
    }

    package func appTransactionId() -> String {
        "70" + Self.digits(seed % 100_000, 5) + Self.digits(subscription, 10)
    }

    /// A lower-case UUID of version 4.
    package mutating func uuid() -> String {
        notifications += 1
        var random = SplitMix64(seed: seed, subscription, notifications)
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
