import Encoding
import Subscriptions
import TestSupport

/// A generated life of a subscription on Google Play: what its purchases were, what Google would have answered, and the
/// access that follows from Google's rules, worked out a second time.
struct PlayChain {
    private(set) var story = PlayStory()
    /// Access of each purchase, by its token.
    private(set) var spans: [String: [Span]] = [:]
    /// When each purchase began.
    private(set) var starts: [String: Instant] = [:]
    private(set) var tokens: [String] = []

    private var generator: SeededGenerator
    private var clock: Instant
    private let length: Int64
    private var voided: Set<String> = []
    /// The paid periods of the purchase, by order.
    private var paid: [(order: String, span: Span)] = []
    private var graces: [Span] = []
    private var isOver = false

    private static let minute: Int64 = 60_000
    private static let day: Int64 = 1440 * minute

    init(_ generator: SeededGenerator, purchases: ClosedRange<Int> = 1...5) {
        self.generator = generator
        length = [7, 30, 365][Int.random(in: 0..<3, using: &self.generator)] * Self.day
        clock = Instant(iso8601: "2022-01-01")!
            .advanced(byMilliseconds: Int64.random(in: 0..<Self.day * 300, using: &self.generator))
        let count = Int.random(in: purchases, using: &self.generator)
        for number in 1...count where number == 1 || !isOver {
            buy(number)
            for _ in 0..<Int.random(in: 0...4, using: &self.generator) where !isOver { step() }
            settle(isLast: number == count)
        }
    }

    var token: String { tokens.last ?? "" }

    /// The access of the whole subscription.
    var access: [Span] { Span.union(spans.values.flatMap(\.self)) }

    // MARK: The life of a purchase

    private var end: Instant { paid.last!.span.end }

    private mutating func buy(_ number: Int) {
        // Random letters first, so that the order of the tokens is not that of the purchases.
        let name = "\(UInt16.random(in: 0...UInt16.max, using: &generator))-\(number)"
        let previous = tokens.last
        tokens.append(name)
        starts[name] = clock
        if let previous { replace(previous) }
        paid = [("G\(number)", Span(clock, clock.advanced(byMilliseconds: length)))]
        graces = []
        voided = []
        answer(.active, after: 3000, linked: previous)
    }

    /// The purchase before ends where this one begins. What was answered about it later, also long after, says so.
    private mutating func replace(_ previous: String) {
        let cut = clock
        spans[previous] = spans[previous]?.compactMap { span in
            span.start < cut ? Span(span.start, min(span.end, cut)) : nil
        }
        let old = paid
        story.answer(
            text(clock, after: 5000), .expired, token: previous, start: text(starts[previous]!, after: 0),
            until: text(clock, after: -120), order: old.last?.order, renews: false
        ) { $0.cancelReason = .replaced }
        if generator.chance(30) {
            // A late answer that still shows the old expiry.
            story.answer(
                text(clock, after: Self.day), .expired, token: previous, start: text(starts[previous]!, after: 0),
                until: text(clock, after: -120), order: old.last?.order, renews: false)
        }
    }

    private mutating func step() {
        switch Int.random(in: 0..<8, using: &generator) {
        case 0, 1, 2: renew()
        case 3: recoverInGrace()
        case 4: holdAndRecover()
        case 5: pauseAndResume()
        case 6: deferRenewal()
        default: cancelAndRestart()
        }
    }

    /// Leaves the purchase somewhere in its last period, or ends it.
    private mutating func settle(isLast: Bool) {
        if isLast, generator.chance(40) {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: expire()
            case 1: revoke()
            case 2: voidOne()
            default: endInGrace()
            }
        } else {
            clock = max(clock, paid.last!.span.start).advanced(
                byMilliseconds: Int64.random(in: Self.minute..<length - Self.day, using: &generator))
            if clock >= end { clock = end.advanced(byMilliseconds: -Self.minute) }
        }
        let kept = paid.filter { !voided.contains($0.order) }.map(\.span)
        spans[token] = Span.union(kept + graces)
    }

    private mutating func renew() {
        let start = end
        // Before the old expiry, or a little after it.
        clock = start.advanced(byMilliseconds: Int64.random(in: -Self.minute * 60...135_000, using: &generator))
        pay(from: start)
    }

    private mutating func pay(from start: Instant) {
        paid.append((nextOrder, Span(start, start.advanced(byMilliseconds: length))))
        answer(.active, after: 500)
    }

    private var nextOrder: String { "G\(tokens.count)..\(paid.count - 1)" }

    private mutating func fail(grace days: Int64) {
        clock = end.advanced(byMilliseconds: 20_000)
        guard days > 0 else { return }
        graces.append(Span(end, end.advanced(byMilliseconds: days * Self.day)))
        answer(.inGracePeriod, after: 500, until: graces.last!.end)
    }

    private mutating func recoverInGrace() {
        let start = end
        fail(grace: 3)
        clock = start.advanced(byMilliseconds: Int64.random(in: Self.minute..<3 * Self.day, using: &generator))
        pay(from: start)
    }

    private mutating func holdAndRecover() {
        let days = Int64.random(in: 0...3, using: &generator)
        fail(grace: days)
        let held = graces.last.flatMap { $0.start == end ? $0.end : nil } ?? end
        clock = held.advanced(byMilliseconds: 10_000)
        answer(.onHold, after: 500, until: held)
        clock = held.advanced(byMilliseconds: Int64.random(in: Self.day..<20 * Self.day, using: &generator))
        story.add(clock, [.notice(PurchaseNotice(purchaseToken: token, kind: .recovered, at: clock))])
        pay(from: clock)
    }

    private mutating func pauseAndResume() {
        clock = end.advanced(byMilliseconds: 5000)
        answer(.paused, after: 500, until: end.advanced(byMilliseconds: 90 * Self.day))
        clock = clock.advanced(byMilliseconds: Int64.random(in: Self.day..<60 * Self.day, using: &generator))
        story.add(clock, [.notice(PurchaseNotice(purchaseToken: token, kind: .recovered, at: clock))])
        pay(from: clock)
    }

    private mutating func deferRenewal() {
        clock = max(clock, paid.last!.span.start).advanced(byMilliseconds: Self.minute)
        paid[paid.count - 1].span.end = end.advanced(byMilliseconds: 5 * Self.day)
        answer(.active, after: 500)
    }

    private mutating func cancelAndRestart() {
        clock = max(clock, paid.last!.span.start).advanced(byMilliseconds: Self.minute)
        answer(.canceled, after: 500)
        clock = clock.advanced(byMilliseconds: Self.minute)
        answer(.active, after: 500)
    }

    // MARK: Ends

    private mutating func expire() {
        answer(.canceled, after: 500)
        clock = end.advanced(byMilliseconds: 10_000)
        answer(.expired, after: 500)
        isOver = true
    }

    private mutating func revoke() {
        let span = paid.last!.span
        clock = max(clock, span.start).advanced(byMilliseconds: Self.minute)
        guard clock < span.end else { return }
        paid[paid.count - 1].span.end = clock
        answer(.expired, after: 3000)
        isOver = true
    }

    private mutating func voidOne() {
        let index = Int.random(in: 0..<paid.count, using: &generator)
        clock = max(clock, paid.last!.span.start).advanced(byMilliseconds: Self.minute)
        voided.insert(paid[index].order)
        // Grace after a voided period falls with it.
        graces.removeAll { $0.start == paid[index].span.end }
        story.add(
            clock,
            [
                .void(
                    PurchaseVoid(
                        purchaseToken: token, orderId: paid[index].order, voidedAt: clock, isExactTime: true))
            ])
    }

    private mutating func endInGrace() {
        fail(grace: 3)
        clock = end.advanced(byMilliseconds: Int64.random(in: Self.minute..<3 * Self.day, using: &generator))
        graces[graces.count - 1].end = clock
        answer(.expired, after: 2000, until: clock)
        isOver = true
    }

    // MARK: Answers

    private mutating func answer(
        _ state: PurchaseSnapshot.State, after milliseconds: Int64, until: Instant? = nil, linked: String? = nil
    ) {
        let linked = linked ?? (tokens.count > 1 ? tokens[tokens.count - 2] : nil)
        story.answer(
            text(clock, after: milliseconds), state, token: token, start: text(starts[token]!, after: 0),
            until: text(until ?? end, after: 0), order: paid.last?.order, renews: state == .active, linked: linked)
    }

    private func text(_ instant: Instant, after milliseconds: Int64) -> String {
        instant.advanced(byMilliseconds: milliseconds).description
    }
}
