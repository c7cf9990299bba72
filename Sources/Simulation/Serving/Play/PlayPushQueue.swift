import Encoding

/// The messages of a push subscription that wait for their delivery, on the simulated clock.
struct PlayPushQueue: Sendable {
    struct Item: Sendable {
        var dueAt: Instant
        let content: Content
        let kind: PlayDelivery.Kind
        /// The number of earlier attempts.
        var attempts = 0
        /// Of all items; repeats what was drawn for one.
        let number: UInt64

        var expiresAt: Instant { content.publishTime.advanced(by: PlayPushQueue.kept) }
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

    /// A binary heap: the first item is the one that is due first.
    private var items: [Item] = []
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
        insert(Item(dueAt: dueAt, content: content, kind: kind, number: added))
        added += 1
    }

    private static func precedes(_ left: Item, _ right: Item) -> Bool {
        (left.dueAt, left.number) < (right.dueAt, right.number)
    }

    private mutating func insert(_ item: Item) {
        items.append(item)
        var child = items.count - 1
        while child > 0, Self.precedes(items[child], items[(child - 1) / 2]) {
            items.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func removeFirst() {
        items.swapAt(0, items.count - 1)
        items.removeLast()
        var parent = 0
        while true {
            let children = [2 * parent + 1, 2 * parent + 2].filter { $0 < items.count }
            guard let least = children.min(by: { Self.precedes(items[$0], items[$1]) }),
                Self.precedes(items[least], items[parent])
            else { return }
            items.swapAt(parent, least)
            parent = least
        }
    }

    /// Removes the pushes to make next, in the order of their times, which are not before the end of a back-off.
    mutating func takeDue(at now: Instant, atMost connections: Int) -> [Item] {
        guard blockedUntil <= now else { return [] }
        var taken: [Item] = []
        while let first = items.first, first.dueAt <= now, taken.count < min(connections, window) {
            removeFirst()
            var item = first
            item.dueAt = max(first.dueAt, blockedUntil)
            if item.expiresAt < item.dueAt { expired += 1 } else { taken.append(item) }
        }
        return taken
    }

    /// Notes the outcome of pushes that were taken. Only a message comes again; a forged one never does.
    mutating func finish(_ outcomes: [(item: Item, isAcknowledged: Bool)], _ retry: PlaySending.Retry) {
        let pushes = outcomes.filter { if case .forged = $0.item.kind { false } else { true } }
        let failed = pushes.filter { !$0.isAcknowledged }.map(\.item)
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
        let last = failed.map(\.dueAt).max() ?? blockedUntil
        blockedUntil = max(blockedUntil, last.advanced(byMilliseconds: wait))
        for item in failed {
            var again = item
            again.attempts += 1
            let own = retry == .immediately ? 0 : Self.doubled(Self.retryMilliseconds, again.attempts)
            again.dueAt = item.dueAt.advanced(byMilliseconds: own)
            insert(again)
        }
    }

    /// When the next push becomes due; nil if none waits.
    var nextDue: Instant? { items.first.map { max($0.dueAt, blockedUntil) } }

    /// Whether anything is due until the instant.
    func isDue(at now: Instant) -> Bool {
        blockedUntil <= now && items.first.map { $0.dueAt <= now } ?? false
    }

    private static func doubled(_ range: ClosedRange<Int64>, _ times: Int) -> Int64 {
        min(range.upperBound, range.lowerBound << Int64(min(times - 1, 20)))
    }
}
