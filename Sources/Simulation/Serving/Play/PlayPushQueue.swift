import Encoding

/// The messages of a push subscription that wait for their delivery, on the simulated clock.
struct PlayPushQueue: Sendable {
    struct Item: DueItem {
        var at: Instant
        let content: Content
        let kind: PlayDelivery.Kind
        /// The number of earlier attempts.
        var attempts = 0
        /// Of all items; repeats what was drawn for one.
        let number: UInt64

        var expiresAt: Instant { content.publishTime.advanced(by: PlayPushQueue.kept) }

        static func precedes(_ left: Item, _ right: Item) -> Bool { (left.at, left.number) < (right.at, right.number) }
    }

    enum Content: Sendable {
        case message(PlayMessage)
        /// Any bytes in place of a notification.
        case data([UInt8], messageId: String, publishTime: Instant)

        var publishTime: Instant {
            switch self {
            case .message(let message): message.publishTime
            case .data(_, _, let publishTime): publishTime
            }
        }

        var messageId: String {
            switch self {
            case .message(let message): message.messageId
            case .data(_, let messageId, _): messageId
            }
        }

        var purchaseToken: String {
            if case .message(let message) = self { message.purchaseToken } else { "" }
        }
    }

    /// Pub/Sub keeps a message for this long.
    static let kept = Duration.seconds(7 * 86_400)
    private static let backOffMilliseconds: ClosedRange<Int64> = 100...60_000
    private static let retryMilliseconds: ClosedRange<Int64> = 10_000...600_000

    private var items = DueQueue<Item>()
    /// No push of the whole subscription starts before this instant.
    private(set) var blockedUntil = Instant.earliest
    /// The number of failures since the last success.
    private var failures = 0
    /// The most pushes at a time. Starts small after a failure.
    private var window = Int.max
    private(set) var added: UInt64 = 0
    /// The number of messages that were kept for seven days in vain.
    private(set) var expired = 0

    mutating func add(_ content: Content, _ kind: PlayDelivery.Kind, dueAt: Instant) {
        items.insert(Item(at: dueAt, content: content, kind: kind, number: added))
        added += 1
    }

    /// Removes the pushes to make next, in the order of their times, which are not before the end of a back-off.
    mutating func takeDue(at now: Instant, atMost connections: Int) -> [Item] {
        guard blockedUntil <= now else { return [] }
        var taken: [Item] = []
        while taken.count < min(connections, window), var item = items.takeFirst(dueBy: now) {
            item.at = max(item.at, blockedUntil)
            if item.expiresAt < item.at { expired += 1 } else { taken.append(item) }
        }
        return taken
    }

    /// Notes which of the pushes that were taken were acknowledged. Only a message comes again; a forged one never does.
    mutating func finish(_ outcomes: [(attempt: Item, result: Bool)], _ retry: PlaySending.Retry) {
        let pushes = outcomes.filter { if case .forged = $0.attempt.kind { false } else { true } }
        let failed = pushes.filter { !$0.result }.map(\.attempt)
        if failed.isEmpty {
            if !pushes.isEmpty {
                failures = 0
                window = window > Int.max / 2 ? window : window * 2
            }
            return
        }
        failures += 1
        window = 1
        let wait = Self.doubled(Self.backOffMilliseconds, failures)
        let last = failed.map(\.at).max() ?? blockedUntil
        blockedUntil = max(blockedUntil, last.advanced(byMilliseconds: wait))
        for item in failed {
            var again = item
            again.attempts += 1
            let own = retry == .immediately ? 0 : Self.doubled(Self.retryMilliseconds, again.attempts)
            again.at = item.at.advanced(byMilliseconds: own)
            items.insert(again)
        }
    }

    /// When the next push becomes due; nil if none waits.
    var nextDue: Instant? { items.first.map { max($0.at, blockedUntil) } }

    /// Whether anything is due until the instant.
    func isDue(at now: Instant) -> Bool {
        blockedUntil <= now && items.first.map { $0.at <= now } ?? false
    }

    private static func doubled(_ range: ClosedRange<Int64>, _ times: Int) -> Int64 {
        min(range.upperBound, range.lowerBound << Int64(min(times - 1, 20)))
    }
}
