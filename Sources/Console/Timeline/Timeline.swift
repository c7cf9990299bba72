import Encoding
import EventLog
import Readers
import Subscriptions

/// The picture of one subscription: access, purchases, renewal and events, on one axis of time.
///
/// Each mark is a link with a name in words; the page's tables hold the same rows, so nothing needs the picture.
struct Timeline {
    let subscription: Subscription
    let events: [StoredEvent]
    /// The instant for which the page answers.
    let at: Instant
    /// The subscription by what was known at another instant; nil for today's knowledge.
    let known: Known?
    let span: Range<Instant>
    /// The intervals in which the customer of the page owns the subscription: what lies outside is not drawn. Nil for all.
    let owned: [Range<Instant>]?
    /// Whether something lies before or after the span.
    let isPart: Bool
    /// Most marks in a lane. A mark has about 350 bytes.
    let marksMax: Int

    struct Known {
        let at: Instant
        /// Nil if nothing was known of it.
        let subscription: Subscription?
    }

    static let width = 1000.0
    static let left = 84.0
    static let right = 16.0
    static let lane = 28.0
    /// Most marks in a lane of a page's only picture. Neighbours are joined beyond it.
    static let marksMax = 40
    /// Least distance of marks of which some are joined: room for a count beside each.
    static let joinedWidth = 46.0
    /// Most lines from an event to its time of receipt.
    static let elbowsMax = 8

    init(
        _ subscription: Subscription, events: [StoredEvent], at: Instant, now: Instant, known: Known?,
        span: TimelineSpan, owned: [Range<Instant>]? = nil, marksMax: Int = Self.marksMax
    ) {
        func isWithin(_ instant: Instant) -> Bool { Self.isWithin(owned, instant) }
        var own = subscription
        if let owned { own = subscription.owned(during: owned) }
        let ownEvents = events.filter { isWithin($0.occurredAt ?? $0.receivedAt) }
        let bought = own.transactions.compactMap(\.transaction.purchaseDate).filter { isWithin($0) }
        self.owned = owned
        self.subscription = own
        self.events = ownEvents
        self.at = at
        self.known = known
        self.marksMax = marksMax
        let whole = Self.span(of: own, bought: bought, ownEvents, at: at, now: now)
        switch span {
        case .all: self.span = whole
        case .closer(let span): self.span = span
        case .latest:
            let start = whole.upperBound.advanced(byMilliseconds: -Self.latestMilliseconds)
            // A little more than a year is a year.
            let isLong = start > whole.lowerBound.advanced(byMilliseconds: Self.latestMilliseconds / 4)
            self.span = isLong ? start..<whole.upperBound : whole
        }
        isPart = self.span.lowerBound > whole.lowerBound || self.span.upperBound < whole.upperBound
    }

    /// What a picture shows at first: the last 400 days.
    private static let latestMilliseconds: Int64 = 400 * 86_400_000

    /// From the first purchase to the end of access, with a margin; to the instant if that is later, and not long after all
    /// has ended.
    private static func span(
        of subscription: Subscription, bought: [Instant], _ events: [StoredEvent], at: Instant, now: Instant
    ) -> Range<Instant> {
        var times =
            subscription.access.flatMap { [$0.start, $0.end] } + subscription.refunded.flatMap { [$0.start, $0.end] }
        times += bought + events.compactMap(\.occurredAt)
        times = times.filter { $0 < .latest }
        let isLongAgo = times.min().flatMap { first in
            times.max().map { at.milliseconds - $0.milliseconds > ($0.milliseconds - first.milliseconds) / 2 }
        }
        if isLongAgo != true || at != now { times.append(at) }
        let first = times.min() ?? now
        let last = max(times.max() ?? now, first.advanced(byMilliseconds: 60_000))
        let margin = max(first.duration(to: last).milliseconds / 24, 1000)
        return first.advanced(byMilliseconds: -margin)..<last.advanced(byMilliseconds: margin * 2)
    }

    func x(_ instant: Instant) -> Double {
        let whole = Double(span.upperBound.milliseconds - span.lowerBound.milliseconds)
        let part = Double(instant.milliseconds - span.lowerBound.milliseconds) / whole
        return Self.left + min(max(part, 0), 1) * (Self.width - Self.left - Self.right)
    }

    func contains(_ instant: Instant) -> Bool { span.contains(instant) }

    /// Whether the customer of the page owns the subscription at an instant.
    func isOwned(_ instant: Instant) -> Bool { Self.isWithin(owned, instant) }

    private static func isWithin(_ intervals: [Range<Instant>]?, _ instant: Instant) -> Bool {
        intervals?.contains { $0.contains(instant) } ?? true
    }

    /// The marks of a lane; if there are too many, neighbours are joined.
    func joined<Mark>(_ marks: [Mark], _ time: (Mark) -> Instant) -> [[Mark]] {
        let sorted = marks.filter { contains(time($0)) }.sorted { time($0) < time($1) }
        guard sorted.count > marksMax else { return sorted.map { [$0] } }
        let distance = max((Self.width - Self.left - Self.right) / Double(marksMax), Self.joinedWidth)
        var groups: [[Mark]] = []
        var start = -Self.width
        for mark in sorted {
            if x(time(mark)) - start < distance, !groups.isEmpty {
                groups[groups.count - 1].append(mark)
            } else {
                groups.append([mark])
                start = x(time(mark))
            }
        }
        return groups
    }
}

extension Duration {
    var milliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}
