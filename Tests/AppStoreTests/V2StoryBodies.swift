import AppStore
import Encoding
import Subscriptions
import TestSupport
import Testing

/// The orders in which one set of notifications may arrive.
enum Arrival: CaseIterable, Sendable {
    case inOrder, reversed, shuffled, eachTwice, reversedEachTwice, shuffledEachTwice

    func arrange<Item>(_ items: [Item]) -> [Item] {
        var generator = TestSeed.generator(items.count)
        return switch self {
        case .inOrder: items
        case .reversed: items.reversed()
        case .shuffled: items.shuffled(using: &generator)
        case .eachTwice: items.flatMap { [$0, $0] }
        case .reversedEachTwice: items.reversed().flatMap { [$0, $0] }
        case .shuffledEachTwice: (items + items).shuffled(using: &generator)
        }
    }
}

/// A stretch of access, regardless of its rows and grace periods.
struct Span: Hashable, CustomStringConvertible {
    var start: Instant
    var end: Instant

    init(_ start: Instant, _ end: Instant) {
        self.start = start
        self.end = end
    }

    init(_ start: String, _ end: String) {
        self.init(day(start), day(end))
    }

    var description: String { "[\(start), \(end))" }

    /// The union of stretches, in order, without overlap.
    static func union(_ spans: [Span]) -> [Span] {
        var merged: [Span] = []
        for span in spans.sorted(by: { ($0.start, $0.end) < ($1.start, $1.end) }) {
            if let last = merged.last, span.start <= last.end {
                merged[merged.count - 1].end = max(last.end, span.end)
            } else {
                merged.append(span)
            }
        }
        return merged
    }
}

extension Subscription {
    var spans: [Span] { Span.union(access.map { Span($0.start, $0.end) }) }
}

extension MemoryLedger {
    /// Accepts the events in the given order, one second apart, later than all dates in the stories.
    init(arriving events: [Event]) {
        self.init()
        for (index, event) in events.enumerated() {
            append(event, receivedAt: day("2060-01-01").advanced(byMilliseconds: Int64(index) * 1000))
        }
    }

    func subscription(
        _ id: String = testSubscription, environment: Environment = .production,
        products: [String: ProductCatalog] = [:]
    ) throws -> Subscription {
        try #require(
            subscriptions(products: products).first {
                $0.stream.environment == environment && $0.subscription.originalTransactionId == id
            }?.subscription)
    }
}

/// Folds bodies of one subscription, with and without deduplication, which must give the same access.
func folded(_ bodies: [V2Body], _ arrival: Arrival = .inOrder, subscription: String = testSubscription) throws
    -> Subscription
{
    let events = arrival.arrange(try bodies.map { try $0.event() })
    let once = try MemoryLedger(arriving: events).subscription(subscription)
    #expect(fold(events, subscription: subscription).spans == once.spans, "repeats change access")
    return once
}

extension V2Body {
    /// The same story with other ids, as if the App Store had written every notification again.
    func renumbered(_ suffix: String) -> V2Body {
        changing {
            $0.payload["notificationUUID"] = .text(uuid(of: ($0.payload["notificationUUID"]?.plain ?? "") + suffix))
        }
    }
}
