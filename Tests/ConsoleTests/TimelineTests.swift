import Encoding
import Foundation
import Readers
import Subscriptions
import Testing

@testable import Console
@testable import EventLog

@Suite("The timeline draws what the tables hold")
struct TimelineTests {
    static let day: Int64 = 86_400_000
    static let start = Instant(milliseconds: 1_750_000_000_000) ?? .earliest

    static func at(_ days: Double) -> Instant { start.advanced(byMilliseconds: Int64(days * Double(day))) }

    static func transaction(_ number: Int, from: Double, to: Double, refunded: Double? = nil) -> Transaction {
        var transaction = Transaction(transactionId: "\(100 + number)", originalTransactionId: "100")
        transaction.productId = "com.example.monthly"
        transaction.purchaseDate = at(from)
        transaction.expiresDate = at(to)
        transaction.price = 2990
        transaction.currency = "EUR"
        transaction.revocationDate = refunded.map(at)
        transaction.signedDate = at(refunded ?? from)
        return transaction
    }

    static func renewal(_ isOn: Bool, at days: Double, grace: Double? = nil) -> RenewalInfo {
        var renewal = RenewalInfo(originalTransactionId: "100")
        renewal.autoRenewStatus = isOn
        renewal.isInBillingRetryPeriod = grace != nil
        renewal.gracePeriodExpiresDate = grace.map(at)
        renewal.signedDate = at(days)
        return renewal
    }

    /// A trial, two paid periods of which the second is refunded, grace, and an event that arrived late.
    static var story: (subscription: Subscription, events: [StoredEvent]) {
        var trial = transaction(0, from: 0, to: 7)
        trial.offerDiscountType = "FREE_TRIAL"
        trial.price = 0
        let steps: [(Double, [Transaction], [RenewalInfo], Double)] = [
            (0, [trial], [renewal(true, at: 0)], 0), (7, [transaction(1, from: 7, to: 37)], [], 0),
            (37, [transaction(2, from: 37, to: 67)], [], 0.5),
            (45, [transaction(2, from: 37, to: 67, refunded: 45)], [renewal(false, at: 45)], 0),
            (50, [transaction(3, from: 50, to: 80)], [renewal(true, at: 50)], 0),
            (80, [], [renewal(true, at: 80, grace: 86)], 0),
        ]
        var facts = SubscriptionFacts(originalTransactionId: "100")
        var events: [StoredEvent] = []
        for (index, step) in steps.enumerated() {
            let position = Int64(index + 1)
            facts.fold(
                Facts(transactions: step.1, renewals: step.2), occurredAt: at(step.0), receivedAt: at(step.0 + step.3),
                position: position)
            events.append(
                StoredEvent(
                    position: position, receivedAt: at(step.0 + step.3), occurredAt: at(step.0), source: "apple-v2",
                    type: "TYPE_\(position)", subtype: nil, kind: "renewal", dedupeKey: DedupeKey(bytes: []),
                    facts: Array("{}".utf8), defects: nil))
        }
        return (Subscription(facts), events)
    }

    static var frame: PageFrame { frame(now: at(84)) }

    static func frame(now: Instant) -> PageFrame {
        let stream = StreamState(
            streamId: 1, app: "a", environment: "production", head: 6, folded: 6, waitingSince: nil)
        return PageFrame(
            address: Address("customers", "100"), streams: [stream], stream: stream, now: now, csrf: "",
            isAdmin: false,
            theme: .system, hasKeys: true)
    }

    static func drawing(
        _ subscription: Subscription, _ events: [StoredEvent], known: Timeline.Known? = nil,
        span: TimelineSpan = .latest
    ) -> String {
        var html = HTMLWriter()
        Timeline(subscription, events: events, at: at(84), now: at(84), known: known, span: span)
            .write(in: frame, page: Address("customers", "100"), number: 0, to: &html)
        return String(decoding: html.bytes, as: UTF8.self)
    }

    @Test("every period, purchase and event is a link with its name in words")
    func names() {
        let (subscription, events) = Self.story
        let drawing = Self.drawing(subscription, events)

        for name in [
            "Refunded 22 Jul 2025 15:06 to 30 Jul 2025 15:06", "Paid 22 Jun 2025 15:06 to 22 Jul 2025 15:06, event 2",
            "Grace 3 Sep 2025 15:06 to 9 Sep 2025 15:06, event 6", "Bought 22 Jun 2025 15:06, 2.99 EUR",
            "Bought 22 Jul 2025 15:06, 2.99 EUR, refunded", "Event 3, TYPE_3, 22 Jul 2025 15:06, late 12 h",
        ] {
            #expect(drawing.contains("aria-label=\"\(name)"), "\(name)")
        }
        #expect(drawing.matches(of: /<a href="\/console\//).count == drawing.matches(of: /aria-label="/).count)
        #expect(drawing.matches(of: /class="elbow"/).count == 1)
        #expect(drawing.matches(of: /class="bar trial"/).count == 1)
        #expect(!drawing.contains("class=\"later\""))
    }

    @Test("what was learned after the time of knowledge is hatched, also a period that became shorter")
    func later() {
        let (subscription, events) = Self.story
        let whole = Self.drawing(
            subscription, events, known: Timeline.Known(at: Self.at(200), subscription: subscription))
        let nothing = Self.drawing(subscription, events, known: Timeline.Known(at: Self.at(-1), subscription: nil))

        #expect(!whole.contains("class=\"later\""))
        let periods = subscription.access.count + subscription.refunded.count
        let marks = periods + subscription.transactions.count + events.count
        // A refund is a mark without a link.
        #expect(nothing.matches(of: /class="later"/).count == marks + 1)
        #expect(nothing.matches(of: /aria-label="[^"]*, learned later"/).count == marks)
    }

    @Test("an end and a refund that were learned later are told apart from what was known")
    func learnedEnds() {
        var facts = SubscriptionFacts(originalTransactionId: "100")
        func told(_ transaction: Transaction, at days: Double, _ position: Int64) {
            facts.fold(
                Facts(transactions: [transaction], renewals: []), occurredAt: Self.at(days), receivedAt: Self.at(days),
                position: position)
        }
        told(Self.transaction(1, from: 0, to: 30), at: 0, 1)
        told(Self.transaction(2, from: 40, to: 70), at: 40, 2)
        let then = Subscription(facts)
        var shared = Self.transaction(1, from: 0, to: 30, refunded: 10)
        shared.revocationType = "FAMILY_REVOKE"
        told(shared, at: 50, 3)
        told(Self.transaction(2, from: 40, to: 70, refunded: 45), at: 51, 4)
        let drawing = Self.drawing(Subscription(facts), [], known: Timeline.Known(at: Self.at(50), subscription: then))

        #expect(drawing.contains("event 1, its end learned later\""), "\(drawing)")
        #expect(drawing.contains("2.99 EUR, refunded, learned later\""), "\(drawing)")
        // The period and the purchase are drawn as they were known, and the refund is hatched.
        #expect(
            drawing.contains(
                "aria-label=\"Paid 25 Jul 2025 15:06 to 24 Aug 2025 15:06, event 2, refunded, learned later\""),
            "\(drawing)")
        #expect(!drawing.contains("bar removed") && !drawing.contains("purchase refund"), "\(drawing)")
        #expect(drawing.matches(of: /height="14" class="later"><\/rect><path d="[^"]*" class="strike">/).count == 1)
        #expect(drawing.contains("aria-label=\"Bought 15 Jun 2025 15:06, 2.99 EUR\""), "\(drawing)")
        #expect(drawing.matches(of: /class="later"/).count == 2)
    }

    @Test("a restored copy of a purchase is not called another purchase")
    func copies() {
        var facts = SubscriptionFacts(originalTransactionId: "100")
        for (number, position) in [(1, Int64(1)), (2, 2)] {
            facts.fold(
                Facts(transactions: [Self.transaction(number, from: 0, to: 30)], renewals: []),
                occurredAt: Self.at(Double(number)), receivedAt: Self.at(Double(number)), position: position)
        }
        let drawing = Self.drawing(Subscription(facts), [])
        #expect(drawing.matches(of: /aria-label="Bought/).count == 1)
        #expect(drawing.matches(of: /aria-label="Restored 15 Jun 2025 15:06"/).count == 1)
    }

    @Test("what another customer has since is not drawn")
    func passedOn() {
        let (subscription, events) = Self.story
        var html = HTMLWriter()
        Timeline(
            subscription, events: events, at: Self.at(84), now: Self.at(84), known: nil, span: .latest,
            owned: [Instant.earliest..<Self.at(40)]
        ).write(in: Self.frame, page: Address("customers", "100"), number: 0, to: &html)
        let drawing = String(decoding: html.bytes, as: UTF8.self)

        #expect(drawing.contains("Bought 22 Jul 2025 15:06") && drawing.contains("TYPE_3"), "\(drawing)")
        for later in ["Grace ", "TYPE_4", "TYPE_5", "Bought 4 Aug 2025"] {
            #expect(Self.drawing(subscription, events).contains(later), "\(later)")
            #expect(!drawing.contains(later), "\(later)")
        }
        #expect(!drawing.contains("class=\"in-retry\""))
    }

    @Test("two clocks at about the same time share one label")
    func labels() {
        let (subscription, events) = Self.story
        let near = Self.drawing(
            subscription, events, known: Timeline.Known(at: Self.at(83), subscription: subscription))
        let far = Self.drawing(
            subscription, events, known: Timeline.Known(at: Self.at(20), subscription: subscription))

        #expect(near.contains(">known, now</text>"))
        #expect(far.contains(">known</text>") && far.contains(">now</text>"))
    }

    @Test("marks beyond sixty are joined, and lead to a closer span")
    func joined() {
        var facts = SubscriptionFacts(originalTransactionId: "100")
        facts.fold(
            Facts(
                transactions: (0..<500).map { Self.transaction($0, from: Double($0), to: Double($0 + 1)) }, renewals: []
            ),
            occurredAt: Self.at(500), receivedAt: Self.at(500), position: 1)
        let drawing = Self.drawing(Subscription(facts), [])

        #expect(drawing.contains(" periods\""))
        #expect(drawing.contains("from=2025"))
        #expect(drawing.matches(of: #/<a /#).count < 130)
        #expect(drawing.utf8.count < 60_000)
    }

    @Test("the counts of joined marks have room beside each other")
    func counts() throws {
        let drawing = Self.drawing(Self.months(400), [], span: .all)
        let places = drawing.matches(of: /<text x="([0-9.]+)" y="[0-9.]+" class="small">×([0-9]+)</).compactMap {
            match in
            Double(match.1).map { (x: $0, digits: match.2.count) }
        }

        try #require(places.count > 8)
        for (left, right) in zip(places, places.dropFirst()) {
            // A mark reaches 16 units to the left of its count.
            #expect(left.x + Double(left.digits + 1) * 7 <= right.x - 16, "\(left) \(right)")
        }
    }

    @Test("a renewal that was switched off just before now is named, as one long before is")
    func switchedOff() {
        func drawing(offOn days: Double) -> String {
            var facts = SubscriptionFacts(originalTransactionId: "100")
            facts.fold(
                Facts(transactions: [Self.transaction(0, from: 0, to: 100)], renewals: [Self.renewal(true, at: 0)]),
                occurredAt: Self.at(0), receivedAt: Self.at(0), position: 1)
            facts.fold(
                Facts(transactions: [], renewals: [Self.renewal(false, at: days)]), occurredAt: Self.at(days),
                receivedAt: Self.at(days), position: 2)
            return Self.drawing(Subscription(facts), [])
        }

        for days in [40.0, 83.9] {
            #expect(drawing(offOn: days).matches(of: />off<\/text>/).count == 1, "\(days)")
        }
    }

    @Test("the legend explains each kind of mark that has no name of its own")
    func legend() {
        let (subscription, events) = Self.story
        let drawing = Self.drawing(subscription, events)
        let legend = Self.legend(subscription)

        for kind in [
            "purchase", "purchase refund", "strike", "bar removed", "elbow", "on", "off", "in-retry", "bar paid",
            "bar trial", "bar grace",
        ] {
            #expect(drawing.contains("class=\"\(kind)\""), "\(kind)")
            #expect(legend.contains("class=\"\(kind)\""), "\(kind)")
        }
        #expect(legend.contains("fill=\"url(#dots)\"></rect></svg>free trial</li>"), "\(legend)")
        #expect(legend.contains("fill=\"url(#bars)\"></rect></svg>grace: "), "\(legend)")
    }

    private static func legend(_ subscription: Subscription, known: Timeline.Known? = nil) -> String {
        var html = HTMLWriter()
        let timeline = Timeline(subscription, events: [], at: at(84), now: at(84), known: known, span: .latest)
        Timeline.writeLegend(of: [timeline], to: &html)
        return String(decoding: html.bytes, as: UTF8.self)
    }

    @Test("the legend has the kinds of access that are drawn, and hatching if something was learned later")
    func legendOfKinds() {
        var given = Self.transaction(0, from: 0, to: 30)
        given.inAppOwnershipType = Transaction.granted
        var facts = SubscriptionFacts(originalTransactionId: "100")
        facts.fold(
            Facts(transactions: [given], renewals: []), occurredAt: Self.at(0), receivedAt: Self.at(0), position: 1)
        let own = Self.legend(Subscription(facts))
        let story = Self.legend(
            Self.story.subscription, known: Timeline.Known(at: Self.at(10), subscription: nil))

        #expect(own.contains("class=\"bar given\"></rect></svg>given by hand</li>"), "\(own)")
        for kind in ["paid", "trial", "grace"] { #expect(!own.contains("class=\"bar \(kind)\""), "\(kind)") }
        #expect(!story.contains("given by hand") && story.contains("class=\"later\""), "\(story)")
        #expect(!own.contains("class=\"later\""))
    }

    /// A subscription with a month a purchase.
    private static func months(_ count: Int) -> Subscription {
        var facts = SubscriptionFacts(originalTransactionId: "100")
        facts.fold(
            Facts(
                transactions: (0..<count).map {
                    Self.transaction($0, from: Double($0 * 30), to: Double($0 * 30 + 30))
                }, renewals: []), occurredAt: Self.at(0), receivedAt: Self.at(0), position: 1)
        return Subscription(facts)
    }

    private static func timeline(_ subscription: Subscription, at days: Double, span: TimelineSpan) -> Timeline {
        Timeline(subscription, events: [], at: Self.at(days), now: Self.at(days), known: nil, span: span)
    }

    @Test("of a long history, the latest 400 days are shown at first, and all of it on request")
    func latest() {
        let long = Self.months(36)
        let latest = Self.timeline(long, at: 1075, span: .latest)
        let all = Self.timeline(long, at: 1075, span: .all)
        let short = Self.timeline(Self.months(13), at: 380, span: .latest)

        #expect(latest.isPart && !latest.contains(Self.at(600)) && latest.contains(Self.at(1080)))
        #expect(!all.isPart && all.contains(Self.at(0)) && all.contains(Self.at(1080)))
        #expect(!short.isPart && short.contains(Self.at(0)))
        var html = HTMLWriter()
        TimelineSpan.latest.writeCaption(isPart: true, Address("customers", "100"), to: &html)
        TimelineSpan.all.writeCaption(isPart: false, Address("customers", "100").with("span", "all"), to: &html)
        let captions = String(decoding: html.bytes, as: UTF8.self)
        #expect(captions.matches(of: />All time</).count == 1 && captions.contains("/customers/100?span=all\""))
        #expect(captions.contains(#"href="/console/customers/100">Latest</a>"#), "\(captions)")
    }

    @Test("what ended long ago is drawn as large as it is, not up to today")
    func longAgo() {
        let old = Self.timeline(Self.months(3), at: 900, span: .latest)
        let recent = Self.timeline(Self.months(3), at: 100, span: .latest)

        #expect(!old.contains(Self.at(900)) && old.contains(Self.at(90)) && !old.isPart)
        #expect(recent.contains(Self.at(100)))
    }

    @Test("a subscription without dates, events or access has a picture too")
    func empty() {
        let drawing = Self.drawing(Subscription(SubscriptionFacts(originalTransactionId: "100")), [])

        #expect(drawing.contains("<svg"))
        #expect(!drawing.contains("nan"))
        #expect(!drawing.contains("inf"))
    }

    @Test("the drawing is the one that was looked at")
    func golden() throws {
        let (subscription, events) = Self.story
        let drawing = Self.drawing(subscription, events).replacing("><", with: ">\n<") + "\n"
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("Fixtures/timeline.svg.html")
        if ProcessInfo.processInfo.environment["SUBLEDGER_WRITE_DRAWINGS"] != nil {
            try drawing.write(to: file, atomically: true, encoding: .utf8)
        }

        #expect(try String(contentsOf: file, encoding: .utf8) == drawing)
    }
}
